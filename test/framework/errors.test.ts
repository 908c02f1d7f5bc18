import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { inspect } from 'node:util'
import { describe, expect, it, vi } from 'vitest'
import * as exported from '../../src/framework/errors.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const { IntegrationsError, isIntegrationsError } = exported
const integration = { id: 7, provider: 'github', name: 'ours' }

/** One of each, with what its message must say: what was wrong, what is allowed, what was given. */
const EXAMPLES: Record<string, { error: exported.IntegrationsError; code: string; says: string[] }> = {
  InvalidArgumentException: {
    error: new exported.InvalidArgumentException('attempts', 'an integer from 1 to 10 is allowed, 11 was given'),
    code: 'invalid_argument',
    says: ['attempts', '1 to 10', '11'],
  },
  InvalidConfiguration: {
    error: new exported.InvalidConfiguration([
      { key: 'webhook.max_attempts', expected: 'an integer from 1 to 1000', received: '"x"' },
      { key: 'sync.queue', expected: 'a queue name', received: '"a b"' },
    ]),
    code: 'invalid_configuration',
    says: ['2 problems', 'webhook.max_attempts', '1 to 1000', '"x"', 'sync.queue', 'a queue name', '"a b"'],
  },
  UnknownProvider: {
    error: new exported.UnknownProvider('gitlab', ['github', 'stripe']),
    code: 'unknown_provider',
    says: ['"gitlab"', 'github, stripe', 'register()'],
  },
  UnsupportedByProvider: {
    error: new exported.UnsupportedByProvider('stripe', 'HasScheduledSync'),
    code: 'unsupported_by_provider',
    says: ['"stripe"', 'HasScheduledSync'],
  },
  InvalidProvider: {
    error: new exported.InvalidProvider('123', 'an identifier is not all digits'),
    code: 'invalid_provider',
    says: ['"123"', 'not all digits'],
  },
  IntegrationBusy: {
    error: new exported.IntegrationBusy(42),
    code: 'integration_busy',
    says: ['42', 'lives', 'a pause', 'force'],
  },
  IntegrationInactive: {
    error: new exported.IntegrationInactive(42, 'its health'),
    code: 'integration_inactive',
    says: ['active', '42', 'disabled by its health', 'enable'],
  },
  ReauthRequiredException: {
    error: new exported.ReauthRequiredException(42, 'invalid_grant'),
    code: 'reauth_required',
    says: ['42', 'authorized again', 'invalid_grant', 'integrations oauth-link 42'],
  },
  TokensRefused: {
    error: new exported.TokensRefused(42, 'invalid_client'),
    code: 'tokens_refused',
    says: ['42', 'invalid_client', 'credentials'],
  },
  WebhookSubscriptionFailed: {
    error: new exported.WebhookSubscriptionFailed(42, 'the provider answered 403'),
    code: 'webhook_subscription_failed',
    says: ['42', 'the provider answered 403'],
  },
  OAuthFailure: {
    error: new exported.OAuthFailure('missing_code', 'The provider’s answer holds no code.'),
    code: 'missing_code',
    says: ['no code'],
  },
  BaseUrlMissing: {
    error: new exported.BaseUrlMissing(),
    code: 'base_url_missing',
    says: ['No base URL', 'https://api.example.com', 'INTEGRATIONS_BASE_URL'],
  },
  IntegrationNotFound: {
    error: new exported.IntegrationNotFound(42),
    code: 'integration_not_found',
    says: ['42'],
  },
  CredentialsUnreadable: {
    error: new exported.CredentialsUnreadable(42, 'k1', 'the key ring lacks this key.'),
    code: 'credentials_unreadable',
    says: ['42', '"k1"', 'lacks this key'],
  },
  EncryptionKeyMismatch: {
    error: new exported.EncryptionKeyMismatch(['k1'], ['k0']),
    code: 'encryption_key_mismatch',
    says: ['k1', 'k0', 'INTEGRATIONS_ENCRYPTION_KEYS'],
  },
  InvalidEncryptionKeys: {
    error: new exported.InvalidEncryptionKeys('The key "k1" has 16 bytes.'),
    code: 'invalid_encryption_keys',
    says: ['"k1" has 16 bytes', '32 bytes', 'kid:base64', 'randomBytes'],
  },
  InvalidCredentials: {
    error: new exported.InvalidCredentials('github', 'credentials', [{ path: 'token', message: 'expected a string' }]),
    code: 'invalid_credentials',
    says: ['"github"', 'credentials', 'token: expected a string'],
  },
  HttpError: { error: new exported.HttpError(503, new Headers(), null), code: 'http_error', says: ['503'] },
  SchemaDrift: {
    error: new exported.SchemaDrift('issues', [{ path: '0.id', message: 'expected a number' }]),
    code: 'schema_drift',
    says: ['issues', '0.id: expected a number'],
  },
  RequestTimeout: {
    error: new exported.RequestTimeout('issues', 30_000),
    code: 'request_timeout',
    says: ['issues', '30000 ms'],
  },
  RateLimitExceededException: {
    error: new exported.RateLimitExceededException(integration, 30, { limit: 1, seconds: 60, window: 'fixed' }),
    code: 'rate_limit_exceeded',
    says: ['7', 'github', '30 s'],
  },
  SyncSessionClosed: {
    error: new exported.SyncSessionClosed(),
    code: 'sync_session_closed',
    says: ['await', 'dispatch()'],
  },
  PaginationFailed: {
    error: new exported.PaginationFailed('loop', 'the list leads back to {"page":2}, where it has been before'),
    code: 'pagination_failed',
    says: ["can't be listed to its end", 'leads back', '{"page":2}'],
  },
  ListingSuperseded: {
    error: new exported.ListingSuperseded(31),
    code: 'listing_superseded',
    says: ['later try', 'sync run 31', 'stores nothing more'],
  },
  SyncItemNotFound: {
    error: new exported.SyncItemNotFound(42),
    code: 'sync_item_not_found',
    says: ['no sync item', '42'],
  },
  SyncRunNotFound: {
    error: new exported.SyncRunNotFound(31),
    code: 'sync_run_not_found',
    says: ['no sync run', '31'],
  },
  MissingNotWithheld: {
    error: new exported.MissingNotWithheld(31, 'it was told'),
    code: 'missing_not_withheld',
    says: ['run 31', 'it was told', 'missing_withheld'],
  },
  SyncItemNotFailed: {
    error: new exported.SyncItemNotFailed(42, 'success'),
    code: 'sync_item_not_failed',
    says: ['42', 'is success', 'failed can be retried or skipped'],
  },
  SyncItemOutdated: {
    error: new exported.SyncItemOutdated(42, 43, 'success'),
    code: 'sync_item_outdated',
    says: ['42', 'item 43', 'is success', 'older data over newer', 'force'],
  },
  NonRetryable: {
    error: new exported.NonRetryable('no such currency'),
    code: 'non_retryable',
    says: ['no such currency'],
  },
  NotYet: {
    error: new exported.NotYet('the customer is not there yet'),
    code: 'not_yet',
    says: ['the customer is not there yet'],
  },
  CheckpointsNotReduced: {
    error: new exported.CheckpointsNotReduced(31, 'Error: no'),
    code: 'checkpoints_not_reduced',
    says: ['sync run 31', 'reduceCheckpoints()', 'Error: no', 'advance again'],
  },
  SyncListenerMustNotBeQueuedException: {
    error: new exported.SyncListenerMustNotBeQueuedException('github.issue'),
    code: 'sync_listener_must_not_be_queued',
    says: ['github.issue', '{queued: true}', 'register it without'],
  },
  HandlerTimedOut: {
    error: new exported.HandlerTimedOut(300),
    code: 'handler_timed_out',
    says: ['300 s', 'webhook.handler_timeout'],
  },
  ItemTimedOut: { error: new exported.ItemTimedOut(300), code: 'item_timed_out', says: ['300 s', 'sync.item_timeout'] },
  MappingAlreadyClaimed: {
    error: new exported.MappingAlreadyClaimed({
      integrationId: 7,
      externalId: '1347',
      internalType: 'issue',
      claimedBy: '1',
      requestedBy: '2',
      holderExists: false,
    }),
    code: 'mapping_already_claimed',
    says: ['"1347"', '7', 'issue 1', 'no longer exists', '2', 'remapExternalId()'],
  },
  WebhookNotFound: {
    error: new exported.WebhookNotFound(42),
    code: 'webhook_not_found',
    says: ['no webhook', '42'],
  },
  RequestNotFound: {
    error: new exported.RequestNotFound(42),
    code: 'request_not_found',
    says: ['no request', '42'],
  },
  LogNotFound: { error: new exported.LogNotFound(42), code: 'log_not_found', says: ['no operation log', '42'] },
  StoredEventNotFound: {
    error: new exported.StoredEventNotFound(42),
    code: 'stored_event_not_found',
    says: ['no stored event', '42'],
  },
  MappingNotFound: {
    error: new exported.MappingNotFound(42),
    code: 'mapping_not_found',
    says: ['no mapping', '42'],
  },
  MappedRowNotFound: {
    error: new exported.MappedRowNotFound('issue', '42'),
    code: 'mapped_row_not_found',
    says: ['"issue"', 'no row "42"'],
  },
  IdempotencyKeyNotFound: {
    error: new exported.IdempotencyKeyNotFound(42),
    code: 'idempotency_key_not_found',
    says: ['no spent idempotency key', '42'],
  },
  IdempotencyKeyInUse: {
    error: new exported.IdempotencyKeyInUse(42, new Date('2031-06-01T12:00:00.000Z')),
    code: 'idempotency_key_in_use',
    says: ['42', 'under way', '2031-06-01T12:00:00.000Z', 'force'],
  },
  IncidentNotFound: {
    error: new exported.IncidentNotFound(42),
    code: 'incident_not_found',
    says: ['no incident', '42'],
  },
  IncidentNotOpen: {
    error: new exported.IncidentNotOpen(42),
    code: 'incident_not_open',
    says: ['42', 'is closed', 'acknowledged or snoozed'],
  },
  RecordNotFound: {
    error: new exported.RecordNotFound('"webhook:42"', 'webhook:4711 and others'),
    code: 'record_not_found',
    says: ['no record', 'webhook:42', 'Allowed are webhook:4711'],
  },
  TokenNotFound: {
    error: new exported.TokenNotFound(42),
    code: 'token_not_found',
    says: ['no operator token', '42'],
  },
  WebhookNotFailed: {
    error: new exported.WebhookNotFailed(42, 'processed'),
    code: 'webhook_not_failed',
    says: ['42', 'is processed', 'failed'],
  },
  WebhookNotReplayable: {
    error: new exported.WebhookNotReplayable(42, 'pending'),
    code: 'webhook_not_replayable',
    says: ['42', 'is pending', 'processed or failed'],
  },
  ForwardFailed: {
    error: new exported.ForwardFailed('app.example.com', 'answered with 503', 30),
    code: 'forward_failed',
    says: ['app.example.com', 'answered with 503'],
  },
  NoWorkerAnswered: {
    error: new exported.NoWorkerAnswered('integrations:sync-integration:7', 5),
    code: 'no_worker_answered',
    says: ['Temporal answers', 'no worker answered', 'integrations:sync-integration:7', '5 s', 'temporal.workers'],
  },
  WorkflowFailed: {
    error: new exported.WorkflowFailed('integrations:prune', 'RangeError', 'RangeError: bad', {}),
    code: 'workflow_failed',
    says: ['integrations:prune', 'has no result', 'RangeError: bad'],
  },
  LockTimeoutException: {
    error: new exported.LockTimeoutException('oauth:7', 10),
    code: 'lock_timeout',
    says: ['"oauth:7"', '10 s'],
  },
  SchemaBehind: {
    error: new exported.SchemaBehind(1, 3),
    code: 'schema_behind',
    says: ['1 of 3', 'integrations migrate'],
  },
  CircuitOpenException: {
    error: new exported.CircuitOpenException(integration, new Date(0), 60, 12),
    code: 'circuit_open',
    says: ['integration 7', 'open', '12 s'],
  },
  IdempotencyConflict: {
    error: new exported.IdempotencyConflict({
      integrationId: 7,
      key: 'order-1',
      priorState: 'unknown',
      priorResponse: null,
      priorRequestId: null,
      reservedAt: new Date(0),
    }),
    code: 'idempotency_conflict',
    says: ['"order-1"', 'integration 7', '1970-01-01T00:00:00.000Z', 'not known', 'forgetIdempotencyKey()'],
  },
  IdempotencyInsideTransaction: {
    error: new exported.IdempotencyInsideTransaction('order-1'),
    code: 'idempotency_inside_transaction',
    says: ['"order-1"', 'inside an open transaction', 'after the commit'],
  },
  EgressRefused: {
    error: new exported.EgressRefused('internal.example', 'it resolves to 10.0.0.1, which is private'),
    code: 'egress_refused',
    says: ['"internal.example"', '10.0.0.1'],
  },
  ResponseTooLarge: {
    error: new exported.ResponseTooLarge(1_024),
    code: 'response_too_large',
    says: ['1024 bytes'],
  },
  RetryableError: {
    error: new exported.RetryableError('the export is not ready', { retryAfterSeconds: 5 }),
    code: 'retryable',
    says: ['the export is not ready'],
  },
  BackendUnreachable: {
    error: new exported.BackendUnreachable('Postgres', 'db:5432', { remedy: 'Check that it runs.' }),
    code: 'backend_unreachable',
    says: ['Postgres', 'db:5432', 'Check that it runs.'],
  },
}

