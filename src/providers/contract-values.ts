/** Members of the contracts that are values, and what each may be. Every other member is a method. */

interface AllowedValue {
  readonly isAllowed: (value: unknown) => boolean
  readonly allowed: string
}

const isObject = (value: unknown): boolean => typeof value === 'object' && value !== null
const SECONDS: AllowedValue = {
  isAllowed: (value) => Number.isFinite(value) && (value as number) > 0,
  allowed: 'a number of seconds above 0',
}

export const CONTRACT_VALUES: Readonly<Record<string, AllowedValue>> = {
  supportsIdempotency: { isAllowed: (value) => value === true, allowed: 'true' },
  idempotencyWindowSeconds: SECONDS,
  reconcileLookbackSeconds: SECONDS,
  streams: { isAllowed: isObject, allowed: 'an object with a stream under each name, and no method' },
  signature: { isAllowed: isObject, allowed: "an object such as { scheme: 'hmac', … }, and no method" },
  webhookSecretFrom: {
    isAllowed: (value) => value === 'us' || value === 'provider' || value === 'none',
    allowed: "'us', 'provider' or 'none'",
  },
}

const isMethod = (provider: object, member: string): boolean => typeof Reflect.get(provider, member) === 'function'

/** Names that a host plausibly gives to a method of its own. It is one wherever the contract stands, or is left out, without it. */
const MAY_BE_OWN: Readonly<Record<string, (provider: object) => boolean>> = {
  signature: (provider) => isMethod(provider, 'verifyWebhookSignature') || !isMethod(provider, 'handleWebhook'),
  streams: (provider) => isMethod(provider, 'sync') || !isMethod(provider, 'defaultRateLimit'),
}

/** What is wrong with members that are values, in words. One that is undefined is not there. */
export function wrongValues(provider: object): string[] {
  return Object.entries(CONTRACT_VALUES).flatMap(([member, { allowed }]) => {
    if (!isWrongValue(provider, member)) return []
    const own = isMethod(provider, member) ? '; rename it if it is a method of your own' : ''
    return [`${member} must be ${allowed}, or left out; it is ${shownValue(Reflect.get(provider, member))}${own}`]
  })
}

export function isWrongValue(provider: object, member: string): boolean {
  const value: unknown = Reflect.get(provider, member)
  if (isMethod(provider, member) && MAY_BE_OWN[member]?.(provider) === true) return false
  return value !== undefined && CONTRACT_VALUES[member]?.isAllowed(value) === false
}

function shownValue(value: unknown): string {
  if (typeof value === 'function') return 'a function'
  if (typeof value === 'string') return JSON.stringify(value)
  return isObject(value) ? 'an object' : String(value)
}
