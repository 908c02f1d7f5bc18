/** The text of a new provider's tests: the conformance suite (docs/testing.md) on an API that the file plays. */
import type { Part, ProviderNames } from './names.ts'
import { blocks, importStatement, lines } from './source-text.ts'

export function testFile(names: ProviderNames, parts: ReadonlySet<Part>): string {
  const webhooks = parts.has('webhooks')
  return `${blocks(
    lines(
      `/**
 * ${names.label}, put through the contracts that it implements, on answers that stand here for those of its API.
 *
 * Tests of your own: docs/testing.md of durable-integrations.
 */`,
      importStatement('import type', ['PlayedApi', ...(webhooks ? ['WebhookSigner'] : [])], TESTING),
      importStatement('import', ['describeProvider', ...(webhooks ? ['hmacSigner'] : [])], TESTING),
      importStatement('import', ['afterAll', 'describe', 'it'], 'vitest'),
      // Not `.ts`, which compiles only where `allowImportingTsExtensions` is set: this one does with and without it.
      importStatement('import', [names.className], `./${names.identifier}.js`),
    ),
    webhooks && SECRETS,
    parts.has('sync') && ITEMS,
    api(parts),
    webhooks && signer(names),
    suite(names, parts),
  )}\n`
}

const TESTING = 'durable-integrations/testing'

const SECRETS = `const SECRET = 'the-secret-of-the-webhook'
const OTHER_SECRET = 'another-secret-of-the-webhook'`

/** More than a page of them, by id. */
const ITEMS = `const ITEMS = [
  { id: '1', name: 'First', updated_at: '2026-03-01T10:00:00Z' },
  { id: '2', name: 'Second', updated_at: '2026-03-01T11:00:00Z' },
  { id: '3', name: 'Third', updated_at: '2026-03-01T12:00:00Z' },
]
const PAGE_SIZE = 2
const CURSOR = '2026-03-01T11:00:00Z'`

function api(parts: ReadonlySet<Part>): string {
  const cases = [
    ...(parts.has('health') || parts.has('identity') ? [ACCOUNT_CASE] : []),
    ...(parts.has('sync') ? [ITEMS_CASE] : []),
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

const ACCOUNT_CASE = `    case 'GET /v1/account':
      return Response.json({ id: 'acc_1', name: 'Ada', email: 'ada@example.com' })`

const ITEMS_CASE = `    case 'GET /v1/items': {
      const since = searchParams.get('updated_since') ?? ''
      const changed = ITEMS.filter((item) => item.updated_at >= since)
      const behind = changed.filter((item) => item.id > (searchParams.get('after') ?? ''))
      const items = behind.slice(0, PAGE_SIZE)
      return Response.json({ items, next: items.length < behind.length ? items.at(-1)?.id : null })
    }`

const OAUTH_CASES = `    case 'POST /oauth/token':
      return Response.json({ access_token: 'a-newer-access-token', token_type: 'Bearer', expires_in: 3600 })
    case 'POST /oauth/revoke':
      return new Response(null, { status: 200 })`

const signer = ({ dashed }: ProviderNames): string => `const signature = hmacSigner({ header: 'x-${dashed}-signature' })
const signer: WebhookSigner = (delivery) => ({
  ...signature(delivery),
  'x-${dashed}-delivery': delivery.deliveryId,
  'x-${dashed}-event': delivery.event ?? 'item.updated',
})`

function suite(names: ProviderNames, parts: ReadonlySet<Part>): string {
  const { identifier, className } = names
  const client = parts.has('oauth') ? "{ id: 'a-client-id', secret: 'a-client-secret' }" : ''
  return lines(
    'describeProvider(',
    `  '${identifier}',`,
    `  () => new ${className}(${client}),`,
    '  {',
    `    credentials: ${credentials(parts)},`,
    parts.has('oauth') && "    secrets: ['a-client-secret', 'a-newer-access-token'],",
    '    api,',
    parts.has('webhooks') && webhook(names),
    parts.has('sync') && '    checkpoints: ITEMS.map((item) => item.updated_at),\n    cursor: CURSOR,',
    '  },',
    '  { describe, it, afterAll },',
    ')',
  )
}

function credentials(parts: ReadonlySet<Part>): string {
  const own = parts.has('oauth')
    ? ["access_token: 'an-access-token'", "refresh_token: 'a-refresh-token'"]
    : ["token: 'an-api-token'"]
  return `{ ${[...own, ...(parts.has('webhooks') ? ['webhook_secret: SECRET'] : [])].join(', ')} }`
}

const webhook = ({ dashed }: ProviderNames): string => `    webhook: {
      signer,
      body: { item: { id: '1' } },
      otherBody: { item: { id: '2' } },
      event: 'item.updated',
      secret: SECRET,
      otherSecret: OTHER_SECRET,
      signatureHeader: 'x-${dashed}-signature',
      toleranceSeconds: null,
    },`
