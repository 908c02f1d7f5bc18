/** Providers that break one rule each, and the checks that have to find it. */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { z } from 'zod'
import type {
  Credentials,
  HandlesWebhooks,
  Integration,
  SyncSession,
  Told,
  WebhookRequest,
} from '../../../src/provider.ts'
import {
  activeWebhookSecrets,
  FailureClass,
  isTimely,
  RateLimit,
  ReauthRequiredException,
  statusOf,
} from '../../../src/provider.ts'
import type { ProviderFixtures, WebhookFixture } from '../../../src/testing/index.ts'
import type { Broken, Provider } from './broken.ts'
import { but, hidingTheStatus, of } from './broken.ts'
import { SOUND_FIXTURES, SoundProvider, Ticket, TicketSynced } from './sound-provider.ts'

const REGISTERS = 'can be registered: its identifier is one, and it implements each contract wholly or not at all'
const DECLARES = 'declares values of the right kind'
const DECLARATIONS = of(
  'what it declares',
  ['implements a contract by halves', but(() => ({ reduceCheckpoints: undefined })), REGISTERS],
  ['gives a rate limit as a number', but(() => ({ defaultRateLimit: () => 100 })), DECLARES, /^defaultRateLimit/],
  ['gives a rate limit later', but(() => ({ defaultRateLimit: async () => null })), DECLARES, /^defaultRateLimit/],
  ['gives an interval of half a minute', but(() => ({ defaultSyncInterval: () => 0.5 })), DECLARES, /^defaultSyncInt/],
  [
    'gives a threshold that is none',
    but(() => ({ refreshThreshold: () => Number.NaN })),
    DECLARES,
    /^refreshThreshold/,
  ],
  [
    'lets a refresh token idle for no time',
    but(() => ({ refreshTokenMaxIdle: () => 0 })),
    DECLARES,
    /^refreshTokenMax/,
  ],
  ['redacts one path, not a list', but(() => ({ redactedRequestPaths: () => 'card' })), DECLARES, /^redactedRequest/],
  ['redacts a path without a name', but(() => ({ redactedResponsePaths: () => [''] })), DECLARES, /^redactedResponse/],
  [
    'leaves answers out by a pattern',
    but(() => ({ unloggedResponses: () => /files/ })),
    DECLARES,
    /^unloggedResponses/,
  ],
  [
    'has two classes of items of one type',
    but(() => ({ syncItemEvents: () => [TicketSynced, class extends TicketSynced {}] })),
    DECLARES,
    /^syncItemEvents/,
  ],
  [
    'names a handler that is none',
    but(() => ({ webhookHandlers: () => ({ 'ticket.closed': 'close' }) })),
    DECLARES,
    /^webhookHandlers/,
  ],
  ['has a label without a character', but(() => ({ label: '' })), DECLARES, /^label/],
  [
    'has a header without a name',
    but(() => ({ supportsIdempotency: true, idempotencyWindowSeconds: 60, idempotencyHeader: '' })),
    DECLARES,
    /^idempotencyHeader/,
  ],
  [
    'keeps keys for no time',
    but(() => ({ supportsIdempotency: true, idempotencyWindowSeconds: -1 })),
    REGISTERS,
    /idempotencyWindowSeconds must be .*; it is -1/,
  ],
  [
    'looks back for a while that is none',
    but(() => ({ reconcileLookbackSeconds: Number.POSITIVE_INFINITY })),
    REGISTERS,
    /reconcileLookbackSeconds must be .*; it is Infinity/,
  ],
  ['signs its ids by a word', but(() => ({ deliveryIdSigned: 'yes' })), DECLARES, /^deliveryIdSigned/],
  ['has a weak challenge', but(() => ({ pkce: 'plain' })), DECLARES, /^pkce/],
  ['has an issuer that is no text', but(() => ({ issuer: new URL('https://tickets.example') })), DECLARES, /^issuer/],
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
        client_id: z.string(),
        token_expires_at: z.string().optional(),
        webhook_secret: z.string().optional(),
      }),
    })),
    KEEPS_WRITTEN,
  ],
  [
    'strips when a secret of a rotation ends',
    but(() => ({
      credentialsSchema: z.looseObject({ webhook_secrets: z.array(z.object({ secret: z.string() })).optional() }),
    })),
    KEEPS_WRITTEN,
    /it changed webhook_secrets/,
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
const RECOGNISED = 'can be recognised: a 429 as throttle, a 500 as upstream, or as classifyFailure() says'
const FAILURES = [
  ...of(
    'failures of its calls',
    [
      'hides the status of what failed',
      hidingTheStatus,
      RECOGNISED,
      /after a 429 GET \/me threw Error: no luck, whose class is unknown/,
      /after a 500 GET \/me threw Error: no luck, whose class is unknown/,
    ],
    [
      'hides a 500 in the last of all that it does, when many calls have failed',
      but(() => ({
        revokeToken: (integration: Integration) =>
          integration.at('/revoke').post(async ({ fetch }) => {
            const response = await fetch('https://api.tickets.example/revoke', { method: 'POST' })
            if (response.status >= 500) throw new Error('no luck')
            return response
          }),
      })),
      RECOGNISED,
      /after a 500 POST \/revoke threw Error: no luck/,
    ],
  ),
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
const SENDS_CODE = 'sends the code with its redirect URI, and with its verifier where PKCE is declared'
const SENDS_REFRESH_TOKEN = 'sends the refresh token'
const REFRESHES = 'refreshes to credentials that its schema takes'
const REFUSED = 'fails loudly where a code, or a refresh, is refused'
const SAYS_REFUSED = 'says by its error that a refresh was refused for good'
const withoutParameter = (name: string) =>
  but(() => ({
    authorizationUrl: (...given: Parameters<SoundProvider['authorizationUrl']>) => {
      const url = new URL(new SoundProvider().authorizationUrl(...given))
      url.searchParams.delete(name)
      return url.href
    },
  }))
/** A refresh that gives this beside the new tokens. */
const refreshedTo = (given: Credentials) =>
  but(() => ({
    refreshToken: async (integration: Integration) => ({
      ...(await new SoundProvider().refreshToken(integration)),
      ...given,
    }),
  }))
/** An exchange that sends something else. */
const exchangingBy = (change: (sent: Record<string, string>) => Record<string, string>) =>
  but((sound) => ({
    exchangeCode: (integration: Integration, code: string, redirectUri: string, pkce?: { codeVerifier: string }) =>
      sound.tokens(
        integration,
        change({
          grant_type: 'authorization_code',
          code,
          redirect_uri: redirectUri,
          code_verifier: String(pkce?.codeVerifier),
        }),
      ),
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
    SENDS_CODE,
    REFUSED,
  ],
  ['gives seconds for a time of expiry', refreshedTo({ token_expires_at: 3_600 }), REFRESHES],
  ['gives a text of seconds for a time of expiry', refreshedTo({ token_expires_at: '3600' }), REFRESHES],
  ['gives a token that its own schema refuses', refreshedTo({ access_token: 'short' }), REFRESHES],
  [
    'leaves the redirect URI out of the exchange',
    exchangingBy((sent) => ({ ...sent, redirect_uri: '' })),
    SENDS_CODE,
    /without the redirect_uri\./,
  ],
  [
    'leaves the verifier out of the exchange',
    exchangingBy((sent) => ({ ...sent, code_verifier: '' })),
    SENDS_CODE,
    /without the code_verifier\./,
  ],
  ['exchanges something else', exchangingBy((sent) => ({ ...sent, code: 'a code' })), SENDS_CODE, /without the code\./],
  [
    'refreshes by the access token',
    but((sound) => ({
      refreshToken: (integration: Integration) =>
        sound.tokens(integration, {
          grant_type: 'refresh_token',
          refresh_token: String(integration.credentialsArray().access_token),
        }),
    })),
    SENDS_REFRESH_TOKEN,
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
    'hides why a refresh was refused',
    but(() => ({
      refreshToken: (integration: Integration) =>
        new SoundProvider().refreshToken(integration).catch(() => {
          throw new Error('no new tokens')
        }),
    })),
    SAYS_REFUSED,
    /invalid_grant.* it threw Error: no new tokens/,
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
  /** Of what stands in the signature header. */
  sole?: (header: string) => string
}

function verifying(steps: Verification): Provider {
  const {
    secrets = (integration, request) => activeWebhookSecrets(integration.credentialsArray(), request.receivedAt),
    isTimely: timely = isTimely,
    body = (request) => request.rawBody,
    equals = (given, expected) =>
      given.length === expected.length && timingSafeEqual(Buffer.from(given), Buffer.from(expected)),
    missing = false,
    sole = (header) => header,
  } = steps
  const verifyWebhookSignature: HandlesWebhooks['verifyWebhookSignature'] = (integration, request) => {
    const [id, time, header] = ['id', 'timestamp', 'signature'].map((name) => request.headers.get(`webhook-${name}`))
    if (header === null || header === undefined) return missing
    if (!timely(request, Number(time))) return false
    return secrets(integration, request).some((secret) => {
      const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
      const expected = createHmac('sha256', key).update(`${id}.${time}.`).update(body(request)).digest('base64')
      return equals(sole(header).slice('v1,'.length), expected)
    })
  }
  return but(() => ({ signature: undefined, verifyWebhookSignature }))
}

const SECOND_HEADER = 'refuses a delivery with a second signature header'
const CONFIGURED = 'keeps to the tolerance that is configured'
const SIGNATURES = of(
  'HandlesWebhooks: the signature',
  [
    'takes nothing',
    but(() => ({ signature: undefined, verifyWebhookSignature: () => false })),
    'takes a delivery as it is signed',
    'takes deliveries of two secrets at once, as long as both are in force',
    'takes a delivery that was signed within the tolerance, past or future',
    CONFIGURED,
  ],
  [
    'says yes by something else than true',
    but(() => ({ signature: undefined, verifyWebhookSignature: () => 'verified' })),
    'takes a delivery as it is signed',
    'takes deliveries of two secrets at once, as long as both are in force',
    'takes a delivery that was signed within the tolerance, past or future',
    CONFIGURED,
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
    SECOND_HEADER,
  ],
  [
    'takes the last of two signature headers',
    verifying({ sole: (header) => header.split(', ').at(-1) ?? '' }),
    SECOND_HEADER,
  ],
  [
    'takes the first of two signature headers',
    verifying({ sole: (header) => header.split(', ')[0] ?? '' }),
    SECOND_HEADER,
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
    'compares all but the last characters',
    verifying({
      equals: (given, expected) => given.length === expected.length && given.slice(0, -8) === expected.slice(0, -8),
    }),
    'refuses a signature of which a character was changed',
  ],
  [
    'signs the parsed body, written anew',
    verifying({ body: (request) => JSON.stringify(request.json() ?? request.text()) }),
    'refuses a body with a changed byte',
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
    CONFIGURED,
  ],
  [
    'is a second too lenient',
    verifying({ isTimely: (request, at) => isTimely(request, at, { tolerance: request.toleranceSeconds + 1 }) }),
    'refuses a delivery that was signed a second beyond the tolerance, past or future',
    CONFIGURED,
  ],
  [
    'trusts the future',
    verifying({ isTimely: (request, at) => isTimely(request, at) || at * 1_000 > request.receivedAt.getTime() }),
    'refuses a delivery that was signed a second beyond the tolerance, past or future',
    CONFIGURED,
  ],
  [
    'has a tolerance of its own',
    verifying({ isTimely: (request, at) => isTimely(request, at, { tolerance: 300 }) }),
    CONFIGURED,
  ],
)

const SIGNED_ID = 'has an id that its signature covers, or says that it does not'
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
    but(() => ({ webhookDoor: { handshake: () => ({ text: 'ok' }) } })),
    QUEUED,
    HANDLED,
    'is no handshake: webhookDoor.handshake() gives null for it',
  ],
  [
    'answers each delivery as a challenge',
    but(() => ({ answerWebhookChallenge: () => ({ status: 200, contentType: 'text/plain', body: 'ok' }) })),
    QUEUED,
    HANDLED,
    'is no handshake: webhookDoor.handshake() gives null for it',
  ],
)

const ASKED = 'answers whatever is asked within bounds, without a credential and without a throw'
const DOORS = of(
  'HandlesWebhooks: the door',
  [
    'answers a question only where it knows what is asked',
    but(() => ({
      webhookDoor: {
        handshake: (_integration: Integration, { query, headers, ...request }: WebhookRequest) =>
          query.has('challenge') ? { json: (request.json() as { challenge: string }).challenge } : null,
      },
    })),
    ASKED,
    /null/,
  ],
  [
    'tells its secret to any caller',
    but(() => ({
      webhookDoor: {
        handshake: (integration: Integration, { query }: WebhookRequest) =>
          query.has('challenge') ? { json: integration.credentialsArray().webhook_secret } : null,
      },
    })),
    ASKED,
    /holds a credential/,
  ],
  [
    'tells its secret as a challenge',
    but(() => ({
      answerWebhookChallenge: (integration: Integration, { query }: WebhookRequest) =>
        query.has('challenge')
          ? { status: 200, contentType: 'text/plain', body: integration.credentialsArray().webhook_secret }
          : null,
    })),
    ASKED,
    /holds a credential/,
  ],
)

const VERSIONS = 'have the same version each time where a staleGuard judges them, and none that throws'
const guardedBy = (staleGuard: () => unknown) =>
  but(() => ({ webhookHandlers: () => ({ 'ticket.closed': { handle: () => null, staleGuard } }) }))
const part = (id: string | null) => ({ id, type: null, payload: {} })
const EVENTS = of(
  'HandlesWebhooks: its events',
  [
    'gives two events one id',
    but(() => ({ splitWebhook: () => [part('a'), part('a')] })),
    'are the parts of the delivery, with ids of their own that are the same each time',
  ],
  [
    'makes up ids of events',
    but(() => ({ splitWebhook: () => [part(crypto.randomUUID())] })),
    'are the parts of the delivery, with ids of their own that are the same each time',
  ],
  [
    'orders by the time',
    but(() => ({ orderingKey: (request: WebhookRequest) => request.headers.get('webhook-timestamp') })),
    'have the same ordering key each time, or none',
  ],
  [
    'wants nothing',
    but(() => ({ acceptsWebhook: () => false })),
    'are wanted: acceptsWebhook() gives true for those of the fixtures',
  ],
  [
    'has a guard that throws',
    guardedBy(() => {
      throw new Error('not built')
    }),
    VERSIONS,
    /of the delivery of the fixtures it threw Error: not built/,
  ],
  [
    'gives a Date for a version',
    guardedBy(() => ({ key: 't1', version: new Date(0) })),
    VERSIONS,
    /a text or a finite/,
  ],
  [
    'makes up versions',
    guardedBy(() => ({ key: 't1', version: crypto.randomUUID() })),
    VERSIONS,
    /something else the second time/,
  ],
  [
    'has one type for all, and guards what only some hold',
    but(() => ({
      resolveWebhookEvent: () => 'ticket.closed',
      webhookHandlers: () => ({
        'ticket.closed': {
          handle: () => null,
          staleGuard: (told: { type: string }) => ({ key: told.type.trim(), version: 1 }),
        },
      }),
    })),
    VERSIONS,
    /of a delivery with the body '\{\}' it threw TypeError/,
  ],
)

const OF_DELIVERIES =
  'toldRecord() gives { key, content } or null of a delivery, whatever its body, and the same each time'
const OF_ITEMS = 'toldRecord() gives { key, content } or null of each item, and the same each time'
const telling = (toldRecord: (told: Told) => unknown) => but(() => ({ toldRecord }))
const ECHOES = of(
  'RecognisesEchoes',
  [
    'throws for what tells of no record',
    telling(() => {
      throw new Error('not built')
    }),
    OF_DELIVERIES,
    OF_ITEMS,
    /of tickets\.synced t1 it threw Error: not built/,
  ],
  [
    'parses the body itself',
    telling((told) =>
      told.kind === 'delivery' ? { key: `ticket:${JSON.parse(told.request.text()).ticket}`, content: null } : null,
    ),
    OF_DELIVERIES,
    /of a delivery with the body 'no JSON' it threw SyntaxError/,
  ],
  [
    'tells when it came',
    telling((told) =>
      told.kind === 'delivery' ? { key: 't1', content: told.request.receivedAt.toISOString() } : null,
    ),
    OF_DELIVERIES,
    /of the delivery of the fixtures it gave something else the second time/,
  ],
  [
    'tells a Date',
    telling((told) => (told.kind === 'item' ? { key: 't1', content: { seen: new Date(0) } } : null)),
    OF_ITEMS,
    /the content of toldRecord\(\) is JSON/,
  ],
  [
    'knows items without a key',
    telling((told) => (told.kind === 'item' ? { key: '', content: told.payload } : null)),
    OF_ITEMS,
  ],
)

/** The id is in a header, and the body alone is signed. */
const UNSIGNED_ID: ProviderFixtures['webhook'] = {
  ...(SOUND_FIXTURES.webhook as WebhookFixture),
  signer: ({ body, secret, deliveryId, event }) => ({
    'x-signature': createHmac('sha256', secret).update(body).digest('hex'),
    'webhook-id': deliveryId,
    'x-event': event ?? 'none',
  }),
  signatureHeader: 'x-signature',
  toleranceSeconds: null,
}
const verifyingTheBody = (members: Record<string, unknown>) =>
  but(() => ({
    signature: { scheme: 'hmac', hash: 'sha256', header: 'x-signature', encoding: 'hex' },
    ...members,
  }))
const RENAMED: readonly Broken[] = of(
  'HandlesWebhooks: a delivery',
  ['has its id in a header that is not signed, and does not say so', verifyingTheBody({}), SIGNED_ID],
  [
    'takes an event type that nobody signs for a part of what is signed',
    verifyingTheBody({
      deliveryIdSigned: false,
      webhookSignedBytes: ({ headers, rawBody }: WebhookRequest) =>
        `${headers.get('x-event')} ${Buffer.from(rawBody).toString('latin1')}`,
    }),
    SIGNED_ID,
    /webhookSignedBytes/,
  ],
  [
    'takes the same bytes for the signed ones of every delivery',
    verifyingTheBody({ deliveryIdSigned: false, webhookSignedBytes: () => '' }),
    'has another id than another delivery',
    /webhookSignedBytes/,
  ],
).map((broken) => ({ ...broken, fixtures: { ...SOUND_FIXTURES, webhook: UNSIGNED_ID } }))

const ROWS = 'makes one request on the wire for each row of integration_requests, and no other'
const OUTWARD = 'calls out by context.fetch only'
const LENGTHS = 'has fixtures whose secrets can be told from other words: 8 characters or more'
const shows = (when: string) => `shows no secret ${when}: in no row, log line, printed line or error`
const ON_GOOD_DAYS = shows('on a good day')
const AFTER_A_401 = shows('where it is answered by a 401')
const BAD_DAYS = [
  AFTER_A_401,
  ...['a 404', 'a 422', 'a 500'].map((by) => shows(`where it is answered by ${by}`)),
  shows('where connections break'),
  shows('where it is answered in HTML'),
  shows('where answers break off'),
  shows('where the second answer is a 500'),
]
const SECRETS = [ON_GOOD_DAYS, ...BAD_DAYS]
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
    'asks twice in one request, and in the next one not at all',
    but(() => ({
      get: async (integration: Integration, path: string) => {
        await integration.request('/none', 'GET', () => ({ kept: true }))
        return integration.request(path, 'GET', async ({ fetch }) => {
          await fetch(`https://api.tickets.example${path}`)
          return fetch(`https://api.tickets.example${path}`)
        })
      },
    })),
    ROWS,
    /GET \/me called out 2 times/,
    /GET \/none called out 0 times/,
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

const APART = 'sends no credential of one integration for another, in turn and at once'
/** Its first integration's, for all. */
const keepingTheToken = but(() => {
  let kept: unknown
  return {
    get: (integration: Integration, path: string) => {
      kept ??= integration.credentialsArray().access_token
      const headers = { authorization: `Bearer ${kept}` }
      return integration.request(path, 'GET', ({ fetch }) => fetch(`https://api.tickets.example${path}`, { headers }))
    },
  }
})
const SHARED = of(
  'what it leaves behind',
  ['keeps the first token that it sees', keepingTheToken, APART, /credentials\.access_token in GET .*\/me/],
  [
    'keeps the token of the call under way',
    but(() => {
      let current: unknown
      return {
        get: async (integration: Integration, path: string) => {
          current = integration.credentialsArray().access_token
          return integration.request(path, 'GET', async ({ fetch }) => {
            await Promise.resolve()
            return fetch(`https://api.tickets.example${path}`, {
              headers: { authorization: `Basic ${btoa(`x:${current}`)}` },
            })
          })
        },
      }
    }),
    APART,
  ],
)
const OTHER_TOKEN = 'another-token-of-a-test'
/** The schema takes two tokens only: the other one is a fixture. */
const SHARED_BY_TWO: readonly Broken[] = of('what it leaves behind', [
  'keeps one of the two tokens that it takes',
  class extends keepingTheToken {
    override readonly credentialsSchema = ofTokens('a-token-of-a-test', OTHER_TOKEN)
  },
  APART,
]).map((broken) => ({
  ...broken,
  fixtures: {
    ...SOUND_FIXTURES,
    otherCredentials: { ...SOUND_FIXTURES.credentials, access_token: OTHER_TOKEN },
  },
}))

export function ofTokens(...tokens: readonly string[]): z.ZodType {
  return z.looseObject({
    access_token: z.enum(tokens),
    refresh_token: z.literal('a-refresh-token-of-a-test'),
    client_id: z.literal('a-client-of-a-test'),
  })
}

type Listed = z.output<typeof Ticket>

const SHORT_SECRETS: readonly Broken[] = [
  ['has a short secret in its fixtures', { secrets: ['short'] }, /secrets\.0/] as const,
  [
    'has a short credential in its fixtures',
    { credentials: { ...SOUND_FIXTURES.credentials, pin: 'ab-7' } },
    /credentials\.pin/,
  ] as const,
].map(([what, given, said]) => ({
  what,
  provider: SoundProvider,
  fixtures: { ...SOUND_FIXTURES, ...given },
  contract: 'what it leaves behind',
  breaks: [LENGTHS],
  says: [said],
}))

/** `Date.parse` takes it for a time. */
const TOKEN_LIKE_A_DATE = 'a-token-1'

/**
 * Each of these leaves something in the rows, the log or the console for good: a kit of its own for each. Asked is the rule of
 * one day on which it does.
 */
const LEAKING = of(
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
    AFTER_A_401,
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
    AFTER_A_401,
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
    ON_GOOD_DAYS,
  ],
  [
    'prints the token',
    but(() => ({
      handleWebhook: (integration: Integration) => {
        console.debug(integration.credentialsArray())
      },
    })),
    ON_GOOD_DAYS,
  ],
)

const SCOPE = 'rateLimitScope() gives a key and a RateLimit, or null, at once'
const SAME_SCOPE = 'rateLimitScope() names the same budget each time: it looks at the integration alone'
const SHARED_LIMITS = of(
  'SharesRateLimit',
  [
    'gives a scope without a key',
    but(() => ({ rateLimitScope: () => ({ key: '', limit: RateLimit.perMinute(5) }) })),
    SCOPE,
  ],
  ['gives a scope without a limit', but(() => ({ rateLimitScope: () => ({ key: 'app:1', limit: 5 }) })), SCOPE],
  ['gives a scope later', but(() => ({ rateLimitScope: async () => null })), SCOPE],
  [
    'throws for a scope',
    but(() => ({
      rateLimitScope: () => {
        throw new Error('no app')
      },
    })),
    SCOPE,
    SAME_SCOPE,
  ],
  [
    'names another budget each time',
    but(() => ({ rateLimitScope: () => ({ key: `app:${crypto.randomUUID()}`, limit: RateLimit.perMinute(5) }) })),
    SAME_SCOPE,
  ],
  [
    'asks an odd error for its status',
    but(() => ({
      rateLimitScope: () => null,
      isSharedThrottle: (error: { headers: { scope: string } }) => error.headers.scope === 'app',
    })),
    'isSharedThrottle() is true or false for any error',
  ],
)

export const LEAKS: readonly Broken[] = [
  ...LEAKING,
  ...LEAKING.filter(({ what }) => what === 'prints the token').map((broken) => ({
    ...broken,
    what: 'prints a token that reads like a date',
    fixtures: {
      ...SOUND_FIXTURES,
      credentials: { ...SOUND_FIXTURES.credentials, access_token: TOKEN_LIKE_A_DATE },
    },
  })),
].map((broken) => ({
  ...broken,
  leavesOut: [ROWS, OUTWARD, LENGTHS, ...SECRETS].filter((rule) => !broken.breaks.includes(rule)),
}))

const { webhook: _, ...WITHOUT_WEBHOOK } = SOUND_FIXTURES
const { checkpoints: __, ...WITHOUT_CHECKPOINTS } = SOUND_FIXTURES
const { cursor: ___, ...WITHOUT_CURSOR } = SOUND_FIXTURES
const { window: ____, ...WITHOUT_WINDOW } = SOUND_FIXTURES

/** Sound providers, of which the suite was not told enough. */
const UNDESCRIBED: readonly Broken[] = [
  ['has webhooks and no delivery of them', WITHOUT_WEBHOOK, /`webhook`: it handles webhooks/] as const,
  ['has a sync and no checkpoints', WITHOUT_CHECKPOINTS, /`checkpoints`, 3 or more/] as const,
  ['syncs incrementally and has no cursor', WITHOUT_CURSOR, /`cursor`: it syncs incrementally/] as const,
  ['backfills and has no window', WITHOUT_WINDOW, /`window`: it backfills/] as const,
  [
    'has another webhook secret than its delivery',
    { ...SOUND_FIXTURES, credentials: { ...SOUND_FIXTURES.credentials, webhook_secret: 'another one' } },
    /`credentials.webhook_secret` equal to `webhook.secret`/,
  ] as const,
].map(([what, fixtures, says]) => ({
  what,
  fixtures,
  says: [says],
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
  ...SHARED_LIMITS,
  ...SIGNATURES,
  ...DELIVERIES,
  ...DOORS,
  ...EVENTS,
  ...ECHOES,
  ...RENAMED,
  ...[...TRACES, ...SHARED, ...SHARED_BY_TWO, ...SHORT_SECRETS].map((broken) => ({ ...broken, leavesOut: SECRETS })),
]

const without = (...keys: readonly string[]): ProviderFixtures => ({
  ...SOUND_FIXTURES,
  credentials: Object.fromEntries(Object.entries(SOUND_FIXTURES.credentials).filter(([key]) => !keys.includes(key))),
})

/** What is unusual and right. */
export const UNUSUAL: readonly Broken[] = [
  ...of('SharesRateLimit', [
    'shares a limit that is soon used up',
    but(() => ({ rateLimitScope: () => ({ key: 'app:1', limit: RateLimit.per(1, 3_600) }) })),
  ]),
  ...of(
    'failures of its calls',
    [
      'throws errors of its own that say why',
      but(() => ({
        get: (integration: Integration, path: string) =>
          integration.request(path, 'GET', async ({ fetch }) => {
            const response = await fetch(`https://api.tickets.example${path}`)
            if (!response.ok) throw new Error('no luck', { cause: { status: response.status } })
            return response
          }),
      })),
    ],
    [
      'has a class of its own for what it threw',
      class extends hidingTheStatus {
        override classifyFailure(): FailureClass {
          return FailureClass.Unknown
        }
      },
    ],
  ),
  ...of('RecognisesEchoes', [
    'tells what it knows',
    telling((told) => {
      if (told.kind === 'answer') return null
      const said = Ticket.safeParse(told.kind === 'item' ? told.payload : told.request.json()).data
      return said === undefined ? null : { key: said.id, content: said.subject }
    }),
  ]),
  ...of('HandlesWebhooks: its events', ['guards by versions', guardedBy(() => ({ key: 't1', version: 7 }))]),
  ...of('HasOAuth2', [
    'asks for an authorization itself',
    but(() => ({
      refreshToken: (integration: Integration) =>
        new SoundProvider().refreshToken(integration).catch(() => {
          throw new ReauthRequiredException(integration.id, 'it was revoked')
        }),
    })),
  ]),
  ...of('HasOAuth2', ['gives a Date for a time of expiry', refreshedTo({ token_expires_at: new Date(0) })]),
  ...of('HasOAuth2', [
    'has no refresh tokens',
    but(() => ({
      refreshToken: async () => {
        throw new Error('these tokens last')
      },
    })),
  ]).map((unusual) => ({ ...unusual, fixtures: without('refresh_token') })),
  ...of(
    'credentialsSchema and metadataSchema',
    [
      'knows the form of its tokens',
      but(() => ({
        credentialsSchema: z.looseObject({
          access_token: z.string().endsWith('-of-a-test'),
          refresh_token: z.string().endsWith('-of-a-test'),
        }),
      })),
    ],
    [
      'reads a time of expiry',
      but(() => ({ credentialsSchema: z.looseObject({ token_expires_at: z.coerce.date().optional() }) })),
    ],
  ),
  ...of('HandlesWebhooks: a delivery', [
    'has its id in a header that is not signed, and says so',
    verifyingTheBody({ deliveryIdSigned: false }),
  ]).map((unusual) => ({ ...unusual, fixtures: { ...SOUND_FIXTURES, webhook: UNSIGNED_ID } })),
  ...of('what it leaves behind', [
    'is given the same token for all',
    but((sound) => ({
      get: async (integration: Integration, path: string) => {
        const { access_token: token } = await sound.tokens(integration, { grant_type: 'client_credentials' })
        const headers = { authorization: `Bearer ${String(token)}` }
        return integration.request(path, 'GET', ({ fetch }) => fetch(`https://api.tickets.example${path}`, { headers }))
      },
    })),
  ]).map((unusual) => ({
    ...unusual,
    fixtures: {
      ...SOUND_FIXTURES,
      api: (request: Request) =>
        new URL(request.url).pathname === '/token'
          ? Response.json({
              access_token: 'a-token-of-a-test',
              refresh_token: 'a-newer-refresh-token',
              expires_in: 60,
            })
          : SOUND_FIXTURES.api(request),
    },
    leavesOut: SECRETS,
  })),
  ...of('what it leaves behind', [
    'asks for the account that its metadata has as well',
    but(() => ({
      get: (integration: Integration, path: string) => {
        const url = `https://api.tickets.example${path}`
        const headers = { 'x-account': String(integration.metadata.account) }
        return integration.request(path, 'GET', ({ fetch }) => fetch(url, { headers }))
      },
    })),
  ]).map((unusual) => ({
    ...unusual,
    fixtures: {
      ...SOUND_FIXTURES,
      credentials: { ...SOUND_FIXTURES.credentials, account: 'account-of-a-test' },
      metadata: { team: 'blue', account: 'account-of-a-test' },
    },
    leavesOut: SECRETS,
  })),
  ...of('what it leaves behind', [
    'has one of two words among its credentials',
    but(() => ({ credentialsSchema: z.looseObject({ mode: z.enum(['live', 'test']) }) })),
  ]).map((unusual) => ({
    ...unusual,
    fixtures: { ...SOUND_FIXTURES, credentials: { ...SOUND_FIXTURES.credentials, mode: 'test' } },
    leavesOut: SECRETS,
  })),
]
