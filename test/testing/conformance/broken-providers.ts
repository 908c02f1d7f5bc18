/** Providers that break one rule each, and the checks that have to find it. */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { z } from 'zod'
import type {
  Credentials,
  HandlesWebhooks,
  Integration,
  Json,
  SyncSession,
  WebhookRequest,
} from '../../../src/provider.ts'
import { activeWebhookSecrets, FailureClass, isTimely, statusOf } from '../../../src/provider.ts'
import type { ProviderFixtures } from '../../../src/testing/index.ts'
import type { Ticket } from './sound-provider.ts'
import { NoteSynced, SOUND_FIXTURES, SoundProvider, TicketSynced } from './sound-provider.ts'

export interface Broken {
  /** What is wrong with it. */
  readonly what: string
  readonly provider: new () => SoundProvider
  readonly fixtures?: ProviderFixtures
  readonly contract: string
  /** The rules that it breaks: no other check of the contract may fail. */
  readonly breaks: readonly string[]
  /** Rules that are not asked: they would look at all that the providers before have left behind. */
  readonly leavesOut?: readonly string[]
}

type Provider = Broken['provider']

/** The sound provider with some members in the place of its own. */
function but(members: (provider: SoundProvider) => Record<string, unknown>): Provider {
  return class extends SoundProvider {
    constructor() {
      super()
      Object.assign(this, members(this))
    }
  }
}

function of(contract: string, ...broken: [what: string, provider: Provider, ...breaks: string[]][]): Broken[] {
  return broken.map(([what, provider, ...breaks]) => ({ contract, what, provider, breaks }))
}

const DECLARES = 'declares values of the right kind'
const DECLARATIONS = of(
  'what it declares',
  [
    'implements a contract by halves',
    but(() => ({ reduceCheckpoints: undefined })),
    'can be registered: its identifier is one, and it implements each contract wholly or not at all',
  ],
  ['gives a rate limit as a number', but(() => ({ defaultRateLimit: () => 100 })), DECLARES],
  ['gives a rate limit later', but(() => ({ defaultRateLimit: async () => null })), DECLARES],
  ['gives an interval of half a minute', but(() => ({ defaultSyncInterval: () => 0.5 })), DECLARES],
  ['gives a threshold that is none', but(() => ({ refreshThreshold: () => Number.NaN })), DECLARES],
  ['has a label without a character', but(() => ({ label: '' })), DECLARES],
  [
    'looks back for a while that is none',
    but(() => ({ reconcileLookbackSeconds: Number.POSITIVE_INFINITY })),
    DECLARES,
  ],
  ['redacts one path, not a list', but(() => ({ redactedRequestPaths: () => 'card' })), DECLARES],
  ['names a handler that is none', but(() => ({ webhookHandlers: () => ({ 'ticket.closed': 'close' }) })), DECLARES],
)

const KEEPS = 'take the credentials and the metadata of the fixtures, and keep what they hold'
const KEEPS_WRITTEN = 'take and keep what the framework writes into credentials'
const JUDGES = 'judge whatever they are given, without throwing and without quoting a credential'
const CREDENTIALS = of(
  'credentialsSchema and metadataSchema',
  ['strips its metadata', but(() => ({ metadataSchema: z.object({}) })), KEEPS],
  [
    'strips the secrets of a rotation',
    but(() => ({
      credentialsSchema: z.object({
        access_token: z.string(),
        refresh_token: z.string(),
        token_expires_at: z.string().optional(),
        webhook_secret: z.string().optional(),
      }),
    })),
    KEEPS_WRITTEN,
  ],
  [
    'refuses a time of expiry',
    but(() => ({ credentialsSchema: z.looseObject({ token_expires_at: z.undefined().optional() }) })),
    KEEPS_WRITTEN,
  ],
  [
    'throws at what is no object',
    but(() => ({ credentialsSchema: z.any().refine((given: Credentials) => String(given.access_token).length > 0) })),
    JUDGES,
  ],
  [
    'quotes what it was given',
    but(() => ({
      credentialsSchema: z.looseObject({
        access_token: z.string().regex(/^[a-z-]+$/, { error: ({ input }) => `"${String(input)}" is no token` }),
      }),
    })),
    JUDGES,
  ],
)

