/**
 * Values that no key takes, at least one for each kind of key, with the problem that each must become: in code, and as the
 * text of its variable. Tests give them to one object and to real processes.
 */
import { environmentName } from '../../src/config/schema.ts'
import type { ConfigurationProblem } from '../../src/framework/errors.ts'

const ANY_INT = 'an integer from 1 to 2147483647'
const QUEUE = 'a string that matches ^[A-Za-z0-9_.-]{1,64}$'
const PATH = 'path segments of letters, digits, "_" and "-", such as "integrations" or "api/integrations"'
const REDIRECT = 'a path with exactly one leading "/" and no backslash, or an absolute http(s) URL'
const BACKOFF = 'a list of 1 to 100 integers from 0 to 2147483647'
const QUEUES = 'an object of provider identifiers and queue names, such as {"github": "slow"}; [] means the same as {}'
const HOST_VARIABLE =
  'the name of a variable that does not belong to the framework (INTEGRATIONS_…, TEMPORAL_…, DATABASE_URL…, PG…, OTEL_…, NODE_…)'
const DIGEST = 'the SHA-256 of the token, 64 hex digits'
const SIGNING_SECRET = '"whsec_" and the base64 of 24 to 64 bytes'

/** Stands wherever a secret would; no message may hold it. */
export const SECRET = 'open-sesame-1234'
const MASKED = `a string of ${SECRET.length} characters (masked)`

interface Given {
  readonly value: unknown
  /** Of the problem; the key itself unless the fault is inside its value. */
  readonly at?: string
  readonly expected: string
  readonly received: string
}

export interface BadValue {
  readonly key: string
  readonly code: Given
  /** The text of the variable; null where every text is a value. */
  readonly text: (Given & { readonly value: string }) | null
}

function bad(key: string, expected: string, code: [unknown, string], text: string | null): BadValue {
  return {
    key,
    code: { value: code[0], expected, received: code[1] },
    text: text === null ? null : { value: text, expected, received: JSON.stringify(text) },
  }
}

