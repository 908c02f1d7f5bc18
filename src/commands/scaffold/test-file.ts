/** The text of a new provider's tests: the conformance suite (docs/testing.md) on an API that the file plays. */
import type { SignatureScheme } from '../../providers/signatures/scheme-rules.ts'
import type { WebhookDoor } from '../../webhooks/catalogue/door.ts'
import { literal } from './door-text.ts'
import type { Part, ProviderNames } from './names.ts'
import { blocks, importStatement, lines, quoted } from './source-text.ts'

export function testFile(names: ProviderNames, parts: ReadonlySet<Part>, door: WebhookDoor): string {
  const webhooks = parts.has('webhooks')
  return `${blocks(
    lines(
      `/**
 * ${names.label}, put through the contracts that it implements, on answers that stand here for those of its API.
 *
 * Tests of your own: docs/testing.md of durable-integrations.
 */`,
      webhooks && importStatement('import', KEY_IMPORTS[kindOfKeys(door.signature)], 'node:crypto'),
      importStatement('import type', ['PlayedApi'], TESTING),
      importStatement('import', ['describeProvider'], TESTING),
      importStatement('import', ['afterAll', 'describe', 'it'], 'vitest'),
      // Not `.ts`, which compiles only where `allowImportingTsExtensions` is set: this one does with and without it.
      importStatement('import', [names.className], `./${names.identifier}.js`),
    ),
    webhooks && keysText(door),
    parts.has('sync') && ITEMS,
    api(parts, webhooks ? door : null),
    suite(names, parts, door),
  )}\n`
}

const TESTING = 'durable-integrations/testing'

/** More than a page of them, by id. */
const ITEMS = `const ITEMS = [
  { id: '1', name: 'First', updated_at: '2026-03-01T10:00:00Z' },
  { id: '2', name: 'Second', updated_at: '2026-03-01T11:00:00Z' },
  { id: '3', name: 'Third', updated_at: '2026-03-01T12:00:00Z' },
]
const PAGE_SIZE = 2
const CURSOR = '2026-03-01T11:00:00Z'`

type KindOfKeys = 'text' | 'hex' | 'standard' | 'pair' | 'published' | 'certified'

const KEY_IMPORTS: Readonly<Record<KindOfKeys, readonly string[]>> = {
  text: [],
  hex: [],
  standard: [],
  pair: ['generateKeyPairSync'],
  published: ['generateKeyPairSync'],
  certified: [],
}

function kindOfKeys(signature: SignatureScheme): KindOfKeys {
  if ('certificate' in signature) return 'certified'
  if ('jwks' in signature) return 'published'
  if (signature.scheme === 'standard-webhooks') return 'standard'
  if (signature.scheme === 'hmac') return signature.key === undefined || signature.key === 'text' ? 'text' : 'hex'
  const isPublic =
    signature.scheme !== 'token' && !('algorithms' in signature && signature.algorithms[0]?.startsWith('HS'))
  return isPublic ? 'pair' : 'text'
}

/** Made up, and long enough for the scheme. */
function keysText(door: WebhookDoor): string {
  const { signature } = door
  switch (kindOfKeys(signature)) {
    case 'text':
      return "const SECRET = 'the-secret-of-the-webhook:of-32-bytes'\nconst OTHER_SECRET = 'another-secret-of-the-webhook:so-long'"
    case 'hex':
      return "const SECRET = 'ab'.repeat(32)\nconst OTHER_SECRET = 'cd'.repeat(32)"
    case 'standard':
      return `const SECRET = 'whsec_${'A'.repeat(43)}='\nconst OTHER_SECRET = 'whsec_${'B'.repeat(42)}A='`
    case 'pair':
      return pairText(signature)
    case 'published':
      return PUBLISHED
    case 'certified':
      return "const SECRET = 'none: the certificate is theirs'"
  }
}

/** The API of the test publishes the key. */
const PUBLISHED = `const SECRET = 'none: the keys are published'
const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
const SIGNING_KEY = privateKey.export({ format: 'pem', type: 'pkcs8' }).toString()`

const PAIRS: Readonly<Record<string, string>> = {
  ed25519: "generateKeyPairSync('ed25519')",
  ecdsa: "generateKeyPairSync('ec', { namedCurve: 'prime256v1' })",
}

function pairText(signature: SignatureScheme): string {
  const format = 'key' in signature ? (signature.key ?? 'pem') : 'pem'
  const asText =
    format === 'pem'
      ? "publicKey.export({ format: 'pem', type: 'spki' }).toString()"
      : format === 'spki'
        ? "publicKey.export({ format: 'der', type: 'spki' }).toString('base64')"
        : `Buffer.from(publicKey.export({ format: 'jwk' }).x ?? '', 'base64url').toString('${format}')`
  const made = PAIRS[signature.scheme] ?? "generateKeyPairSync('rsa', { modulusLength: 2048 })"
  return `function keys(): [secret: string, signingKey: string] {
  const { privateKey, publicKey } = ${made}
  const secret = ${asText}
  return [secret, privateKey.export({ format: 'pem', type: 'pkcs8' }).toString()]
}

const [SECRET, SIGNING_KEY] = keys()
const [OTHER_SECRET, OTHER_SIGNING_KEY] = keys()`
}

