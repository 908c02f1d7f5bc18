/**
 * The kinds of values that configuration keys take: what is allowed, and how a variable's text becomes a value.
 *
 * Values given in code are never coerced. Text is strict: what does not read as the kind stays text, so that the schema
 * refuses it and the problem shows what was given.
 * Rule: docs/behaviour/configuration.md, "Values".
 */

import { z } from 'zod'
import { isLoopback, SCOPES } from '../access/rules.ts'
import { NOTIFICATION_TYPES } from '../events/notification-rules.ts'

export interface ValueKind<T> {
  /** As the reference table writes it: `int`, `?int`, `string`, `?string`, `bool`, `array`. */
  readonly type: string
  /** What is allowed, one phrase. It follows "expected" in a problem. */
  readonly allowed: string
  readonly schema: z.ZodType<T>
  readonly fromText: (text: string) => unknown
  /** Its values hold secrets or their digests: problems show none of them. */
  readonly secret: boolean
}

/** The largest Postgres `integer`, in which several of the values end up. */
export const MAX_INT = 2_147_483_647
export const MAX_PORT = 65_535

const ROUTE_PREFIX = /^[\w-]+(\/[\w-]+)*$/
const ROUTE_PATH = /^(\/[\w-]+)+$/
const QUEUE_NAME = /^[A-Za-z0-9_.-]{1,64}$/
const SHA256_HEX = /^[0-9a-f]{64}$/i
/** SHA-256 of nothing: as a token's digest it would let an empty token in. */
const SHA256_OF_NOTHING = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'
const WEBHOOK_SECRET_PREFIX = 'whsec_'

export function int(from = 1, to = MAX_INT): ValueKind<number> {
  return kind('int', intRange(from, to), intSchema(from, to), readInt)
}

export function bool(): ValueKind<boolean> {
  return kind('bool', 'true or false', z.boolean(), readBool)
}

export function oneOf<const Option extends string>(...options: Option[]): ValueKind<Option> {
  return text(options.map((option) => `"${option}"`).join(' or '), z.enum(options))
}

export function matching(pattern: RegExp): ValueKind<string> {
  return text(`a string that matches ${pattern.source}`, z.string().regex(pattern))
}

export function anyString(): ValueKind<string> {
  return text('a string', z.string())
}

export function queueName(): ValueKind<string> {
  return matching(QUEUE_NAME)
}

/** Outer slashes are trimmed: `/hooks/` is `hooks`. */
export function routePrefix(): ValueKind<string> {
  return text(
    'path segments of letters, digits, "_" and "-", such as "integrations" or "api/integrations"',
    z
      .string()
      .overwrite((prefix) => prefix.replace(/^\/+|\/+$/g, ''))
      .regex(ROUTE_PREFIX),
  )
}

/** Of one route. */
export function routePath(): ValueKind<string> {
  return text(
    'a path of "/" and segments of letters, digits, "_" and "-", such as "/metrics"',
    z.string().regex(ROUTE_PATH),
  )
}

/** Where a browser is sent. Only forms that no browser takes for another host's address. */
export function redirectTarget(): ValueKind<string> {
  return text(
    'a path with exactly one leading "/" and no backslash, or an absolute http(s) URL',
    z.string().refine(isRedirectTarget),
  )
}

/** Seconds before each retry; the last entry is reused. */
export function backoff(): ValueKind<readonly number[]> {
  const allowed = `a list of 1 to 100 integers from 0 to ${MAX_INT}`
  const schema = z.array(intSchema(0, MAX_INT)).min(1).max(100)
  return kind('array', allowed, schema, (text) => readList(text, readInt))
}

/** Names of registered middleware; whether they are registered is checked when the registry is known. */
export function middlewareNames(): ValueKind<readonly string[]> {
  const error = 'the name of a registered middleware'
  const schema = z.array(z.string({ error }).min(1, { error }))
  return kind('array', 'a list of names of registered middleware', schema, readNames)
}

const VARIABLE_NAME = /^[A-Za-z_][A-Za-z0-9_]*$/
/** Of the framework, its SDKs and its database driver; names are compared as Windows does it, without their case. */
const FRAMEWORK_VARIABLE = /^(INTEGRATIONS_|TEMPORAL_|DATABASE_URL|PG|OTEL_|NODE_)/i

/** Variables that hold what providers want. None of the framework's own: those hold what guards everything else. */
export function hostVariables(): ValueKind<readonly string[]> {
  const framework = 'INTEGRATIONS_…, TEMPORAL_…, DATABASE_URL…, PG…, OTEL_…, NODE_…'
  const error = `the name of a variable that does not belong to the framework (${framework})`
  const name = z
    .string({ error })
    .regex(VARIABLE_NAME, { error })
    .refine((given) => !FRAMEWORK_VARIABLE.test(given), { error })
  const allowed = `a list of names of variables, none of the framework (${framework})`
  return kind('array', allowed, z.array(name), readNames)
}