const HEALTH = of(
  'healthCheck()',
  ['is never well', but(() => ({ healthCheck: () => false })), 'is true for a provider that is well'],
  [
    'is well as long as there is an answer',
    but((sound) => ({
      healthCheck: (integration: Integration) =>
        sound.get(integration, '/me').then(
          () => true,
          (error: unknown) => statusOf(error) !== null,
        ),
    })),
    'is false for one that refuses the credentials, fails, or is away',
  ],
  [
    'lets what goes wrong pass',
    but((sound) => ({
      healthCheck: async (integration: Integration) => {
        await sound.get(integration, '/me')
        return true
      },
    })),
    'never throws: it is true or false whatever the provider answers',
  ],
  [
    'gives what it was answered',
    but((sound) => ({
      healthCheck: (integration: Integration) =>
        sound.get(integration, '/me').then(
          (answer) => (z.object({ id: z.number() }).safeParse(answer).success ? true : answer),
          () => false,
        ),
    })),
    'never throws: it is true or false whatever the provider answers',
  ],
)

const IDENTITY = of(
  'IdentifiesAuthenticatedUser',
  [
    'gives a number for an id',
    but((sound) => ({
      authenticatedUser: async (integration: Integration) => ({
        ...(await new SoundProvider().authenticatedUser(integration)),
        id: Number((await sound.get(integration, '/me')) !== null),
      }),
    })),
    'gives an id that is a text and not empty, and texts or null beside it',
  ],
  [
    'leaves out what is not known',
    but((sound) => ({
      authenticatedUser: async (integration: Integration) => {
        await sound.get(integration, '/me')
        return { id: '7' }
      },
    })),
    'gives an id that is a text and not empty, and texts or null beside it',
  ],
  [
    'takes a refusal for nobody',
    but(() => ({
      authenticatedUser: (integration: Integration) =>
        new SoundProvider()
          .authenticatedUser(integration)
          .catch(() => ({ id: 'nobody', name: null, email: null, username: null })),
    })),
    'fails loudly where the credentials are refused',
  ],
)

const CLASSIFIES = 'classifyFailure() answers upstream, throttle, client, unknown or null, whatever was thrown'
const RETRIES = 'isRetryable() answers true, false or null, whatever was thrown'
const DELAYS = 'retryDelayMs() answers a number of 0 or more, or null, whatever was thrown'
const FAILURES = [
  ...of(
    'ClassifiesFailures',
    [
      'reads the status of anything',
      but(() => ({
        classifyFailure: (error: { status: number }) => (error.status === 429 ? FailureClass.Throttle : null),
      })),
      CLASSIFIES,
    ],
    ['has a class of its own', but(() => ({ classifyFailure: () => 'fatal' })), CLASSIFIES],
    ['says nothing, not even null', but(() => ({ classifyFailure: () => undefined })), CLASSIFIES],
  ),
  ...of(
    'CustomizesRetry',
    ['answers later', but(() => ({ isRetryable: async () => null })), RETRIES],
    [
      'takes any header for a number',
      but(() => ({
        retryDelayMs: (error: { response?: { headers?: Record<string, string> } } | null | undefined) =>
          typeof error?.response?.headers === 'object' && error.response.headers !== null
            ? Number(error.response.headers['retry-after'] ?? 0) * 1_000
            : null,
      })),
      DELAYS,
    ],
  ),
]