function api(parts: ReadonlySet<Part>, door: WebhookDoor | null): string {
  const jwks = door !== null && 'jwks' in door.signature ? (door.signature.jwks ?? null) : null
  const cases = [
    ...(jwks === null ? [] : [keysCase(jwks.url)]),
    ...(parts.has('health') || parts.has('identity') ? [ACCOUNT_CASE] : []),
    ...(parts.has('sync') ? [ITEMS_CASE] : []),
    ...(parts.has('writes') ? [ADDING_CASE] : []),
    ...(parts.has('oauth') ? [OAUTH_CASES] : []),
  ]
  if (cases.length === 0)
    return `// TODO: what the API answers.
const api: PlayedApi = () => Response.json({ message: 'Not found' }, { status: 404 })`
  const usesPath = 'const { pathname } = new URL(request.url)'
  const usesQuery = 'const { pathname, searchParams } = new URL(request.url)'
  return `// TODO: what the API answers, as its documentation or a recording has it.
const api: PlayedApi = (request) => {
  ${parts.has('sync') ? usesQuery : usesPath}
  switch (\`\${request.method} \${pathname}\`) {
${cases.join('\n')}
    default:
      return Response.json({ message: 'Not found' }, { status: 404 })
  }
}`
}

const keysCase = (url: string): string => `    case 'GET ${new URL(url).pathname}':
      return Response.json({ keys: [publicKey.export({ format: 'jwk' })] })`

const ACCOUNT_CASE = `    case 'GET /v1/account':
      return Response.json({ id: 'acc_1', name: 'Ada', email: 'ada@example.com' })`

const ITEMS_CASE = `    case 'GET /v1/items': {
      const since = searchParams.get('updated_since') ?? ''
      const changed = ITEMS.filter((item) => item.updated_at >= since)
      const behind = changed.filter((item) => item.id > (searchParams.get('after') ?? ''))
      const items = behind.slice(0, PAGE_SIZE)
      return Response.json({ items, next: items.length < behind.length ? items.at(-1)?.id : null })
    }`

const ADDING_CASE = `    case 'POST /v1/items':
      return Response.json({ id: '4' }, { status: 201 })`

const OAUTH_CASES = `    case 'POST /oauth/token':
      return Response.json({ access_token: 'a-newer-access-token', token_type: 'Bearer', expires_in: 3600 })
    case 'POST /oauth/revoke':
      return new Response(null, { status: 200 })`

function suite(names: ProviderNames, parts: ReadonlySet<Part>, door: WebhookDoor): string {
  const { identifier, className } = names
  const client = parts.has('oauth') ? "{ id: 'a-client-id', secret: 'a-client-secret' }" : ''
  return lines(
    `const provider = () => new ${className}(${client})`,
    '',
    'describeProvider(',
    `  '${identifier}',`,
    '  provider,',
    '  {',
    `    credentials: ${credentials(parts)},`,
    parts.has('oauth') && "    secrets: ['a-client-secret', 'a-newer-access-token'],",
    '    api,',
    parts.has('writes') && WRITE,
    parts.has('webhooks') && metadata(door),
    parts.has('webhooks') && webhook(door),
    parts.has('sync') && '    checkpoints: ITEMS.map((item) => item.updated_at),\n    cursor: CURSOR,',
    '  },',
    '  { describe, it, afterAll },',
    ')',
  )
}

const WRITE =
  "    write: (integration, idempotencyKey) => provider().addItem(integration, { name: 'Fourth' }, idempotencyKey),"

function credentials(parts: ReadonlySet<Part>): string {
  const own = parts.has('oauth')
    ? ["access_token: 'an-access-token'", "refresh_token: 'a-refresh-token'"]
    : ["token: 'an-api-token'"]
  return `{ ${[...own, ...(parts.has('webhooks') ? ['webhook_secret: SECRET'] : [])].join(', ')} }`
}

/** A signed address is that of the fixtures, not that of the test's door. */
function metadata({ signature, sample }: WebhookDoor): string | false {
  const signsUrl = JSON.stringify(signature).includes('"part":"url"')
  const found = { ...sample.metadata, ...(signsUrl ? { webhook_url: 'https://hooks.example.com/webhook' } : {}) }
  const members = Object.entries(found).map(([name, value]) => `${name}: ${quoted(value)}`)
  return members.length > 0 && `    metadata: { ${members.join(', ')} },`
}

function webhook({ signature, deliveryId, eventType, sample }: WebhookDoor): string | false {
  // A certificate is the provider's own: nothing else can sign in its place.
  if ('certificate' in signature) return false
  const kind = kindOfKeys(signature)
  const { headers = {}, body } = sample
  const idHeader =
    deliveryId !== undefined && 'header' in deliveryId && deliveryId.header in headers ? deliveryId.header : null
  const others = Object.entries(headers).filter(([name]) => name !== idHeader)
  const event = eventType !== undefined && 'header' in eventType ? headers[eventType.header] : undefined
  return lines(
    '    webhook: {',
    `      body: ${quoted(body)},`,
    idHeader !== null && `      deliveryIdHeader: ${quoted(idHeader)},`,
    others.length > 0 && `      headers: ${literal(Object.fromEntries(others), '      ', 'headers')},`,
    event !== undefined && `      event: ${quoted(event)},`,
    '      secret: SECRET,',
    `      otherSecret: ${kind === 'published' ? 'SECRET' : 'OTHER_SECRET'},`,
    kind === 'published' && '      signingKey: SIGNING_KEY,',
    kind === 'pair' && '      signingKey: SIGNING_KEY,\n      otherSigningKey: OTHER_SIGNING_KEY,',
    '    },',
  )
}