/** Provider identifier → queue. Without a prototype, so that a provider named "constructor" has no queue by accident. */
export function queuesByProvider(): ValueKind<Readonly<Record<string, string>>> {
  const queue = z.string({ error: queueName().allowed }).regex(QUEUE_NAME, { error: queueName().allowed })
  return kind(
    'array',
    'an object of provider identifiers and queue names, such as {"github": "slow"}; [] means the same as {}',
    z
      .preprocess((given) => (Array.isArray(given) && given.length === 0 ? {} : given), z.record(z.string(), queue))
      .transform((queues): Record<string, string> => Object.assign(Object.create(null), queues)),
    readJson,
  )
}

const TOKEN_NAME = { error: 'a name of 1 to 64 characters' }
const TOKEN_DIGEST = { error: 'the SHA-256 of the token, 64 hex digits' }

const operatorToken = z.strictObject(
  {
    name: z.string(TOKEN_NAME).min(1, TOKEN_NAME).max(64, TOKEN_NAME),
    sha256: z
      .string(TOKEN_DIGEST)
      .regex(SHA256_HEX, TOKEN_DIGEST)
      .toLowerCase()
      .refine((digest) => digest !== SHA256_OF_NOTHING, { error: 'the SHA-256 of a token that is not empty' }),
    scopes: z
      .array(z.enum(SCOPES, { error: '"read" or "operate"' }), { error: 'a list of "read" and "operate"' })
      .min(1, { error: 'at least one of "read" and "operate"' })
      .readonly(),
  },
  { error: 'an object {name, sha256, scopes}' },
)
export type OperatorToken = Readonly<z.infer<typeof operatorToken>>

export function operatorTokens(): ValueKind<readonly OperatorToken[]> {
  const schema = z.array(operatorToken).superRefine((tokens, context) => {
    for (const field of ['name', 'sha256'] as const)
      for (const index of repeats(tokens.map((token) => token[field])))
        context.addIssue({ code: 'custom', path: [index, field], message: `a ${field} that no other token has` })
  })
  return { ...kind('array', 'a list of objects {name, sha256, scopes}', schema, readJson), secret: true }
}

const OIDC_ISSUER = 'an https URL without user info or query, or an http one of this machine'
const OIDC_PEOPLE =
  'a list of e-mail addresses, of domains such as "@example.com", or of claims such as "groups=operators"'
const words = z
  .array(z.string({ error: OIDC_PEOPLE }).min(1, { error: OIDC_PEOPLE }), { error: OIDC_PEOPLE })
  .readonly()
  .optional()
const filled = (what: string) => z.string({ error: what }).min(1, { error: what })

const oidcSettings = z.strictObject(
  {
    issuer: z.string({ error: OIDC_ISSUER }).refine(isIssuer, { error: OIDC_ISSUER }),
    client_id: filled("the client's id"),
    client_secret: filled("the client's secret; left out for a public client").optional(),
    scopes: filled('scopes with a space between them, such as "openid email"').optional(),
    read: words,
    operate: words,
  },
  { error: 'an object {issuer, client_id, client_secret?, scopes?, read?, operate?}' },
)
export type OidcSettings = Readonly<z.infer<typeof oidcSettings>>

export function oidc(): ValueKind<OidcSettings> {
  const allowed = 'an object {issuer, client_id, client_secret?, scopes?, read?, operate?}'
  return { ...kind('object', allowed, oidcSettings, readJson), secret: true }
}

/** A page that people open, an http one only on this very machine. @param part that it must name */
export function pageUrl(part?: string): ValueKind<string> {
  const allowed = `an https URL without user info${part === undefined ? '' : ` that has ${part}`}, or an http one of this machine`
  const schema = z.string({ error: allowed }).refine(
    (text) => {
      const url = part === undefined ? text : text.replaceAll(part, '0')
      if (!isHttpUrl(url) || hasUserInfo(url) || (part !== undefined && url === text)) return false
      const { protocol, hostname } = new URL(url)
      return protocol === 'https:' || isLoopback(hostname)
    },
    { error: allowed },
  )
  return text(allowed, schema)
}

/** RFC 9700, section 2.6: http on this very machine only. */
function isIssuer(text: string): boolean {
  if (!isHttpUrl(text) || hasUserInfo(text)) return false
  const { protocol, hostname, search, hash } = new URL(text)
  return search === '' && hash === '' && (protocol === 'https:' || isLoopback(hostname))
}

