/** The text of a new provider. What it may import and has to keep: docs/writing-a-provider.md. */
import type { WebhookDoor } from '../../webhooks/catalogue/door.ts'
import { keepsVerifyToken, readers } from './door-answers-text.ts'
import { doorMembers } from './door-text.ts'
import type { Part, ProviderNames } from './names.ts'
import { blocks, classHead, importStatement, lines } from './source-text.ts'

export function providerFile(names: ProviderNames, parts: ReadonlySet<Part>, door: WebhookDoor): string {
  const members = parts.has('webhooks') ? doorMembers(door) : ''
  return `${blocks(
    lines(
      `/**
 * ${names.label}, as \`integrations make-provider\` has begun it.
 *
 * How it goes on: docs/writing-a-provider.md of durable-integrations.
 */`,
      ...imports(parts, members),
    ),
    constants(names, parts),
    credentials(parts, door),
    (parts.has('health') || parts.has('identity')) && account(parts),
    parts.has('sync') && items(names),
    parts.has('writes') && ADDED,
    parts.has('webhooks') && webhookEvent(names),
    providerClass(names, parts, members),
    parts.has('sync') && READING,
    parts.has('webhooks') && readers(members),
  )}\n`
}

function readsApi(parts: ReadonlySet<Part>): boolean {
  return parts.has('sync') || parts.has('health') || parts.has('identity')
}

function callsApi(parts: ReadonlySet<Part>): boolean {
  return readsApi(parts) || parts.has('writes')
}

/** @param members of the class, about webhooks */
function imports(parts: ReadonlySet<Part>, members: string): (string | false)[] {
  const sync = parts.has('sync')
  const webhooks = parts.has('webhooks')
  const calls = callsApi(parts)
  const named = (...names: readonly string[]) => names.filter((name) => members.includes(name))
  const types = [
    ...(calls || webhooks ? ['Integration'] : []),
    ...(calls ? ['RequestContext'] : []),
    ...(readsApi(parts) ? ['RequestOptions'] : []),
    ...(sync ? ['HasIncrementalSync', 'SyncItemEventClass', 'SyncSession'] : []),
    ...(webhooks ? ['HandlesWebhooks', 'Json', 'SignatureScheme', 'WebhookContext', 'WebhookRequest'] : []),
    ...named('WebhookDoor', 'WebhookPart'),
    ...(parts.has('writes') ? ['SupportsIdempotency'] : []),
    ...(parts.has('oauth') ? ['OAuth2Client', 'OAuth2Endpoints'] : []),
    ...(parts.has('identity') ? ['AuthenticatedUser', 'IdentifiesAuthenticatedUser'] : []),
    ...(isBare(parts) ? ['IntegrationProvider'] : []),
  ]
  const values = [
    ...(sync ? ['nextByCursor', 'paginate', 'RateLimit', 'reduceCheckpointsByMax', 'SyncItemEvent'] : []),
    ...(webhooks ? ['ProviderEvent'] : []),
    ...named('activeWebhookSecrets', 'signedPart'),
    ...(parts.has('oauth') ? ['OAuth2Provider', ...(calls ? ['ReauthRequiredException'] : [])] : []),
  ]
  return [
    importStatement('import', named('createHmac'), 'node:crypto'),
    importStatement('import type', types, 'durable-integrations/provider'),
    importStatement('import', values, 'durable-integrations/provider'),
    importStatement('import', ['z'], 'zod'),
  ]
}

/** No contract that could be named: the one that all providers have is. */
function isBare(parts: ReadonlySet<Part>): boolean {
  return contractsOf(parts).length === 0 && !parts.has('oauth')
}

function contractsOf(parts: ReadonlySet<Part>): string[] {
  return [
    ...(parts.has('sync') ? ['HasIncrementalSync'] : []),
    ...(parts.has('writes') ? ['SupportsIdempotency'] : []),
    ...(parts.has('webhooks') ? ['HandlesWebhooks'] : []),
    ...(parts.has('identity') ? ['IdentifiesAuthenticatedUser'] : []),
  ]
}

function constants({ dashed }: ProviderNames, parts: ReadonlySet<Part>): string | false {
  const needsUrl = callsApi(parts) || parts.has('oauth')
  const found = lines(
    needsUrl && `// TODO: where the API is.\nconst API_URL = 'https://api.${dashed}.example'`,
    parts.has('health') && 'const HEALTH_TIMEOUT_MS = 10_000',
    parts.has('sync') && SYNC_CONSTANTS,
  )
  return found !== '' && found
}

const SYNC_CONSTANTS = `// TODO: how often it may be called, and how much it lists at once.
const REQUESTS_PER_MINUTE = 60
const PAGE_SIZE = 100
const SYNC_INTERVAL_MINUTES = 15`

