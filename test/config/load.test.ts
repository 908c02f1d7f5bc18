import { inspect } from 'node:util'
import { describe, expect, expectTypeOf, it } from 'vitest'
import { createApi } from '../../src/api/app.ts'
import type { LoadConfigOptions } from '../../src/config/load.ts'
import type { Config, ConfigInput } from '../../src/config/schema.ts'
import { CONFIG_KEYS, environmentName } from '../../src/config/schema.ts'
import { createIntegrations } from '../../src/create-integrations.ts'
import type { ConfigurationProblem, InvalidConfiguration } from '../../src/framework/errors.ts'
import { isIntegrationsError } from '../../src/framework/errors.ts'
import { encryptionKey } from '../support/integrations.ts'
import { loadConfig } from '../support/load-config.ts'

const MAX_INT = 2_147_483_647
const SHA256 = 'a'.repeat(64)
const SHA256_OF_NOTHING = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'
const SIGNING_SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`

/** Loads with an environment of its own, so that the machine's never counts. */
function load(options: LoadConfigOptions = {}) {
  return loadConfig({ environment: {}, ...options })
}

function loadCode(key: string, value: unknown) {
  return load({ config: inCode(key, value) })
}

function loadText(key: string, text: string) {
  return load({ environment: { [environmentName(key)]: text } })
}

/** `webhook.queue` → `{webhook: {queue: value}}`, of any type: hosts may write JavaScript. */
function inCode(key: string, value: unknown): ConfigInput {
  const [section = '', inner] = key.split('.')
  return (inner === undefined ? { [section]: value } : { [section]: { [inner]: value } }) as ConfigInput
}

function readKey(config: object, key: string): unknown {
  return key.split('.').reduce<unknown>((value, step) => (value as Record<string, unknown>)[step], config)
}

function errorOf(run: () => unknown): InvalidConfiguration {
  try {
    run()
  } catch (error) {
    if (isIntegrationsError(error, 'invalid_configuration')) return error as InvalidConfiguration
    throw error
  }
  throw new Error('the configuration was accepted')
}

function problemsOf(run: () => unknown): readonly ConfigurationProblem[] {
  return errorOf(run).problems
}

function keysOf(run: () => unknown): string[] {
  return problemsOf(run).map((problem) => problem.key)
}

describe('where a value comes from', () => {
  it('is the default when nobody gives one', () => {
    const { config, sources, warnings } = load()
    for (const [key, { default: expected }] of CONFIG_KEYS) {
      expect(readKey(config, key), key).toEqual(expected)
      expect(sources[key], key).toBe('default')
    }
    expect(warnings).toEqual([])
  })

  it('is the config object before the default, the environment before both', () => {
    const { config, sources } = load({
      config: { webhook: { max_attempts: 3, queue: 'hooks' }, table_prefix: 'acme' },
      environment: { INTEGRATIONS__WEBHOOK__MAX_ATTEMPTS: '5', INTEGRATIONS__CACHE_PREFIX: 'acme-1' },
    })
    expect(config.webhook).toMatchObject({ max_attempts: 5, queue: 'hooks', concurrency: 10 })
    expect(config).toMatchObject({ table_prefix: 'acme', cache_prefix: 'acme-1' })
    expect(sources).toMatchObject({
      'webhook.max_attempts': 'environment',
      'webhook.queue': 'options',
      'webhook.concurrency': 'default',
      table_prefix: 'options',
      cache_prefix: 'environment',
    })
  })

  it('counts an empty variable and undefined in code as unset', () => {
    const { config, sources } = load({
      config: { webhook: { max_attempts: undefined }, sync: undefined },
      environment: { INTEGRATIONS__WEBHOOK__QUEUE: '', INTEGRATIONS__NO_SUCH: '', INTEGRATIONS__X: undefined },
    })
    expect(config.webhook).toMatchObject({ max_attempts: 1, queue: 'default' })
    expect(sources['webhook.queue']).toBe('default')
  })

  it('leaves other variables alone, the key ring among them', () => {
    const environment = { INTEGRATIONS_ENCRYPTION_KEYS: 'k1:x', DATABASE_URL: 'x', WEBHOOK__QUEUE: 'x' }
    expect(() => load({ environment })).not.toThrow()
  })

  it('freezes the whole configuration and copies lists', () => {
    const middleware = ['web']
    const { config } = load({ config: { webhook: { middleware } } })
    middleware.push('late')
    expect(config.webhook.middleware).toEqual(['web'])
    expect(Object.isFrozen(config)).toBe(true)
    expect(Object.isFrozen(config.webhook)).toBe(true)
    expect(Object.isFrozen(config.webhook.middleware)).toBe(true)
    expect(Object.isFrozen(CONFIG_KEYS.get('webhook.middleware')?.default)).toBe(false)
  })
})

describe('the types of the configuration', () => {
  it('are as narrow as the keys', () => {
    expectTypeOf<Config['table_prefix']>().toEqualTypeOf<string>()
    expectTypeOf<Config['webhook']['max_attempts']>().toEqualTypeOf<number>()
    expectTypeOf<Config['webhook']['retry_backoff']>().toEqualTypeOf<readonly number[]>()
    expectTypeOf<Config['circuit_breaker']['strategy']>().toEqualTypeOf<'rate' | 'count'>()
    expectTypeOf<Config['health']['disabled_after']>().toEqualTypeOf<number | null>()
    expectTypeOf<Config['sync']['queues']>().toEqualTypeOf<Readonly<Record<string, string>>>()
    expectTypeOf<{ webhook: { max_attempts: string } }>().not.toExtend<ConfigInput>()
  })
})

describe('text of a variable', () => {
  const READ: [key: string, text: string, expected: unknown][] = [
    ['webhook.max_attempts', '3', 3],
    ['oauth.refresh_lock_wait', '0', 0],
    ['circuit_breaker.enabled', 'false', false],
    ['circuit_breaker.enabled', '0', false],
    ['metrics.open', 'true', true],
    ['metrics.open', '1', true],
    ['circuit_breaker.strategy', 'count', 'count'],
    ['health.disabled_after', 'null', null],
    ['sync.item_queue', 'null', null],
    ['sync.item_queue', 'items', 'items'],
    ['webhook.retry_backoff', '5,10', [5, 10]],
    ['webhook.retry_backoff', '5, 10', [5, 10]],
    ['webhook.retry_backoff', '[5, 10]', [5, 10]],
    ['webhook.retry_backoff', '0', [0]],
    ['webhook.middleware', 'web,audit', ['web', 'audit']],
    ['oauth.middleware', '[]', []],
    ['sync.queues', '{"github": "slow"}', { github: 'slow' }],
    ['sync.queues', '[]', {}],
    ['webhook.prefix', '/hooks/in/', 'hooks/in'],
    [
      'notifications.targets',
      `[{"url": "https://a.example/x", "secret": "${SIGNING_SECRET}"}]`,
      [{ url: 'https://a.example/x', secret: SIGNING_SECRET }],
    ],
  ]
  it('is read as its key says', () => {
    for (const [key, text, expected] of READ)
      expect(readKey(loadText(key, text).config, key), `${key}=${text}`).toEqual(expected)
  })

  const MISREAD: [key: string, text: string][] = [
    ['webhook.max_attempts', '3.5'],
    ['webhook.max_attempts', '3 '],
    ['webhook.max_attempts', '+3'],
    ['webhook.max_attempts', '1e2'],
    ['webhook.max_attempts', '0x10'],
    ['webhook.max_attempts', 'three'],
    ['webhook.max_attempts', 'null'],
    ['webhook.max_attempts', '0'],
    ['webhook.max_attempts', '-1'],
    ['webhook.max_attempts', '1001'],
    ['webhook.pending_timeout', '2147483648'],
    ['webhook.pending_timeout', '99999999999999999999'],
    ['circuit_breaker.enabled', 'yes'],
    ['circuit_breaker.enabled', 'TRUE'],
    ['circuit_breaker.strategy', 'Rate'],
    ['table_prefix', 'null'],
    ['webhook.retry_backoff', '[]'],
    ['sync.queues', 'github=slow'],
    ['operator.tokens', '{}'],
  ]
  it('that its key does not allow is one problem, which names the variable', () => {
    for (const [key, text] of MISREAD)
      expect(
        problemsOf(() => loadText(key, text)),
        `${key}=${text}`,
      ).toEqual([
        { key, expected: CONFIG_KEYS.get(key)?.allowed, received: expect.stringContaining(environmentName(key)) },
      ])
  })

  it.each([
    ['webhook.retry_backoff', '5,,10', 'webhook.retry_backoff.1'],
    ['webhook.retry_backoff', '5,x', 'webhook.retry_backoff.1'],
    ['webhook.retry_backoff', '5,-1', 'webhook.retry_backoff.1'],
    ['webhook.retry_backoff', '["5"]', 'webhook.retry_backoff.0'],
    ['webhook.middleware', 'web,', 'webhook.middleware.1'],
    ['sync.queues', '{"github": "a b"}', 'sync.queues.github'],
  ])('%s=%s names the entry %s', (key, text, at) => {
    expect(keysOf(() => loadText(key, text))).toEqual([at])
  })
})

describe('a value in code', () => {
  const REFUSED: [key: string, value: unknown][] = [
    // Never coerced.
    ['webhook.max_attempts', '3'],
    ['webhook.max_attempts', 3.5],
    ['webhook.max_attempts', Number.NaN],
    ['webhook.max_attempts', Number.POSITIVE_INFINITY],
    ['webhook.max_attempts', 3n],
    ['webhook.max_attempts', true],
    ['webhook.max_attempts', null],
    ['webhook.max_attempts', [3]],
    ['circuit_breaker.enabled', 'true'],
    ['circuit_breaker.enabled', 1],
    ['webhook.queue', 7],
    ['webhook.retry_backoff', 60],
    ['webhook.retry_backoff', '60,300'],
    ['webhook.middleware', 'web'],
    ['sync.item_queue', false],
    // Out of range.
    ['webhook.max_attempts', 0],
    ['webhook.max_attempts', 1001],
    ['sync.item_tries', 0],
    ['sync.item_tries', 1001],
    ['webhook.processing_timeout', 59],
    ['webhook.pending_timeout', 0],
    ['webhook.pending_timeout', MAX_INT + 1],
    ['webhook.timestamp_tolerance', 0],
    ['webhook.secret_overlap', 0],
    ['webhook.replay_window', -1],
    ['webhook.concurrency', 0],
    ['webhook.handler_timeout', 0],
    ['webhook.handler_timeout', 3_601],
    ['sync.item_timeout', 3_601],
    ['sync.failure_backoff_max_multiplier', MAX_INT + 1],
    ['health.degraded_backoff', MAX_INT + 1],
    ['oauth.state_ttl', 0],
    ['oauth.refresh_lock_ttl', 0],
    ['oauth.refresh_lock_wait', -1],
    ['mappings.lock_wait', -1],
    ['rate_limiting.max_wait_seconds', -1],
    ['retry.retry_after_max_seconds', 0],
    ['circuit_breaker.failure_rate_threshold', 0],
    ['circuit_breaker.failure_rate_threshold', 101],
    ['observability.anomaly_failure_rate_threshold', 101],
    ['health.disabled_after', 0],
    ['pruning.requests_days', 0],
    ['pruning.webhooks_days', 0],
    ['pruning.chunk_size', 10_001],
    ['logging.max_response_bytes', MAX_INT + 1],
    ['metrics.path', 'metrics'],
    ['metrics.path', '/'],
    ['metrics.path', '/*'],
    ['metrics.path', '/a/:id'],
    ['metrics.port', 0],
    ['metrics.port', 65_536],
    ['webhook.retry_backoff', []],
    ['webhook.retry_backoff', Array(101).fill(1)],
    // Of another form.
    ['circuit_breaker.strategy', 'ratio'],
    ['table_prefix', ''],
    ['table_prefix', 'Acme'],
    ['table_prefix', '1st'],
    ['table_prefix', 'a'.repeat(31)],
    ['table_prefix', 'a;drop table x'],
    ['cache_prefix', ''],
    ['cache_prefix', 'a:b'],
    ['cache_prefix', 'a'.repeat(65)],
    ['webhook.queue', ''],
    ['webhook.queue', 'a b'],
    ['webhook.queue', 'a'.repeat(65)],
    ['sync.item_queue', ''],
    ['webhook.prefix', ''],
    ['webhook.prefix', '/'],
    ['webhook.prefix', 'a//b'],
    ['webhook.prefix', 'a/:id'],
    ['oauth.route_prefix', 'a b'],
    ['operator.prefix', '../up'],
    ['oauth.success_redirect', ''],
    ['oauth.success_redirect', 'integrations'],
    ['oauth.success_redirect', '//evil.example'],
    ['oauth.success_redirect', '/\\evil.example'],
    ['oauth.success_redirect', '/\t/evil.example'],
    ['oauth.success_redirect', '/a\nb'],
    ['oauth.success_redirect', 'javascript:alert(1)'],
    ['oauth.success_redirect', 'ftp://a.example'],
    ['oauth.success_redirect', 'https://'],
  ]
  it('that its key does not allow is one problem', () => {
    for (const [key, value] of REFUSED)
      expect(
        problemsOf(() => loadCode(key, value)),
        `${key} = ${inspect(value)}`,
      ).toEqual([{ key, expected: CONFIG_KEYS.get(key)?.allowed, received: expect.any(String) }])
  })

  const TAKEN: [key: string, value: unknown][] = [
    ['webhook.max_attempts', 1000],
    ['webhook.processing_timeout', 60],
    ['webhook.pending_timeout', MAX_INT],
    ['webhook.replay_window', 0],
    ['oauth.refresh_lock_wait', 0],
    ['mappings.lock_wait', 0],
    ['rate_limiting.max_wait_seconds', 0],
    ['circuit_breaker.failure_rate_threshold', 100],
    ['circuit_breaker.failure_rate_threshold', 1],
    ['pruning.chunk_size', 10_000],
    ['pruning.webhooks_days', 30],
    ['logging.max_response_bytes', 1024],
    ['health.disabled_after', null],
    ['health.degraded_backoff', MAX_INT],
    ['health.failing_backoff', MAX_INT],
    ['sync.failure_backoff_max_multiplier', MAX_INT],
    ['metrics.path', '/ops/metrics'],
    ['metrics.path', null],
    ['metrics.port', 9464],
    ['webhook.retry_backoff', [0]],
    ['webhook.retry_backoff', Array(100).fill(MAX_INT)],
    ['table_prefix', `_${'a'.repeat(29)}`],
    ['cache_prefix', 'Acme.prod-1_x'],
    ['webhook.prefix', 'api/v1/hooks'],
    ['oauth.success_redirect', '/'],
    ['oauth.success_redirect', '/settings?tab=1#x'],
    ['oauth.success_redirect', 'https://app.example/done?x=1'],
    ['sync.queues', { github: 'slow', stripe: 'fast' }],
  ]
  it('that its key allows is taken as it is', () => {
    for (const [key, value] of TAKEN) {
      const { config, sources, warnings } = loadCode(key, value)
      expect([readKey(config, key), sources[key], warnings], key).toEqual([value, 'options', []])
    }
  })

  it('takes the empty list of the specification for no queues of providers', () => {
    expect(loadCode('sync.queues', []).config.sync.queues).toEqual({})
  })

  it('finds no queue for a provider whose name every object has', () => {
    const { config } = loadCode('sync.queues', { github: 'slow' })
    expect(config.sync.queues.constructor).toBeUndefined()
    expect(load().config.sync.queues.constructor).toBeUndefined()
  })

  it.each([
    ['/hooks', 'hooks'],
    ['hooks/', 'hooks'],
    ['//api/hooks//', 'api/hooks'],
  ])('trims the outer slashes of the route prefix %s', (given, expected) => {
    expect(loadCode('webhook.prefix', given).config.webhook.prefix).toBe(expected)
  })
})

describe('an unknown name', () => {
  it.each([
    ['webhook.max_atempts', 'webhook.max_attempts'],
    ['webhook.maxAttempts', 'webhook.max_attempts'],
    ['tableprefix', 'table_prefix'],
    ['max_attempts', 'webhook.max_attempts'],
    ['webhooks', 'webhook'],
    ['provider', 'providers'],
  ])('%s in code is a problem that suggests %s', (given, suggested) => {
    const [problem, ...others] = problemsOf(() => loadCode(given, given === 'webhooks' ? {} : 3))
    expect(others).toEqual([])
    expect(problem).toMatchObject({ key: given, received: 'an unknown key' })
    expect(problem?.expected).toContain(`"${suggested}"`)
  })

  it('is shown where it belongs when it is dotted', () => {
    const config = { 'webhook.queue': 'x' } as ConfigInput
    expect(problemsOf(() => load({ config }))).toEqual([
      {
        key: 'webhook.queue',
        expected: 'nested objects, such as { webhook: { queue: … } }',
        received: 'a dotted name',
      },
    ])
  })

  it('says so when it is an option of createIntegrations()', () => {
    const [problem] = problemsOf(() => loadCode('encryptionKeys', 'k1:secret'))
    expect(problem?.expected).toContain('an option of createIntegrations()')
  })

  it.each(['__proto__', 'constructor', 'toString'])('%s is unknown at the top and in a section', (name) => {
    const inner = JSON.parse(`{"webhook": {"${name}": 1}, "${name}": 1}`)
    expect(keysOf(() => load({ config: inner }))).toEqual([`webhook.${name}`, name])
  })

  it.each([
    ['INTEGRATIONS__WEBHOOK__MAX_ATEMPTS', 'INTEGRATIONS__WEBHOOK__MAX_ATTEMPTS'],
    ['INTEGRATIONS__webhook__max_attempts', 'INTEGRATIONS__WEBHOOK__MAX_ATTEMPTS'],
    ['INTEGRATIONS__WEBHOOK_QUEUE', 'INTEGRATIONS__WEBHOOK__QUEUE'],
  ])('%s in the environment is a problem that suggests %s', (variable, suggested) => {
    const [problem, ...others] = problemsOf(() => load({ environment: { [variable]: 'whsec_private' } }))
    expect(others).toEqual([])
    expect(problem).toMatchObject({ key: variable, received: 'an unknown variable' })
    expect(problem?.expected).toContain(suggested)
  })

  it.each<[section: string, value: unknown]>([
    ['webhook', 3],
    ['webhook', null],
    ['webhook', []],
    ['webhook', 'max_attempts=3'],
    ['providers', []],
    ['providers', null],
  ])('the section %s = %j is a problem', (section, value) => {
    expect(keysOf(() => loadCode(section, value))).toEqual([section])
  })

  it.each([null, [], 'webhook', 3])('the config object %j is a problem', (config) => {
    expect(keysOf(() => load({ config: config as unknown as ConfigInput }))).toEqual(['config'])
  })
})

describe('keys that depend on each other', () => {
  it.each<[ConfigInput, key: string, expected: string, received: string]>([
    [
      { operator: { prefix: 'integrations' } },
      'operator.prefix',
      'a prefix of its own, not that of webhook.prefix',
      '"integrations"',
    ],
    [
      { operator: { prefix: 'o' }, oauth: { route_prefix: '/o/' } },
      'operator.prefix',
      'a prefix of its own, not that of oauth.route_prefix',
      '"o"',
    ],
    [{ sync: { lock_ttl: 1799 } }, 'sync.lock_ttl', 'at least sync.job_timeout (1800)', '1799'],
    [{ sync: { job_timeout: 1801 } }, 'sync.lock_ttl', 'at least sync.job_timeout (1801)', '1800'],
    [{ worker: { activity_slots: 9 } }, 'worker.activity_pollers', 'at most worker.activity_slots (9)', '10'],
    [
      { worker: { workflow_task_slots: 9 } },
      'worker.workflow_task_pollers',
      'at most worker.workflow_task_slots (9)',
      '10',
    ],
    [{ worker: { cached_workflows: 39 } }, 'worker.workflow_task_slots', 'at most worker.cached_workflows (39)', '40'],
    [{ health: { degraded_after: 21 } }, 'health.degraded_after', 'at most health.failing_after (20)', '21'],
    [{ health: { failing_after: 51 } }, 'health.failing_after', 'at most health.disabled_after (50)', '51'],
    [
      { webhook: { handler_timeout: 1800 } },
      'webhook.handler_timeout',
      'less than webhook.processing_timeout (1800)',
      '1800',
    ],
    [
      { webhook: { handler_timeout: 300, processing_timeout: 120 } },
      'webhook.handler_timeout',
      'less than webhook.processing_timeout (120)',
      '300',
    ],
    [
      { metrics: { path: '/operator' } },
      'metrics.path',
      'a path outside of operator.prefix (/operator)',
      '"/operator"',
    ],
    [
      { metrics: { path: '/ops/api/v1/healthz' }, operator: { prefix: 'ops' } },
      'metrics.path',
      'a path outside of operator.prefix (/ops)',
      '"/ops/api/v1/healthz"',
    ],
    [
      { metrics: { path: '/hooks/github/7/webhook' }, webhook: { prefix: '/hooks/' } },
      'metrics.path',
      'a path outside of webhook.prefix (/hooks)',
      '"/hooks/github/7/webhook"',
    ],
    [
      { metrics: { path: '/auth/oauth/callback' }, oauth: { route_prefix: 'auth' } },
      'metrics.path',
      'a path outside of oauth.route_prefix (/auth)',
      '"/auth/oauth/callback"',
    ],
    [
      { metrics: { path: '/done' }, oauth: { success_redirect: '/done' } },
      'metrics.path',
      'another path than oauth.success_redirect',
      '"/done"',
    ],
  ])('%j is a problem', (config, key, expected, received) => {
    expect(problemsOf(() => load({ config }))).toEqual([{ key, expected, received }])
  })

  it.each<[ConfigInput]>([
    [{ sync: { lock_ttl: 900, job_timeout: 900 } }],
    [{ health: { degraded_after: 20 } }],
    [{ health: { degraded_after: 50, failing_after: 50 } }],
    [{ health: { failing_after: 1000, disabled_after: null } }],
    [{ webhook: { handler_timeout: 1799 } }],
    [{ metrics: { path: '/operators' } }],
    [{ metrics: { path: '/api' }, operator: { prefix: 'api/operator' } }],
    [{ metrics: { path: null }, oauth: { success_redirect: '/metrics-are-nowhere' } }],
  ])('%j is sound', (config) => {
    expect(() => load({ config })).not.toThrow()
  })

  it('are judged on the values in force, whichever layer they come from', () => {
    const config: ConfigInput = { sync: { job_timeout: 3600 } }
    expect(() => load({ config, environment: { INTEGRATIONS__SYNC__LOCK_TTL: '3600' } })).not.toThrow()
    expect(keysOf(() => load({ environment: { INTEGRATIONS__SYNC__JOB_TIMEOUT: '3600' } }))).toEqual(['sync.lock_ttl'])
  })

  it('are not compared with a default in the place of a faulty value', () => {
    const config = { sync: { lock_ttl: 900, job_timeout: '600' } } as unknown as ConfigInput
    expect(keysOf(() => load({ config }))).toEqual(['sync.job_timeout'])
  })

  it('gives a handler half of a short processing timeout', () => {
    const { config, sources } = load({ config: { webhook: { processing_timeout: 100 } } })
    expect(config.webhook.handler_timeout).toBe(50)
    expect(sources['webhook.handler_timeout']).toBe('default')
  })
})

describe('names that must be registered', () => {
  it('are the providers of sync.queues and handledBy, once a process begins: they may be registered after the configuration is read', async () => {
    const integrations = createIntegrations({
      database: 'postgres://nobody@localhost/none',
      encryptionKeys: encryptionKey('test'),
      providers: { stripe: {} },
      config: { sync: { queues: { stripe: 'fast', github: 'slow', githb: 'slow' } }, providers: { acme: {} } },
      handledBy: { github: {}, acmee: { webhooks: { workflow: 'handle', taskQueue: 'py' } } },
    })
    integrations.register('github', {})
    expect(() => createApi(integrations)).toThrow('sync.queues.githb')
    const refused = await integrations.ready().catch((error: unknown) => error)
    await integrations.close()
    expect(refused).toMatchObject({
      code: 'invalid_configuration',
      problems: [
        { key: 'sync.queues.githb', expected: 'a registered provider (acme, stripe, github)', received: '"githb"' },
        { key: 'handledBy.acmee', expected: 'a registered provider (acme, stripe, github)', received: '"acmee"' },
      ],
    })
  })

  it('may not be registered under the option and config.providers', () => {
    const config: ConfigInput = { providers: { github: {}, acme: {} } }
    expect(keysOf(() => load({ config, optionProviderKeys: ['github', 'stripe'] }))).toEqual(['providers.github'])
  })

  it('are the middleware of every list, in code and in the environment', () => {
    const options: LoadConfigOptions = {
      config: { webhook: { middleware: ['audit', 'webb'] } },
      environment: { INTEGRATIONS__OAUTH__MIDDLEWARE: 'web,nobody' },
    }
    expect(problemsOf(() => load({ ...options, middlewareNames: ['audit'] }))).toEqual([
      {
        key: 'webhook.middleware.1',
        expected: 'a registered middleware (web, operator, signed, same-origin, audit)',
        received: '"webb"',
      },
      { key: 'oauth.middleware.1', expected: expect.any(String), received: '"nobody"' },
    ])
    expect(() => load(options)).not.toThrow()
  })
})

describe('warnings', () => {
  it.each([1023, 1, 0, -1])('logging.max_response_bytes = %d is ignored', (bytes) => {
    const { config, warnings } = loadCode('logging.max_response_bytes', bytes)
    expect(config.logging.max_response_bytes).toBeNull()
    expect(warnings).toEqual([expect.stringContaining('logging.max_response_bytes')])
  })

  it('mappings.collation is ignored', () => {
    const { config, warnings } = loadText('mappings.collation', 'utf8mb4_bin')
    expect(config.mappings.collation).toBeNull()
    expect(warnings).toEqual([expect.stringContaining('mappings.collation')])
  })

  it.each(['oauth.middleware', 'oauth.callback_middleware'])('an empty %s is obeyed', (key) => {
    const { config, warnings } = loadCode(key, [])
    expect(readKey(config, key)).toEqual([])
    expect(warnings).toEqual([expect.stringContaining(key)])
  })
})

describe('operator.oidc', () => {
  const oidc = { issuer: 'https://id.example.com/tenant', client_id: 'us' }

  it.each([
    [{ ...oidc, issuer: 'http://id.example.com' }, 'issuer'],
    [{ ...oidc, issuer: 'https://user@id.example.com' }, 'issuer'],
    [{ ...oidc, issuer: 'https://id.example.com?tenant=1' }, 'issuer'],
    [{ ...oidc, client_id: '' }, 'client_id'],
    [{ ...oidc, client_secret: '' }, 'client_secret'],
    [{ ...oidc, operate: 'ada@example.com' }, 'operate'],
    [{ ...oidc, read: [''] }, 'read.0'],
    [{ ...oidc, roles: [] }, 'roles'],
  ])('refuses %j', (value, field) => {
    expect(problemsOf(() => loadCode('operator.oidc', value)).map(({ key }) => key)).toEqual([`operator.oidc.${field}`])
  })

  it.each(['https://id.example.com/tenant', 'http://localhost:8080', 'http://127.0.0.1:1', 'http://[::1]'])(
    'takes the issuer %s',
    (issuer) => expect(loadCode('operator.oidc', { ...oidc, issuer }).config.operator.oidc?.issuer).toBe(issuer),
  )
})

describe('operator.tokens and notifications.targets', () => {
  const token = { name: 'ci', sha256: SHA256, scopes: ['read', 'operate'] }
  const target = { url: 'https://hooks.example/x?y=1', secret: SIGNING_SECRET }

  it('are taken when whole', () => {
    const targets = [
      target,
      { ...target, types: ['incident.opened', 'sync.stale'], allow_private: true, format: 'standard' },
      { ...target, format: 'slack' },
      { url: target.url, format: 'slack' },
    ]
    const { config } = load({ config: { operator: { tokens: [token] }, notifications: { targets } } as ConfigInput })
    expect(config.operator.tokens).toEqual([token])
    expect(config.notifications.targets).toEqual(targets)
  })

  it('writes digests in lower case', () => {
    const { config } = loadCode('operator.tokens', [{ ...token, sha256: 'AB'.repeat(32) }])
    expect(config.operator.tokens[0]?.sha256).toBe('ab'.repeat(32))
  })

  it.each<[value: unknown, at: string]>([
    [[{ ...token, sha256: 'abc' }], 'operator.tokens.0.sha256'],
    [[{ ...token, sha256: 'g'.repeat(64) }], 'operator.tokens.0.sha256'],
    [[{ ...token, sha256: SHA256_OF_NOTHING }], 'operator.tokens.0.sha256'],
    [[{ ...token, sha256: SHA256_OF_NOTHING.toUpperCase() }], 'operator.tokens.0.sha256'],
    [[{ ...token, name: '' }], 'operator.tokens.0.name'],
    [[{ ...token, scopes: [] }], 'operator.tokens.0.scopes'],
    [[{ ...token, scopes: ['read', 'admin'] }], 'operator.tokens.0.scopes.1'],
    [[{ ...token, token: 'plain' }], 'operator.tokens.0.token'],
    [[{ name: 'ci', scopes: ['read'] }], 'operator.tokens.0.sha256'],
    [['secret'], 'operator.tokens.0'],
    [[token, { ...token, sha256: 'b'.repeat(64) }], 'operator.tokens.1.name'],
    [[token, { ...token, name: 'other' }], 'operator.tokens.1.sha256'],
    [token, 'operator.tokens'],
  ])('operator.tokens = %j is a problem at %s', (value, at) => {
    expect(keysOf(() => loadCode('operator.tokens', value))).toEqual([at])
    expect(keysOf(() => loadText('operator.tokens', JSON.stringify(value)))).toEqual([at])
  })

  it.each<[value: unknown, at: string]>([
    [[{ ...target, url: 'ftp://a.example' }], 'notifications.targets.0.url'],
    [[{ ...target, url: 'https://user:pass@a.example' }], 'notifications.targets.0.url'],
    [[{ ...target, url: '/hooks' }], 'notifications.targets.0.url'],
    [[{ ...target, secret: 'short' }], 'notifications.targets.0.secret'],
    [[{ ...target, secret: SIGNING_SECRET.slice(6) }], 'notifications.targets.0.secret'],
    [[{ ...target, secret: `whsec_${Buffer.alloc(23).toString('base64')}` }], 'notifications.targets.0.secret'],
    [[{ ...target, secret: `whsec_${Buffer.alloc(65).toString('base64')}` }], 'notifications.targets.0.secret'],
    [[{ ...target, types: [] }], 'notifications.targets.0.types'],
    [[{ ...target, types: ['incident.reopened'] }], 'notifications.targets.0.types.0'],
    [[{ ...target, allow_private: 'yes' }], 'notifications.targets.0.allow_private'],
    [[{ ...target, type: 'x' }], 'notifications.targets.0.type'],
    [[{ url: target.url }], 'notifications.targets.0.secret'],
    [[{ url: target.url, format: 'standard' }], 'notifications.targets.0.secret'],
    [[{ ...target, format: 'slack', secret: 'short' }], 'notifications.targets.0.secret'],
    [[{ ...target, format: 'slack', url: '/hooks' }], 'notifications.targets.0.url'],
    [[{ ...target, format: 'teams' }], 'notifications.targets.0.format'],
    [[{ ...target, format: null }], 'notifications.targets.0.format'],
    [['PRIVATE'], 'notifications.targets.0'],
  ])('notifications.targets = %j is a problem at %s', (value, at) => {
    expect(keysOf(() => loadCode('notifications.targets', value))).toEqual([at])
  })

  it.each<[key: string, value: unknown]>([
    ['operator.tokens', 'PRIVATE'],
    ['operator.tokens', ['PRIVATE']],
    ['operator.tokens', { token: 'PRIVATE' }],
    ['operator.tokens', [{ name: 'PRIVATE'.repeat(20), sha256: 'PRIVATE', scopes: 'PRIVATE', token: 'PRIVATE' }]],
    ['notifications.targets', [{ url: 'PRIVATE', secret: 'whsec_PRIVATE', types: ['PRIVATE'] }]],
    ['notifications.targets', [{ url: 'PRIVATE', format: 'PRIVATE' }]],
    ['notifications.targets', [{ url: 'PRIVATE', format: 'slack' }]],
  ])('show nothing of a faulty %s = %j', (key, value) => {
    const text = typeof value === 'string' ? value : JSON.stringify(value)
    for (const error of [errorOf(() => loadCode(key, value)), errorOf(() => loadText(key, text))]) {
      expect(`${error.message} ${JSON.stringify(error.problems)}`).not.toContain('PRIVATE')
    }
  })
})

describe('the problems of a configuration', () => {
  it('are all there at once, of both layers and between keys', () => {
    const config = {
      webhook: { max_attempts: '3', no_such: 1, handler_timeout: 3000 },
      sync: { lock_ttl: 5 },
      oauth: { middleware: ['nobody'] },
    } as unknown as ConfigInput
    const environment = { INTEGRATIONS__HEALTH__FAILING_AFTER: 'x', INTEGRATIONS__TYPO: '1' }
    expect(keysOf(() => load({ config, environment, middlewareNames: [] }))).toEqual([
      'webhook.max_attempts',
      'webhook.no_such',
      'INTEGRATIONS__TYPO',
      'health.failing_after',
      'sync.lock_ttl',
      'webhook.handler_timeout',
      'oauth.middleware.0',
    ])
  })

  it('include a faulty value that the environment replaces', () => {
    const config = { webhook: { max_attempts: 0 } }
    expect(keysOf(() => load({ config, environment: { INTEGRATIONS__WEBHOOK__MAX_ATTEMPTS: '2' } }))).toEqual([
      'webhook.max_attempts',
    ])
  })

  it('read as one sentence each', () => {
    const error = errorOf(() => loadText('webhook.max_attempts', 'many'))
    expect(error.message).toContain(
      'webhook.max_attempts: expected an integer from 1 to 1000, received "many" from INTEGRATIONS__WEBHOOK__MAX_ATTEMPTS',
    )
  })

  it('cut long values and mask the user info of a URL', () => {
    const [problem] = problemsOf(() => loadCode('table_prefix', `postgres://me:PRIVATE@db/x${'y'.repeat(500)}`))
    expect(problem?.received).toMatch(/^"postgres:\/\/\[masked\]@db/)
    expect(problem?.received.length).toBeLessThan(100)
  })
})
