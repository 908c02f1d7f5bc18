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

/** What is wrong with members that are values, in words. One that is undefined is not there. */
export function wrongValues(provider: object): string[] {
  return Object.entries(CONTRACT_VALUES).flatMap(([member, { allowed }]) => {
    if (!isWrongValue(provider, member)) return []
    return [`${member} must be ${allowed}, or left out; it is ${shownValue(Reflect.get(provider, member))}`]
  })
}

export function isWrongValue(provider: object, member: string): boolean {
  const value: unknown = Reflect.get(provider, member)
  return value !== undefined && CONTRACT_VALUES[member]?.isAllowed(value) === false
}

function shownValue(value: unknown): string {
  if (typeof value === 'function') return 'a function'
  if (typeof value === 'string') return JSON.stringify(value)
  return isObject(value) ? 'an object' : String(value)
}