/** With OAuth an integration is stored before it has a token. */
function credentials(parts: ReadonlySet<Part>, door: WebhookDoor): string {
  const oauth = parts.has('oauth')
  return lines(
    !oauth && '// TODO: what it has to be given to be called.',
    'const Credentials = z.looseObject({',
    oauth
      ? '  /** Comes, with those beside it, when somebody has authorized the integration. */\n  access_token: z.string().min(1).optional(),'
      : '  token: z.string().min(1),',
    parts.has('webhooks') &&
      '  /** Without one no delivery is let in. */\n  webhook_secret: z.string().min(1).optional(),',
    parts.has('webhooks') &&
      keepsVerifyToken(door) &&
      '  /** Made up, and given to the provider with the address of the webhook. */\n  webhook_verify_token: z.string().min(1).optional(),',
    '})',
  )
}

function account(parts: ReadonlySet<Part>): string {
  const fields = parts.has('identity')
    ? 'id: z.string().min(1), name: z.string().nullable(), email: z.string().nullable()'
    : 'id: z.string()'
  return `// TODO: how it answers when it is asked who is asking.
const Account = z.object({ ${fields} })`
}

const items = ({ identifier, prefix }: ProviderNames): string => `// TODO: how it lists what is to be synced.
const Item = z.object({ id: z.string(), name: z.string(), updated_at: z.string() })
const ItemPage = z.object({ items: z.array(Item), next: z.string().nullable() })

export type ${prefix}Item = z.output<typeof Item>

/** One item of a sync run. Listen to it to store the item; the same one may come again. */
export class ${prefix}ItemSynced extends SyncItemEvent<${prefix}Item> {
  static override readonly type = '${identifier}.item_synced'
  static override readonly schema = Item
}`

const ADDED = `// TODO: how it answers a write.
const Added = z.object({ id: z.string() })`

const webhookEvent = ({
  identifier,
  prefix,
}: ProviderNames): string => `/** A delivery whose signature is right. A listener that throws fails it, so that it can be tried again. */
export class ${prefix}WebhookReceived extends ProviderEvent {
  static override readonly type = '${identifier}.webhook_received'
  readonly event: string
  readonly payload: Json

  constructor(integration: Integration, event: string, payload: Json) {
    super(integration)
    this.event = event
    this.payload = payload
  }
}`

function providerClass(names: ProviderNames, parts: ReadonlySet<Part>, members: string): string {
  const parent = parts.has('oauth') ? 'OAuth2Provider' : null
  const head = classHead(names.className, parent, isBare(parts) ? ['IntegrationProvider'] : contractsOf(parts))
  return `${head}
${blocks(
  `  readonly label = '${names.label}'
  readonly credentialsSchema = Credentials`,
  parts.has('oauth') ? oauth(parts) : callsApi(parts) && ADDRESS,
  parts.has('health') && HEALTH,
  parts.has('identity') && IDENTITY,
  parts.has('sync') && sync(names),
  parts.has('writes') && writes(parts),
  parts.has('webhooks') && webhooks(names, members),
  readsApi(parts) && read(parts),
)}
}`
}

const ADDRESS = `  readonly #api: string

  /** @param api another address of the API, such as that of its sandbox */
  constructor(api = API_URL) {
    this.#api = api
  }`

/** A field can't have an address that the constructor is given: the endpoints are put in there. */
function oauth(parts: ReadonlySet<Part>): string {
  const calls = callsApi(parts)
  return lines(
    `  protected override readonly endpoints: OAuth2Endpoints
  // TODO: what is asked for.
  protected override readonly scopes = ['read']
  // TODO: clientAuthentication. Basic percent-encodes id and secret (RFC 6749, 2.3.1), \`-\` as \`%2D\`. If the server does
  // not decode them, it answers \`invalid_client\`: protected override readonly clientAuthentication = 'client_secret_post'
  readonly #client: OAuth2Client`,
    calls && '  readonly #api: string',
    `
  /**
   * @param client what you are known by there, and the secret that proves it
   * @param api another address of the API, such as that of its sandbox
   */
  constructor(client: OAuth2Client, api = API_URL) {
    super()
    this.#client = client`,
    calls && '    this.#api = api',
    `    // TODO: where people authorize, tokens are given out and taken back.
    this.endpoints = {
      authorization: \`\${api}/oauth/authorize\`,
      token: \`\${api}/oauth/token\`,
      revocation: \`\${api}/oauth/revoke\`,
    }
  }

  protected override client(): OAuth2Client {
    return this.#client
  }`,
  )
}

const HEALTH = `  /** Why it is not well is in the request's row. */
  async healthCheck(integration: Integration): Promise<boolean> {
    try {
      await this.#read(integration, '/v1/account', Account, { attempts: 1, timeoutMs: HEALTH_TIMEOUT_MS })
      return true
    } catch {
      return false
    }
  }`