const URLS = 'sends people to a URL with the state and the redirect URI, PKCE where it is declared, and no secret'
const EXCHANGES = 'exchanges a code for credentials that its schema takes'
const REFRESHES = 'refreshes to credentials that its schema takes'
const REFUSED = 'fails loudly where a code, or a refresh, is refused'
const withoutParameter = (name: string) =>
  but(() => ({
    authorizationUrl: (...given: Parameters<SoundProvider['authorizationUrl']>) => {
      const url = new URL(new SoundProvider().authorizationUrl(...given))
      url.searchParams.delete(name)
      return url.href
    },
  }))
const OAUTH = of(
  'HasOAuth2',
  ['leaves the state out', withoutParameter('state'), URLS],
  ['leaves the redirect URI out', withoutParameter('redirect_uri'), URLS],
  ['leaves the challenge out', withoutParameter('code_challenge'), URLS],
  ['gives a path', but(() => ({ authorizationUrl: () => '/authorize' })), URLS],
  [
    'shows a token in the URL',
    but(() => ({
      authorizationUrl: (integration: Integration, ...rest: [string, string]) =>
        `${new SoundProvider().authorizationUrl(integration, ...rest, CHALLENGED)}&hint=${integration.credentialsArray().access_token}`,
    })),
    URLS,
  ],
  [
    'stores a code exchanged as it was answered',
    but(() => ({ exchangeCode: async () => ({ token: 'a-newer-token' }) })),
    EXCHANGES,
    REFUSED,
  ],
  [
    'gives seconds for a time of expiry',
    but((sound) => ({
      refreshToken: async (integration: Integration) => ({
        ...(await sound.tokens(integration, { grant_type: 'refresh_token' })),
        token_expires_at: 3_600,
      }),
    })),
    REFRESHES,
  ],
  [
    'gives a token that its own schema refuses',
    but((sound) => ({
      refreshToken: async (integration: Integration) => ({
        ...(await sound.tokens(integration, { grant_type: 'refresh_token' })),
        access_token: 'short',
      }),
    })),
    REFRESHES,
  ],
  [
    'keeps the old tokens where a refresh is refused',
    but(() => ({
      refreshToken: (integration: Integration) =>
        new SoundProvider().refreshToken(integration).catch(() => integration.credentialsArray()),
    })),
    REFUSED,
  ],
  [
    'can not revoke',
    but(() => ({
      revokeToken: async () => {
        throw new Error('not built')
      },
    })),
    'revokes without a fault',
  ],
)
const CHALLENGED = {
  codeChallenge: 'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM',
  codeChallengeMethod: 'S256',
} as const

/** Standard Webhooks, each step of which can be left out or done wrong. */
interface Verification {
  secrets?: (integration: Integration, request: WebhookRequest) => string[]
  isTimely?: (request: WebhookRequest, signedAt: number) => boolean
  body?: (request: WebhookRequest) => Uint8Array | string
  equals?: (given: string, expected: string) => boolean
  missing?: boolean
}

function verifying(steps: Verification): Provider {
  const {
    secrets = (integration, request) => activeWebhookSecrets(integration.credentialsArray(), request.receivedAt),
    isTimely: timely = isTimely,
    body = (request) => request.rawBody,
    equals = (given, expected) =>
      given.length === expected.length && timingSafeEqual(Buffer.from(given), Buffer.from(expected)),
    missing = false,
  } = steps
  const verifyWebhookSignature: HandlesWebhooks['verifyWebhookSignature'] = (integration, request) => {
    const [id, time, header] = ['id', 'timestamp', 'signature'].map((name) => request.headers.get(`webhook-${name}`))
    if (header === null || header === undefined) return missing
    if (!timely(request, Number(time))) return false
    return secrets(integration, request).some((secret) => {
      const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
      const expected = createHmac('sha256', key).update(`${id}.${time}.`).update(body(request)).digest('base64')
      return equals(header.slice('v1,'.length), expected)
    })
  }
  return but(() => ({ verifyWebhookSignature }))
}