const WEBHOOK_SECRET = '"whsec_" and the base64 of 24 to 64 bytes'
const webhookSecret = z.string({ error: WEBHOOK_SECRET }).refine(isWebhookSecret, { error: WEBHOOK_SECRET })

const NOTIFICATION_TARGET = 'an object {url, secret, types?, allow_private?, format?}'
const ABSOLUTE_URL = 'an absolute http(s) URL without user info'

const anyNotificationTarget = {
  url: z.string({ error: ABSOLUTE_URL }).refine((url) => isHttpUrl(url) && !hasUserInfo(url), { error: ABSOLUTE_URL }),
  types: z
    .array(z.enum(NOTIFICATION_TYPES, { error: `one of ${NOTIFICATION_TYPES.join(', ')}` }), {
      error: `a list of ${NOTIFICATION_TYPES.join(', ')}`,
    })
    .min(1, { error: 'at least one type; leave it out for all of them' })
    .readonly()
    .optional(),
  allow_private: z.boolean({ error: 'true or false' }).optional(),
}

const notificationTarget = z.discriminatedUnion(
  'format',
  [
    z.strictObject({ ...anyNotificationTarget, format: z.literal('standard').optional(), secret: webhookSecret }),
    // Slack reads no signature: its URL is the secret.
    z.strictObject({ ...anyNotificationTarget, format: z.literal('slack'), secret: webhookSecret.optional() }),
  ],
  { error: ({ path }) => (path?.at(-1) === 'format' ? '"standard" or "slack"' : NOTIFICATION_TARGET) },
)
export type NotificationTarget = Readonly<z.infer<typeof notificationTarget>>

export function notificationTargets(): ValueKind<readonly NotificationTarget[]> {
  const allowed = 'a list of objects {url, secret, types?, allow_private?, format?}'
  return { ...kind('array', allowed, z.array(notificationTarget), readJson), secret: true }
}

export function nullable<T>(inner: ValueKind<T>): ValueKind<T | null> {
  return { ...inner, type: `?${inner.type}`, allowed: `${inner.allowed}, or null`, schema: inner.schema.nullable() }
}

function kind<T>(
  type: string,
  allowed: string,
  schema: z.ZodType<T>,
  fromText: (text: string) => unknown,
): ValueKind<T> {
  return { type, allowed, schema, fromText, secret: false }
}

function text<T>(allowed: string, schema: z.ZodType<T>): ValueKind<T> {
  return kind('string', allowed, schema, (given) => given)
}

function intRange(from: number, to: number): string {
  return `an integer from ${from} to ${to}`
}

function intSchema(from: number, to: number): z.ZodType<number> {
  const error = intRange(from, to)
  return z.int({ error }).min(from, { error }).max(to, { error })
}

function readInt(text: string): unknown {
  return /^-?\d+$/.test(text) ? Number(text) : text
}

function readBool(text: string): unknown {
  if (text === 'true' || text === '1') return true
  if (text === 'false' || text === '0') return false
  return text
}

function readJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/** A JSON list, or entries between commas. */
function readList(text: string, readEntry: (entry: string) => unknown): unknown {
  if (text.trimStart().startsWith('[')) return readJson(text)
  return text.split(',').map((entry) => readEntry(entry.trim()))
}

function readNames(text: string): unknown {
  return readList(text, (entry) => entry)
}

/** Positions of the values that stood earlier in the list. */
function repeats(values: readonly string[]): number[] {
  return values.flatMap((value, index) => (values.indexOf(value) < index ? [index] : []))
}

function isRedirectTarget(target: string): boolean {
  if (target.startsWith('/')) return !target.startsWith('//') && !hasUnsafeCharacters(target)
  return isHttpUrl(target)
}

/** The secret of a signed webhook (Standard Webhooks, "Webhook secrets"). */
function isWebhookSecret(secret: string): boolean {
  if (!secret.startsWith(WEBHOOK_SECRET_PREFIX)) return false
  const encoded = secret.slice(WEBHOOK_SECRET_PREFIX.length)
  const bytes = Buffer.from(encoded, 'base64')
  return bytes.length >= 24 && bytes.length <= 64 && bytes.toString('base64') === encoded
}

/** Whether the text is the address of a web server. Strict: no careless reader must take it for another address. */
export function isHttpUrl(text: string): boolean {
  return /^https?:\/\//i.test(text) && !hasUnsafeCharacters(text) && URL.canParse(text)
}

export function hasUserInfo(url: string): boolean {
  const { username, password } = new URL(url)
  return username !== '' || password !== ''
}

/** Browsers drop tabs and line ends and read `\` as `/` (WHATWG URL): `/<tab>/host` would become `//host`. */
function hasUnsafeCharacters(text: string): boolean {
  return /[\\\s\p{Cc}]/u.test(text)
}