const IDENTITY = `  async authenticatedUser(integration: Integration): Promise<AuthenticatedUser> {
    const { id, name, email } = await this.#read(integration, '/v1/account', Account)
    return { id, name, email, username: null }
  }`

const sync = ({ prefix }: ProviderNames): string => `  readonly reduceCheckpoints = reduceCheckpointsByMax

  syncItemEvents(): readonly SyncItemEventClass[] {
    return [${prefix}ItemSynced]
  }

  defaultSyncInterval(): number {
    return SYNC_INTERVAL_MINUTES
  }

  defaultRateLimit(): RateLimit {
    return RateLimit.perMinute(REQUESTS_PER_MINUTE)
  }

  async sync(integration: Integration, session: SyncSession): Promise<void> {
    await this.#list(integration, session, {})
  }

  /** In whatever order the API lists: the cursor never passes the moment at which a listing began. */
  async syncIncremental(integration: Integration, session: SyncSession): Promise<void> {
    const cursor = session.cursor()
    await this.#list(integration, session, cursor === null ? {} : { updated_since: String(cursor) })
  }

  #list(integration: Integration, session: SyncSession, filter: Record<string, string>): Promise<void> {
    return paginate(session, {
      first: null,
      page: (after) => {
        const data = { ...filter, ...(after === null ? {} : { after }), limit: String(PAGE_SIZE) }
        return this.#read(integration, '/v1/items', ItemPage, { data, signal: session.signal })
      },
      next: nextByCursor('next'),
      items: ({ items }) => items,
      event: (item) => new ${prefix}ItemSynced(integration, item),
      checkpoint: ({ updated_at }) => updated_at,
      externalId: ({ id }) => id,
    })
  }`

/** The address is put together as the text of {@link read} does it. */
const writes = (
  parts: ReadonlySet<Part>,
): string => `  // TODO: how long it knows a key. If it knows none, leave out these three and the header: the key is then kept here alone.
  readonly supportsIdempotency = true
  readonly idempotencyHeader = 'Idempotency-Key'
  readonly idempotencyWindowSeconds = 86_400

  /** One key adds one item, however often it is tried and whatever fails in between. */
  async addItem(integration: Integration, item: { name: string }, idempotencyKey: string): Promise<string> {
    const call = async (context: RequestContext): Promise<Response> => {
      ${tokenText(parts)}
      const headers = new Headers({ Authorization: \`Bearer \${token}\`, 'Content-Type': 'application/json' })
      if (context.idempotencyKey !== null) headers.set(this.idempotencyHeader, context.idempotencyKey)
      return context.fetch(\`\${this.#api}/v1/items\`, { method: 'POST', headers, body: JSON.stringify(item) })
    }
    const options = { data: item, idempotencyKey }
    const { id } = await integration.requestAs(Added, '/v1/items', 'POST', call, options)
    return id
  }`

function webhooks({ prefix }: ProviderNames, members: string): string {
  return `${members}

  async handleWebhook(
    integration: Integration,
    request: WebhookRequest,
    { eventType }: WebhookContext,
  ): Promise<{ event: string }> {
    const event = eventType ?? 'unknown'
    const payload = request.json() ?? null
    await integration.emit(new ${prefix}WebhookReceived(integration, event, payload))
    return { event }
  }`
}

const READING = `interface Reading extends RequestOptions {
  /** The query: the row shows it beside the path. */
  readonly data?: Record<string, string>
}`

/** The path is appended to the API's address: by `new URL(path, address)` it would take the place of the address's own. */
function read(parts: ReadonlySet<Part>): string {
  const sync = parts.has('sync')
  return `  /** Every call goes out by \`integration.request()\`: it has a row, keeps the rate limit, and is tried again. */
  #read<S extends z.ZodType>(
    integration: Integration,
    path: string,
    schema: S,
    ${sync ? 'options: Reading = {}' : 'options?: RequestOptions'},
  ): Promise<z.output<S>> {
    const url = new URL(\`\${this.#api}\${path}\`)${sync ? WITH_QUERY : ''}
    const call = async ({ fetch }: RequestContext): Promise<Response> => {
      ${tokenText(parts)}
      return fetch(url, { headers: { Authorization: \`Bearer \${token}\` } })
    }
    return integration.requestAs(schema, path, 'GET', call, options)
  }`
}

const WITH_QUERY = '\n    url.search = new URLSearchParams(options.data).toString()'

/** Of a call within a method of the class. */
function tokenText(parts: ReadonlySet<Part>): string {
  if (!parts.has('oauth')) return 'const { token } = Credentials.parse(integration.credentialsArray())'
  return `const token = await integration.getAccessToken()
      if (token === null) throw new ReauthRequiredException(integration.id, 'there is no access token')`
}