const SIGNATURES = of(
  'HandlesWebhooks: verifyWebhookSignature()',
  [
    'takes nothing',
    but(() => ({ verifyWebhookSignature: () => false })),
    'takes a delivery as it is signed',
    'takes deliveries of two secrets at once, as long as both are in force',
    'takes a delivery that was signed within the tolerance, past or future',
  ],
  [
    'says yes by something else than true',
    but(() => ({ verifyWebhookSignature: () => 'verified' })),
    'takes a delivery as it is signed',
    'takes deliveries of two secrets at once, as long as both are in force',
    'takes a delivery that was signed within the tolerance, past or future',
  ],
  ['takes what is not signed', verifying({ missing: true }), 'refuses a delivery without its signature header'],
  [
    'takes an empty signature',
    verifying({ equals: (given, expected) => given === '' || given === expected }),
    'refuses an empty signature',
  ],
  [
    'compares the end only',
    verifying({ equals: (given, expected) => given !== '' && (expected.endsWith(given) || given.endsWith(expected)) }),
    'refuses a signature of the wrong length',
  ],
  [
    'compares what it can read',
    verifying({
      equals: (given, expected) =>
        given.length === expected.length &&
        Buffer.from(given.replaceAll('*', ''), 'base64').every(
          (byte, at) => byte === Buffer.from(expected, 'base64')[at],
        ),
    }),
    'refuses a signature in characters that are no hex or base64',
  ],
  [
    'compares all but the first character',
    verifying({
      equals: (given, expected) => given.length === expected.length && given.slice(1) === expected.slice(1),
    }),
    'refuses a signature of which a character was changed',
  ],
  [
    'signs the parsed body, written anew',
    verifying({ body: (request) => JSON.stringify(request.json() ?? request.text()) }),
    'refuses a body of which a byte was changed',
  ],
  [
    'takes any secret',
    verifying({
      secrets: () => [String(SOUND_FIXTURES.webhook?.secret), String(SOUND_FIXTURES.webhook?.otherSecret)],
    }),
    'refuses a delivery signed by a secret that it does not know',
    'refuses a delivery of a secret that has expired',
    'refuses every delivery where there is no secret',
  ],
  [
    'knows one secret',
    verifying({ secrets: (integration) => [String(integration.credentialsArray().webhook_secret ?? 'none')] }),
    'takes deliveries of two secrets at once, as long as both are in force',
  ],
  [
    'never forgets a secret',
    verifying({
      secrets: (integration) => activeWebhookSecrets(integration.credentialsArray(), new Date(0)),
    }),
    'refuses a delivery of a secret that has expired',
  ],
  [
    'signs with nothing where there is no secret',
    verifying({
      secrets: (integration, request) => {
        const secrets = activeWebhookSecrets(integration.credentialsArray(), request.receivedAt)
        return secrets.length > 0 ? secrets : ['']
      },
    }),
    'refuses every delivery where there is no secret',
  ],
  [
    'is a second too strict',
    verifying({ isTimely: (request, at) => isTimely(request, at, { tolerance: request.toleranceSeconds - 1 }) }),
    'takes a delivery that was signed within the tolerance, past or future',
  ],
  [
    'is a second too lenient',
    verifying({ isTimely: (request, at) => isTimely(request, at, { tolerance: request.toleranceSeconds + 1 }) }),
    'refuses a delivery that was signed a second beyond the tolerance, past or future',
  ],
  [
    'trusts the future',
    verifying({ isTimely: (request, at) => isTimely(request, at) || at * 1_000 > request.receivedAt.getTime() }),
    'refuses a delivery that was signed a second beyond the tolerance, past or future',
  ],
)