const classes = Object.entries(exported).filter(
  ([name, value]) =>
    name !== 'IntegrationsError' && typeof value === 'function' && value.prototype instanceof IntegrationsError,
)

describe('the errors of the framework', () => {
  it('are all known to these tests', () => {
    expect(Object.keys(EXAMPLES).sort()).toEqual(classes.map(([name]) => name).sort())
  })

  it('stand in the page of the errors, those of adapters and of the testing kit too', () => {
    const page = readFileSync(`${ROOT}docs/behaviour/errors.md`, 'utf8')
    const sources = readdirSync(`${ROOT}src`, { recursive: true, encoding: 'utf8' })
      .filter((path) => path.endsWith('.ts'))
      .map((path) => readFileSync(`${ROOT}src/${path}`, 'utf8'))
      .join('\n')
    const union = /type OAuthFailureCode =([\s\S]*?)\n\n/.exec(sources)?.[1] ?? ''
    const codes = [...sources.matchAll(/\bcode = '(\w+)'/g), ...union.matchAll(/'(\w+)'/g)].map(([, code]) => code)
    expect(codes.length).toBeGreaterThan(60)
    expect(codes.filter((code) => !page.includes(`\`${code}\``))).toEqual([])
  })

  it.each(Object.entries(EXAMPLES))(
    '%s says what was wrong, what is allowed and what was given',
    (_, { error, says }) => {
      for (const words of says) expect(error.message).toContain(words)
    },
  )

  it.each(Object.entries(EXAMPLES))('%s has its code, and is told apart by it', (name, { error, code }) => {
    expect(error.code).toBe(code)
    expect(error.code).toMatch(/^[a-z]+(_[a-z]+)*$/)
    expect(isIntegrationsError(error)).toBe(true)
    expect(isIntegrationsError(error, code)).toBe(true)
    expect(isIntegrationsError(error, 'another_code')).toBe(false)
    expect(error.name).toBe(name === 'RequestTimeout' ? 'TimeoutError' : name)
  })

  it('share no code', () => {
    const codes = Object.values(EXAMPLES).map(({ error }) => error.code)
    expect(new Set(codes).size).toBe(codes.length)
  })

  it('keep their cause, and a cause they were not given they do not have', () => {
    const cause = new Error('why')
    expect(new exported.InvalidArgumentException('a', 'b', { cause }).cause).toBe(cause)
    expect(new exported.RateLimitExceededException(integration, 1, null, { cause }).cause).toBe(cause)
    expect(new exported.BackendUnreachable('Temporal', 'x', { cause, remedy: '' }).cause).toBe(cause)
    expect('cause' in new exported.InvalidArgumentException('a', 'b')).toBe(false)
  })

  it('show an integration as id, provider and name only', () => {
    const handle = { ...integration, toJSON: () => integration }
    const error = new exported.RateLimitExceededException(handle, 30, null)
    expect(JSON.parse(JSON.stringify(error)).integration).toEqual(integration)
  })

  it('never show the body of an answer in the message', () => {
    const error = new exported.HttpError(401, new Headers({ 'set-cookie': 'open-sesame' }), { token: 'open-sesame' })
    expect(`${error.message}\n${error.stack}`).not.toContain('open-sesame')
  })
})

describe('an error that is not ours', () => {
  it.each<[string, unknown]>([
    ["a provider's own code of the same name", Object.assign(new Error('x'), { code: 'rate_limit_exceeded' })],
    ['an error with a code of its own', Object.assign(new Error('x'), { code: 'ECONNREFUSED' })],
    ['a plain error', new Error('x')],
    ['an object that looks like one', { code: 'invalid_argument', message: 'x' }],
    ['a text', 'invalid_argument'],
    ['null', null],
    ['undefined', undefined],
  ])('is %s', (_, error) => {
    expect(isIntegrationsError(error)).toBe(false)
    expect(isIntegrationsError(error, 'rate_limit_exceeded')).toBe(false)
  })
})

describe('an error of another copy of this package', () => {
  it('is ours all the same', async () => {
    // Loaded once more: two versions in one node_modules.
    vi.resetModules()
    const other = await import('../../src/framework/errors.ts')
    const error = new other.IntegrationNotFound(42)
    expect(error instanceof IntegrationsError).toBe(false)
    expect(isIntegrationsError(error, 'integration_not_found')).toBe(true)
  })

  it('bears no mark that is printed', () => {
    expect(inspect(new exported.IntegrationNotFound(42))).not.toContain('Symbol')
  })
})