export const BAD_VALUES: readonly BadValue[] = [
  bad('table_prefix', 'a string that matches ^[a-z_][a-z0-9_]{0,29}$', ['Acme', '"Acme"'], '1st'),
  bad('cache_prefix', 'a string that matches ^[A-Za-z0-9_.-]{1,64}$', ['a:b', '"a:b"'], 'a/b'),
  bad('webhook.prefix', PATH, ['a//b', '"a//b"'], 'a b'),
  bad('webhook.queue', QUEUE, [7, '7'], 'a b'),
  bad('webhook.max_payload_bytes', ANY_INT, [3.5, '3.5'], '3.5'),
  bad('webhook.pending_timeout', ANY_INT, [2 ** 31, '2147483648'], '2147483648'),
  bad('webhook.processing_timeout', 'an integer from 60 to 2147483647', [59, '59'], '59'),
  bad('observability.echo_loop_writes', 'an integer from 2 to 100', [1, '1'], '101'),
  bad('webhook.handler_timeout', 'an integer from 1 to 3600', [3601, '3601'], '7200'),
  bad('health.failing_backoff', ANY_INT, [0, '0'], '2147483648'),
  bad('webhook.max_attempts', 'an integer from 1 to 1000', ['3', '"3"'], 'many'),
  bad('sync.item_tries', 'an integer from 1 to 1000', [1001, '1001'], '0'),
  bad('webhook.retry_backoff', BACKOFF, ['60,300', '"60,300"'], '[]'),
  {
    key: 'sync.item_backoff',
    code: { value: [10, -1], at: 'sync.item_backoff.1', expected: 'an integer from 0 to 2147483647', received: '-1' },
    text: { value: '10,x', at: 'sync.item_backoff.1', expected: 'an integer from 0 to 2147483647', received: '"x"' },
  },
  {
    key: 'webhook.middleware',
    code: { value: 'web', expected: 'a list of names of registered middleware', received: '"web"' },
    text: {
      value: 'web,',
      at: 'webhook.middleware.1',
      expected: 'the name of a registered middleware',
      received: '""',
    },
  },
  bad('webhook.replay_window', 'an integer from 0 to 2147483647', [-1, '-1'], '-1'),
  bad('oauth.success_redirect', REDIRECT, ['//evil.example', '"//evil.example"'], '/\\evil.example'),
  bad('mappings.collation', 'a string, or null', [3, '3'], null),
  bad('sync.queues', QUEUES, [['slow'], 'a list of 1'], 'github=slow'),
  bad('sync.item_queue', `${QUEUE}, or null`, [false, 'false'], 'a b'),
  bad('circuit_breaker.enabled', 'true or false', ['true', '"true"'], 'yes'),
  bad('circuit_breaker.strategy', '"rate" or "count"', ['ratio', '"ratio"'], 'Rate'),
  bad('circuit_breaker.failure_rate_threshold', 'an integer from 1 to 100', [0, '0'], '101'),
  bad('health.disabled_after', `${ANY_INT}, or null`, [0, '0'], 'never'),
  bad(
    'logging.max_response_bytes',
    'an integer from 1024 to 2147483647 (a smaller one is ignored), or null',
    [true, 'true'],
    '1kb',
  ),
  bad('pruning.rollups_days', 'an integer from 31 to 2147483647', [30, '30'], '30'),
  bad('pruning.chunk_size', 'an integer from 1 to 10000', [10_001, '10001'], '10001'),
  bad(
    'metrics.path',
    'a path of "/" and segments of letters, digits, "_" and "-", such as "/metrics", or null',
    ['metrics', '"metrics"'],
    '/a/:id',
  ),
  bad('metrics.port', 'an integer from 1 to 65535, or null', [65_536, '65536'], '65536'),
  bad('worker.activity_slots', 'an integer from 2 to 100000', [1, '1'], '1'),
  bad('worker.local_activity_slots', 'an integer from 1 to 100000', [0, '0'], '0'),
  bad('worker.workflow_task_slots', 'an integer from 2 to 100000', [1, '1'], '1'),
  bad('worker.release', 'a string that matches ^[\\w.+-]{1,60}$, or null', ['a b', '"a b"'], 'a b'),
  bad('worker.cached_workflows', 'an integer from 2 to 100000, or null', [1, '1'], '1'),
  {
    key: 'worker.command_environment',
    code: {
      value: ['GITHUB_TOKEN', 'DATABASE_URL'],
      at: 'worker.command_environment.1',
      expected: HOST_VARIABLE,
      received: '"DATABASE_URL"',
    },
    text: {
      value: 'Integrations_Encryption_Keys, GITHUB_TOKEN',
      at: 'worker.command_environment.0',
      expected: HOST_VARIABLE,
      received: '"Integrations_Encryption_Keys"',
    },
  },
  bad('worker.shutdown_grace', 'an integer from 0 to 3600', [-1, '-1'], '-1'),
  {
    key: 'operator.tokens',
    code: {
      value: [{ name: 'ci', sha256: SECRET, scopes: ['read'] }],
      at: 'operator.tokens.0.sha256',
      expected: DIGEST,
      received: MASKED,
    },
    text: {
      value: `[{"name": "ci", "sha256": "${SECRET}", "scopes": ["read"]}]`,
      at: 'operator.tokens.0.sha256',
      expected: DIGEST,
      received: MASKED,
    },
  },
  {
    key: 'operator.oidc',
    code: {
      value: { issuer: SECRET, client_id: 'us' },
      at: 'operator.oidc.issuer',
      expected: 'an https URL without user info or query, or an http one of this machine',
      received: MASKED,
    },
    text: {
      value: `{"issuer": "https://id.example.com", "client_id": "us", "operate": "${SECRET}"}`,
      at: 'operator.oidc.operate',
      expected:
        'a list of e-mail addresses, of domains such as "@example.com", or of claims such as "groups=operators"',
      received: MASKED,
    },
  },
  bad(
    'operator.temporal_ui',
    'an https URL without user info, or an http one of this machine, or null',
    ['http://temporal.example.com', '"http://temporal.example.com"'],
    'temporal.example.com',
  ),
  bad(
    'operator.trace_url',
    'an https URL without user info that has {trace_id}, or an http one of this machine, or null',
    ['https://traces.example.com/', '"https://traces.example.com/"'],
    'javascript:{trace_id}',
  ),
  {
    key: 'notifications.targets',
    code: {
      value: [{ url: 'https://hooks.example', secret: SECRET }],
      at: 'notifications.targets.0.secret',
      expected: SIGNING_SECRET,
      received: MASKED,
    },
    text: {
      value: SECRET,
      expected: 'a list of objects {url, secret, types?, allow_private?, format?}',
      received: `a text of ${SECRET.length} characters that is not JSON (masked)`,
    },
  },
  {
    key: 'webhook.max_atempts',
    code: { value: 3, expected: 'a known key, did you mean "webhook.max_attempts"?', received: 'an unknown key' },
    text: {
      value: SECRET,
      at: 'INTEGRATIONS__WEBHOOK__MAX_ATEMPTS',
      expected: 'a variable of a known key, did you mean INTEGRATIONS__WEBHOOK__MAX_ATTEMPTS?',
      received: 'an unknown variable',
    },
  },
]

export function problemInCode({ key, code }: BadValue): ConfigurationProblem {
  return { key: code.at ?? key, expected: code.expected, received: code.received }
}

export function problemInEnvironment({ key, text }: BadValue): ConfigurationProblem {
  if (text === null) throw new TypeError(`every text is a value of ${key}`)
  const origin = text.received === 'an unknown variable' ? '' : ` from ${environmentName(key)}`
  return { key: text.at ?? key, expected: text.expected, received: text.received + origin }
}

/** `webhook.queue` → `{webhook: {queue: value}}`, all of them in one object. */
export function inCode(values: readonly BadValue[]): Record<string, unknown> {
  const config: Record<string, unknown> = {}
  for (const { key, code } of values) {
    const [section = '', inner] = key.split('.')
    config[section] = inner === undefined ? code.value : { ...(config[section] as object), [inner]: code.value }
  }
  return config
}

export function inEnvironment(values: readonly BadValue[]): Record<string, string> {
  return Object.fromEntries(
    values.flatMap(({ key, text }) => (text === null ? [] : [[environmentName(key), text.value]])),
  )
}

/** As processes print it. */
export function line({ key, expected, received }: ConfigurationProblem): string {
  return `  ${key}: expected ${expected}, received ${received}`
}