const SAME = 'has the same id and type each time that it is sent'
const QUEUED = 'is queued with its id and type, and is a duplicate the second time'
const READS = 'has an id and a type, or null, whatever its body: reading them never throws'
const HANDLED = 'is handled'
const DELIVERIES = of(
  'HandlesWebhooks: a delivery',
  [
    'takes the time for an id',
    but(() => ({ webhookDeliveryId: (request: WebhookRequest) => request.headers.get('webhook-timestamp') })),
    SAME,
    'has another id than another delivery',
  ],
  [
    'gives all the same id',
    but(() => ({ webhookDeliveryId: () => 'the-same' })),
    'has another id than another delivery',
  ],
  ['reads no type', but(() => ({ resolveWebhookEvent: () => null })), QUEUED],
  [
    'parses the body itself',
    but(() => ({ resolveWebhookEvent: (request: WebhookRequest) => JSON.parse(request.text()).type ?? null })),
    READS,
  ],
  [
    'takes anything for a type',
    but(() => ({
      resolveWebhookEvent: (request: WebhookRequest) => (request.json() as { type?: string } | null)?.type ?? null,
    })),
    READS,
  ],
  [
    'can not handle it',
    but(() => ({
      handleWebhook: () => {
        throw new Error('not built')
      },
    })),
    HANDLED,
  ],
  [
    'takes a delivery for a challenge',
    but(() => ({ answerWebhookChallenge: () => ({ status: 200, contentType: 'text/plain', body: 'ok' }) })),
    QUEUED,
    HANDLED,
    'is no challenge: answerWebhookChallenge() gives null for it',
  ],
)

const times = (checkpoints: readonly Json[]) => checkpoints.map((each) => Date.parse(String(each)))
const at = (time: number) => new Date(time).toISOString()
const known = (checkpoints: readonly Json[]) => checkpoints.filter((each) => each !== null)
const reducing = (reduce: (checkpoints: readonly Json[]) => unknown) => but(() => ({ reduceCheckpoints: reduce }))
const REDUCERS = of(
  'HasScheduledSync: reduceCheckpoints()',
  [
    'needs something to reduce',
    reducing((checkpoints) => known(checkpoints).reduce((a, b) => (String(a) > String(b) ? a : b))),
    'the reducer of nothing gives null',
    'the reducer passes nulls over',
  ],
  [
    'takes null for the greatest',
    reducing((checkpoints) => (checkpoints.includes(null) ? null : new SoundProvider().reduceCheckpoints(checkpoints))),
    'the reducer passes nulls over',
  ],
  [
    'adds up',
    reducing((checkpoints) =>
      known(checkpoints).length === 0
        ? null
        : known(checkpoints).reduce((sum: number, each) => sum + (Number(each) || String(each).length), 0),
    ),
    'the reducer gives the same for what it has seen twice',
  ],
  [
    'takes the last one',
    reducing((checkpoints) => known(checkpoints).at(-1) ?? null),
    'the reducer gives the same in any order',
  ],
  [
    'takes the middle',
    reducing((checkpoints) => {
      const all = times(known(checkpoints))
      return all.length === 0 ? null : at((Math.min(...all) + Math.max(...all)) / 2)
    }),
    'the reducer gives the same however the checkpoints are split up',
  ],
  [
    'gives what is no JSON',
    reducing((checkpoints) => new Date(Math.max(...times(known(checkpoints))))),
    'the reducer of nothing gives null',
    'the reducer passes nulls over',
    'the reducer gives the same for what it has seen twice',
    'the reducer gives the same in any order',
    'the reducer gives the same however the checkpoints are split up',
  ],
)

const TWO_PAGES = 'lists items over two pages or more, and all of them are processed'
const CLASSES = 'lists items of the classes in syncItemEvents() only'
const IDS = 'gives each item an external id, and no two of a class the same'
const PAYLOADS = 'hands in payloads that come back from JSON, and from their schema, as they were'
const CHECKPOINTS = 'gives items checkpoints that are JSON, as a sync from a cursor needs them'
const CURSOR = 'ends at the cursor that its checkpoints reduce to'
const AGAIN = 'runs again from the cursor of the run before'
const ABORTED = 'stops asking at once when its session is aborted'
const FAULTS = 'throws what goes wrong in the middle: a listing that breaks off must not look whole'
const DEFERRED = 'is put off by a 429 in the middle, and loses no item by it'
const RESUMED = 'goes on from its bookmark after a 429 in the middle, and loses no item by it'
const FROM_CURSOR = "asks from the session's cursor, and lists something from there"

class StrippedTicket extends TicketSynced {
  static override readonly type: string = 'tickets.stripped'
  static override readonly schema = z.object({ id: z.string(), subject: z.string() })
}

type Listed = z.output<typeof Ticket>

const dispatching = (dispatch: (session: SyncSession, ticket: Listed) => Promise<void>) => but(() => ({ dispatch }))

const SYNCS = of(
  'HasScheduledSync: a run',
  [
    'lists the first page only',
    but((sound) => ({
      list: async (integration: Integration, session: SyncSession, query: Record<string, string>) => {
        const { tickets } = await sound.page(integration, { ...query, after: '' }, session.signal)
        for (const ticket of tickets) await sound.dispatch(session, ticket)
      },
    })),
    TWO_PAGES,
    FAULTS,
    RESUMED,
  ],
  [
    'hands in a class that it does not declare',
    dispatching((session, ticket) =>
      session.dispatch(new NoteSynced(session.integration, ticket), ticket.updated_at, ticket.id),
    ),
    TWO_PAGES,
    CLASSES,
    CURSOR,
    AGAIN,
    DEFERRED,
  ],
  [
    'gives no external ids',
    dispatching((session, ticket) =>
      session.dispatch(new TicketSynced(session.integration, ticket), ticket.updated_at),
    ),
    IDS,
  ],
  [
    'gives the day for an external id',
    dispatching((session, ticket) =>
      session.dispatch(new TicketSynced(session.integration, ticket), ticket.updated_at, 'today'),
    ),
    IDS,
  ],
  [
    'hands in a Date',
    dispatching((session, ticket) =>
      session.dispatch(
        new TicketSynced(session.integration, { ...ticket, seen: new Date(0) }),
        ticket.updated_at,
        ticket.id,
      ),
    ),
    PAYLOADS,
  ],
  [
    'hands in what its schema drops',
    but(() => ({
      syncItemEvents: () => [StrippedTicket],
      dispatch: (session: SyncSession, ticket: Listed) =>
        session.dispatch(new StrippedTicket(session.integration, ticket), ticket.updated_at, ticket.id),
    })),
    PAYLOADS,
  ],
  [
    'gives no checkpoints',
    dispatching((session, ticket) => session.dispatch(new TicketSynced(session.integration, ticket), null, ticket.id)),
    CHECKPOINTS,
  ],
  [
    'reduces to something else each time',
    but(() => {
      let calls = 0
      return {
        reduceCheckpoints: (checkpoints: readonly Json[]) => {
          calls += 1
          return `${new SoundProvider().reduceCheckpoints(checkpoints)}#${calls}`
        },
      }
    }),
    CURSOR,
  ],
  [
    'can not go on from a cursor',
    but(() => ({
      syncIncremental: async (integration: Integration, session: SyncSession) => {
        if (session.cursor() !== null) throw new Error('not built')
        await new SoundProvider().sync(integration, session)
      },
    })),
    AGAIN,
    FROM_CURSOR,
  ],
  [
    'asks on when nobody listens',
    but((sound) => ({
      list: async (integration: Integration, session: SyncSession, query: Record<string, string>) => {
        const found: Listed[] = []
        for (let after: string | null = ''; after !== null; ) {
          const { tickets, next } = await sound.page(integration, { ...query, after })
          found.push(...tickets)
          after = next
        }
        for (const ticket of found) await sound.dispatch(session, ticket)
      },
    })),
    ABORTED,
  ],
  [
    'takes a fault for the end',
    but(() => ({
      page: async (...given: Parameters<SoundProvider['page']>) => {
        try {
          return await new SoundProvider().page(...given)
        } catch (error) {
          if (statusOf(error) === 429 || (statusOf(error) === null && !(error instanceof TypeError))) throw error
          return { tickets: [], next: null }
        }
      },
    })),
    FAULTS,
  ],
  [
    'takes a limit for the end',
    but(() => ({
      page: async (...given: Parameters<SoundProvider['page']>) => {
        try {
          return await new SoundProvider().page(...given)
        } catch (error) {
          if (statusOf(error) !== 429 && (error as { code?: unknown }).code !== 'rate_limit_exceeded') throw error
          return { tickets: [], next: null }
        }
      },
    })),
    DEFERRED,
    RESUMED,
  ],
  [
    'sets its bookmark before the items that it stands for',
    but((sound) => ({
      list: async (integration: Integration, session: SyncSession, query: Record<string, string>) => {
        for (let after: Json = session.resumeFrom() ?? ''; after !== null; ) {
          const { tickets, next } = await sound.page(integration, { ...query, after: String(after) }, session.signal)
          if (next !== null) await session.bookmark(next)
          for (const ticket of tickets) await sound.dispatch(session, ticket)
          after = next
        }
      },
    })),
    DEFERRED,
    RESUMED,
  ],
  [
    "asks from the integration's cursor",
    but((sound) => ({
      syncIncremental: (integration: Integration, session: SyncSession) =>
        sound.list(
          integration,
          session,
          integration.syncCursor === null ? {} : { since: String(integration.syncCursor) },
        ),
    })),
    FROM_CURSOR,
  ],
)

const WINDOWS = of(
  'HasBackfill',
  [
    'takes a window for everything',
    but((sound) => ({
      syncWindow: (integration: Integration, session: SyncSession) => {
        session.fullListing()
        return sound.list(integration, session, {})
      },
    })),
    'lists a window, in items of the declared classes, and takes it for no full listing',
  ],
  [
    'asks on when nobody listens',
    but((sound) => ({
      syncWindow: async (integration: Integration) => {
        for (const after of ['', 'second', 'third']) await sound.page(integration, { after })
      },
    })),
    'stops asking at once when its session is aborted',
  ],
)

const LISTS = 'lists deliveries with an id, of its window, oldest first'
async function* missed(...each: [id: string, at: string][]) {
  for (const [deliveryId, when] of each)
    yield { deliveryId, eventType: null, payload: '{}', headers: {}, occurredAt: new Date(when) }
}
const missing = (...each: [id: string, at: string][]) =>
  but((sound) => ({
    async *missedWebhooks(integration: Integration) {
      await sound.get(integration, '/deliveries')
      // Of now: the clock of the kit moves on from check to check.
      yield* missed(...each)
    },
  }))
const RECONCILIATION = of(
  'ReconcilesWebhooks',
  ['lists what is before its window', missing(['d1', '2020-01-01T00:00:00Z']), LISTS],
  ['lists a delivery without an id', missing(['', '2020-01-01T00:00:00Z']), LISTS],
  [
    'takes a fault for the end',
    but(() => ({
      async *missedWebhooks(...given: Parameters<SoundProvider['missedWebhooks']>) {
        try {
          yield* new SoundProvider().missedWebhooks(...given)
        } catch {
          return
        }
      },
    })),
    'throws what goes wrong: a list that breaks off must not look whole',
  ],
)

const ROWS = 'makes one request on the wire for each row of integration_requests, and no other'
const OUTWARD = 'calls out by context.fetch only'
const SECRETS = 'shows no secret: in no row, log line, printed line or error, on good days and on bad ones'
const asking = (ask: (integration: Integration) => Promise<unknown>) =>
  but(() => ({
    healthCheck: async (integration: Integration) => {
      await ask(integration)
      return new SoundProvider().healthCheck(integration)
    },
  }))
const TRACES = of(
  'what it leaves behind',
  [
    'asks twice in one request',
    but(() => ({
      get: (integration: Integration, path: string) =>
        integration.request(path, 'GET', async ({ fetch }) => {
          await fetch(`https://api.tickets.example${path}`)
          return fetch(`https://api.tickets.example${path}`)
        }),
    })),
    ROWS,
  ],
  [
    'logs a request that it does not make',
    asking((integration) => integration.request('/none', 'GET', () => ({ kept: true }))),
    ROWS,
  ],
  [
    'calls out by the global fetch',
    but(() => ({
      get: (integration: Integration, path: string) =>
        integration.request(path, 'GET', () => globalThis.fetch(`https://api.tickets.example${path}`)),
    })),
    OUTWARD,
  ],
  [
    'calls out by node:http',
    asking(async () => {
      const { get } = await import('node:http')
      await new Promise((resolve) => get('http://api.tickets.example/me').on('error', resolve))
    }),
    OUTWARD,
  ],
  [
    'calls out by undici',
    asking(async () => {
      const { request } = await import('undici')
      await request('http://api.tickets.example/me').catch(() => null)
    }),
    OUTWARD,
  ],
)

/** Each of these leaves something in the rows, the log or the console for good: a kit of its own for each. */
export const LEAKS = of(
  'what it leaves behind',
  [
    'quotes the token in an error',
    but((sound) => ({
      authenticatedUser: async (integration: Integration) => {
        const { access_token: token } = integration.credentialsArray()
        await sound.get(integration, '/me').catch((cause: unknown) => {
          throw new Error(`who is ${token}?`, { cause })
        })
        return { id: '7', name: null, email: null, username: null }
      },
    })),
    SECRETS,
  ],
  [
    'has the token in the cause of an error',
    but((sound) => ({
      authenticatedUser: async (integration: Integration) => {
        const { access_token: token } = integration.credentialsArray()
        await sound.get(integration, '/me').catch(() => {
          throw new Error('no luck', { cause: { request: { headers: { authorization: `Bearer ${token}` } } } })
        })
        return { id: '7', name: null, email: null, username: null }
      },
    })),
    SECRETS,
  ],
  [
    'hands the token in with an item',
    but(() => ({
      dispatch: (session: SyncSession, ticket: Listed) =>
        session.dispatch(
          new TicketSynced(session.integration, { ...ticket, ...session.integration.credentialsArray() }),
          ticket.updated_at,
          ticket.id,
        ),
    })),
    SECRETS,
  ],
  [
    'prints the token',
    but(() => ({
      handleWebhook: (integration: Integration) => {
        console.debug(integration.credentialsArray())
      },
    })),
    SECRETS,
  ],
)

const { webhook: _, ...WITHOUT_WEBHOOK } = SOUND_FIXTURES
const { checkpoints: __, ...WITHOUT_CHECKPOINTS } = SOUND_FIXTURES

/** Sound providers, of which the suite was not told enough. */
const UNDESCRIBED: readonly Broken[] = [
  ['has webhooks and no delivery of them', WITHOUT_WEBHOOK] as const,
  ['has a sync and no checkpoints', WITHOUT_CHECKPOINTS] as const,
  [
    'has another webhook secret than its delivery',
    { ...SOUND_FIXTURES, credentials: { ...SOUND_FIXTURES.credentials, webhook_secret: 'another one' } },
  ] as const,
].map(([what, fixtures]) => ({
  what,
  fixtures,
  provider: SoundProvider,
  contract: 'what it declares',
  breaks: ['has the fixtures that its contracts need'],
}))

export const BROKEN: readonly Broken[] = [
  ...UNDESCRIBED,
  ...DECLARATIONS,
  ...CREDENTIALS,
  ...HEALTH,
  ...IDENTITY,
  ...FAILURES,
  ...OAUTH,
  ...SIGNATURES,
  ...DELIVERIES,
  ...REDUCERS,
  ...SYNCS,
  ...WINDOWS,
  ...RECONCILIATION,
  ...TRACES.map((broken) => ({ ...broken, leavesOut: [SECRETS] })),
]
