/** What `createIntegrations()` says of bad values: exactly what was decided, all of it at once, and no secret. */
import { describe, expect, it, vi } from 'vitest'
import { CONFIG_KEYS } from '../../src/config/schema.ts'
import { createIntegrations } from '../../src/create-integrations.ts'
import { EGRESS_RULE } from '../../src/egress/address-rules.ts'
import type { ConfigurationProblem, InvalidConfiguration } from '../../src/framework/errors.ts'
import { isIntegrationsError } from '../../src/framework/errors.ts'
import { SyncItemEvent } from '../../src/providers/provider-events.ts'
import { encryptionKey } from '../support/integrations.ts'
import { syncProvider, webhookProvider } from '../support/providers.ts'
import type { BadValue } from './bad-values.ts'
import { BAD_VALUES, inCode, inEnvironment, problemInCode, problemInEnvironment, SECRET } from './bad-values.ts'

const KEY = encryptionKey('k1')
const OTHER_KEY = encryptionKey('k2')
/** Nothing connects to it: an object connects when it is first used. */
const GOOD = { database: `postgres://app:${SECRET}@127.0.0.1:1/app`, encryptionKeys: KEY }
const KEY_RING = expect.stringMatching(/^"kid:base64\[,kid:base64\.\.\.\]", 32 bytes each/)
const DATABASE_URL = expect.stringContaining('a URL such as postgres://user:password@host:5432/name')
const API_KEY = 'visible ASCII characters, such as those of a token'
const HTTP_URL = 'an absolute http(s) URL'
const none = () => null
const MODEL = { type: 'issues', of: none, find: none, findMany: none, create: none, update: none, scan: none }
const PROVIDER = 'a provider that can be registered'

/** The problems of an object made so, on a machine whose own variables do not count. */
function problemsOf(options: unknown, environment: Record<string, string> = {}): readonly ConfigurationProblem[] {
  for (const name of Object.keys(process.env).filter((name) =>
    /^(INTEGRATIONS_|TEMPORAL_|LOG_|DATABASE_URL)/.test(name),
  ))
    vi.stubEnv(name, undefined)
  for (const [name, text] of Object.entries(environment)) vi.stubEnv(name, text)
  try {
    void createIntegrations(options as object).close()
  } catch (error) {
    if (!isIntegrationsError(error, 'invalid_configuration')) throw error
    const secrets = [SECRET, KEY.slice(3), OTHER_KEY.slice(3)]
    for (const secret of secrets) expect(error.message + JSON.stringify(error)).not.toContain(secret)
    return (error as InvalidConfiguration).problems
  }
  return []
}

const sorted = (problems: readonly ConfigurationProblem[]) =>
  [...problems].sort((a, b) => `${a.key}${a.received}`.localeCompare(`${b.key}${b.received}`))

describe('a bad value of a key', () => {
  it('is a problem of its own in code', () => {
    for (const value of BAD_VALUES)
      expect(problemsOf({ ...GOOD, config: inCode([value]) }), value.key).toEqual([problemInCode(value)])
  })

  it('is a problem of its own in the environment', () => {
    for (const value of BAD_VALUES.filter(({ text }) => text !== null)) {
      expect(problemsOf(GOOD, inEnvironment([value])), value.key).toEqual([problemInEnvironment(value)])
      vi.unstubAllEnvs()
    }
  })

  it.each([
    ['whose quotes a shell took', '[{name:me}]', 'a text of 11 characters that is not JSON (masked)'],
    ['that is JSON of another kind', `{"name": "${SECRET}"}`, 'an object (masked)'],
    ['that is a JSON text', `"${SECRET}"`, `a string of ${SECRET.length} characters (masked)`],
  ])('in a masked variable %s is told by what it is', (_, text, received) => {
    const from = `${received} from INTEGRATIONS__OPERATOR__TOKENS`
    const problems = problemsOf(GOOD, { INTEGRATIONS__OPERATOR__TOKENS: text })
    expect(problems).toMatchObject([{ key: 'operator.tokens', received: from }])
    vi.unstubAllEnvs()
  })

  it('has a row for every kind of key', () => {
    const rows = new Set(BAD_VALUES.map(({ key }) => CONFIG_KEYS.get(key)?.allowed))
    const kinds = [...CONFIG_KEYS].filter(([, { allowed }]) => !rows.has(allowed)).map(([name]) => name)
    expect(kinds).toEqual([])
  })

  it('is found in every key at once', () => {
    const wrongType: BadValue[] = [...CONFIG_KEYS].map(([key, { allowed, secret }]) => ({
      key,
      code: { value: () => SECRET, expected: allowed, received: secret ? 'a function (masked)' : 'a function' },
      text: null,
    }))
    expect(sorted(problemsOf({ ...GOOD, config: inCode(wrongType) }))).toEqual(sorted(wrongType.map(problemInCode)))
  })
})

describe('values that do not go together', () => {
  it.each<[config: object, key: string, expected: string, received: string]>([
    [{ sync: { lock_ttl: 60 } }, 'sync.lock_ttl', 'at least sync.job_timeout (1800)', '60'],
    [{ health: { degraded_after: 21 } }, 'health.degraded_after', 'at most health.failing_after (20)', '21'],
    [{ health: { failing_after: 51 } }, 'health.failing_after', 'at most health.disabled_after (50)', '51'],
    [
      { webhook: { handler_timeout: 1800 } },
      'webhook.handler_timeout',
      'less than webhook.processing_timeout (1800)',
      '1800',
    ],
    [
      { oauth: { middleware: ['nobody'] } },
      'oauth.middleware.0',
      'a registered middleware (web, operator, signed, same-origin)',
      '"nobody"',
    ],
  ])('%j', (config, key, expected, received) => {
    expect(problemsOf({ ...GOOD, config })).toEqual([{ key, expected, received }])
  })
})

describe('a bad option', () => {
  const client = { parsers: {}, serializers: {} }
  const record = 'an object of names and middleware'

  it.each<[options: Record<string, unknown>, key: string, expected: unknown, received: string]>([
    [{ databse: 'x' }, 'databse', 'a known option, did you mean "database"?', 'an unknown option'],
    [{ quux: SECRET }, 'quux', 'a known option', 'an unknown option'],
    [{ egress: { allow: ['10.0.0.0/8', '10/8'] } }, 'egress.allow.1', EGRESS_RULE, '"10/8"'],
    [{ egress: { deny: ['https://api.example.com'] } }, 'egress.deny.0', EGRESS_RULE, '"https://api.example.com"'],
    [{ egress: { allow: [3] } }, 'egress.allow.0', EGRESS_RULE, '3'],
    [{ egress: { allow: '10.0.0.0/8' } }, 'egress.allow', `a list, each ${EGRESS_RULE}`, '"10.0.0.0/8"'],
    [{ egress: { proxy: `socks5://${SECRET}@proxy` } }, 'egress.proxy', HTTP_URL, 'a string of 31 characters (masked)'],
    [
      { egress: { proxies: [] } },
      'egress.proxies',
      expect.stringMatching(/^one of egress\.allow, /),
      'an unknown option',
    ],
    [{ webhook: { queue: 'x' } }, 'webhook', 'it under config, as { config: { webhook: { … } } }', 'an unknown option'],
    [
      { max_attempts: 3 },
      'max_attempts',
      'it under config, as { config: { webhook: { max_attempts: … } } }',
      'an unknown option',
    ],
    [{ table_prefix: 'x' }, 'table_prefix', 'it under config, as { config: { table_prefix: … } }', 'an unknown option'],
    [
      { pool: { size: 3 } },
      'pool.size',
      'one of pool.max, pool.idleSeconds, pool.statementSeconds',
      'an unknown option',
    ],
    [{ pool: 3 }, 'pool', 'an object with pool.max, pool.idleSeconds, pool.statementSeconds', 'a number (masked)'],
    [{ pool: { max: 0 } }, 'pool.max', 'an integer from 1 to 262143', '0'],
    [{ pool: { max: '3' } }, 'pool.max', 'an integer from 1 to 262143', '"3"'],
    [{ pool: { idleSeconds: -1 } }, 'pool.idleSeconds', 'an integer from 0 to 2147483', '-1'],
    [{ pool: { statementSeconds: 0.5 } }, 'pool.statementSeconds', 'an integer from 0 to 2147483', '0.5'],
    [{ schema: '' }, 'schema', 'a name of 1 to 63 bytes', '""'],
    [{ schema: 'é'.repeat(32) }, 'schema', 'a name of 1 to 63 bytes', `"${'é'.repeat(32)}"`],
    [{ database: null }, 'database', DATABASE_URL, 'null'],
    [{ database: client }, 'database', DATABASE_URL, 'an object (masked)'],
    [{ database: '' }, 'database', DATABASE_URL, 'nothing: neither the option database nor DATABASE_URL is given'],
    [{ database: `mysql://app:${SECRET}@db/app` }, 'database', DATABASE_URL, 'a text that is no such URL'],
    [
      { database: `${GOOD.database}?sslmode=sometimes` },
      'database (sslmode)',
      'disable, allow, prefer, require, verify-ca or verify-full',
      '"sometimes"',
    ],
    [
      { temporal: { address: `grpc://${SECRET}@temporal:7233` } },
      'temporal.address',
      'a host, or host:port such as localhost:7233',
      '"grpc://[masked]@temporal:7233"',
    ],
    [{ temporal: { namespace: '' } }, 'temporal.namespace', 'a string that is not empty', '""'],
    [{ temporal: { apiKey: 3 } }, 'temporal.apiKey', API_KEY, 'a number (masked)'],
    // As a file's last line break would have it.
    [{ temporal: { apiKey: `${SECRET}\n` } }, 'temporal.apiKey', API_KEY, expect.stringMatching(/masked/)],
    [
      { temporal: { tls: { clientCertPair: { crt: SECRET } } } },
      'temporal.tls',
      expect.any(String),
      'an object (masked)',
    ],
    [
      { temporal: { adress: 'x' } },
      'temporal.adress',
      expect.stringMatching(/^one of temporal\.address, /),
      'an unknown option',
    ],
    [
      { encryptionKeys: SECRET },
      'encryptionKeys',
      KEY_RING,
      'none that can be used: Entry 1 has no key id of 1 to 32 letters, digits, "_" or "-".',
    ],
    [
      { encryptionKeys: `k1:${SECRET}` },
      'encryptionKeys',
      KEY_RING,
      'none that can be used: The key "k1" is no strict base64 (with padding, no other characters).',
    ],
    [
      { encryptionKeys: [KEY, `k2:${KEY.slice(3)}`] },
      'encryptionKeys',
      KEY_RING,
      'none that can be used: "k1" and "k2" are the same key.',
    ],
    [
      { encryptionKeys: [KEY, `k1:${OTHER_KEY.slice(3)}`] },
      'encryptionKeys',
      KEY_RING,
      'none that can be used: The key id "k1" is given twice.',
    ],
    [
      { encryptionKeys: 7 },
      'encryptionKeys',
      KEY_RING,
      'none that can be used: encryptionKeys is neither a string nor a list of strings.',
    ],
    [
      { encryptionKeys: null },
      'encryptionKeys',
      KEY_RING,
      'none that can be used: encryptionKeys is neither a string nor a list of strings.',
    ],
    [
      { encryptionKeys: [] },
      'encryptionKeys',
      KEY_RING,
      expect.stringMatching(/^none that can be used: None is given/) as never,
    ],
    [{ dev: 'yes' }, 'dev', 'true or false', '"yes"'],
    [{ config: null }, 'config', 'an object', 'null'],
    [{ config: [] }, 'config', 'an object', 'a list of 0'],
    [{ providers: [] }, 'providers', 'an object of provider identifiers and providers', 'a list of 0'],
    [
      { providers: { github: 3 } },
      'providers.github',
      PROVIDER,
      "one that can't be: a provider is an object, a class, or a function that returns an object at once",
    ],
    [
      { providers: { 123: {} } },
      'providers.123',
      PROVIDER,
      'one that can\'t be: an identifier is 1 to 64 of a-z, 0-9, "_" and "-", and not all digits',
    ],
    [
      { providers: { demo: { handleWebhook: () => null } } },
      'providers.demo',
      PROVIDER,
      expect.stringMatching(/^one that can't be: HandlesWebhooks lacks signature or verifyWebhookSignature/) as never,
    ],
    [
      { config: { providers: { github: 3 } } },
      'providers.github',
      PROVIDER,
      expect.stringMatching(/^one that can't be: /) as never,
    ],
    [
      { providers: { demo: {} }, config: { providers: { demo: {} } } },
      'providers.demo',
      'one registration, under the option providers or under config.providers',
      'both',
    ],
    [{ models: 3 }, 'models', 'an object of names and models', '3'],
    [
      { models: { issue: { type: 'issue' } } },
      'models.issue',
      'a model, with a type and of, find, findMany, create, update, scan',
      'an object',
    ],
    [{ models: { issue: MODEL } }, 'models.issue', 'the model under its own type, which is "issues"', '"issue"'],
    [{ middleware: 'web' }, 'middleware', record, '"web"'],
    [{ middleware: { audit: 'audit' } }, 'middleware.audit', 'a function (context, next) => …', '"audit"'],
    [
      { middleware: { 'Audit log': () => {} } },
      'middleware.Audit log',
      'a name that matches ^[A-Za-z][\\w.-]{0,63}$',
      '"Audit log"',
    ],
    [{ logger: console.log }, 'logger', 'an object with the functions debug, info, warn, error', 'a function'],
    [{ clock: { now: 3 } }, 'clock', 'an object with the function now', 'an object'],
  ])('%o', (options, key, expected, received) => {
    expect(problemsOf({ ...GOOD, ...options })).toEqual([{ key, expected, received }])
  })

  it('is one that two providers disagree about', () => {
    class One extends SyncItemEvent<null> {
      static override readonly type = 'test.same'
    }
    class Two extends SyncItemEvent<null> {
      static override readonly type = 'test.same'
    }
    const lists = (...classes: (typeof One)[]) => syncProvider(() => {}, { syncItemEvents: () => classes })
    expect(problemsOf({ ...GOOD, providers: { one: lists(One), two: lists(Two) } })).toEqual([
      {
        key: 'providers.two',
        expected: PROVIDER,
        received: 'one that can\'t be: two classes claim the type "test.same"',
      },
    ])
  })

  it.each([null, 'postgres://app:open-sesame-1234@db/app', 3, []])('is an object that is none: %j', (options) => {
    const environment = { DATABASE_URL: GOOD.database, INTEGRATIONS_ENCRYPTION_KEYS: KEY }
    expect(problemsOf(options, environment)).toEqual([{ key: 'options', expected: 'an object', received: 'no object' }])
  })

  it.each([
    'api.example.com',
    'ftp://api.example.com',
    '//api.example.com',
    'https:api.example.com',
    'https://',
    'https:///api',
    'https://api.example.com?',
    'https://api.example.com#',
    'https://@api.example.com',
    'https://api.example.com/a b',
    'https://api.example.com\\a',
    ' https://api.example.com',
  ])('is the base URL %s, in code and in the environment', (text) => {
    const expected = 'an absolute http(s) URL without user info, query and fragment'
    const inOption = problemsOf({ ...GOOD, baseUrl: text })
    expect(inOption).toEqual([{ key: 'baseUrl', expected, received: expect.any(String) }])
    expect(problemsOf(GOOD, { INTEGRATIONS_BASE_URL: text })).toEqual([
      { key: 'baseUrl', expected, received: `${inOption[0]?.received} from INTEGRATIONS_BASE_URL` },
    ])
  })

  it.each([
    [`https://app:${SECRET}@api.example.com/x`, '"https://[masked]@api.example.com/x"'],
    [`https://app:a/${SECRET}@api.example.com`, '"https://[masked]@api.example.com"'],
    [`app:${SECRET}@api.example.com`, '"[masked]@api.example.com"'],
    [`https://api.example.com/x?token=${SECRET}`, '"https://api.example.com/x?[masked]"'],
  ])('shows nothing secret of the base URL %s', (baseUrl, received) => {
    expect(problemsOf({ ...GOOD, baseUrl })).toMatchObject([{ key: 'baseUrl', received }])
  })
})

describe('a bad variable', () => {
  it.each<[environment: Record<string, string>, key: string, expected: unknown, received: string]>([
    [{ INTEGRATIONS_DEV: 'yes' }, 'dev', 'true or false', '"yes" from INTEGRATIONS_DEV'],
    [{ INTEGRATIONS_DEV: 'TRUE' }, 'dev', 'true or false', '"TRUE" from INTEGRATIONS_DEV'],
    [
      { TEMPORAL_ADDRESS: 'http://localhost:7233' },
      'temporal.address',
      'a host, or host:port such as localhost:7233',
      '"http://localhost:7233" from TEMPORAL_ADDRESS',
    ],
    [{ LOG_LEVEL: 'loud' }, 'LOG_LEVEL', expect.stringContaining('"info"'), '"loud"'],
    [{ LOG_STREAM: 'nowhere' }, 'LOG_STREAM', '"stdout" or "stderr"', '"nowhere"'],
  ])('%j', (environment, key, expected, received) => {
    expect(problemsOf(GOOD, environment)).toEqual([{ key, expected, received }])
  })

  it('of the database and of the keys counts where no option is given', () => {
    const environment = { DATABASE_URL: `mysql://app:${SECRET}@db/app`, INTEGRATIONS_ENCRYPTION_KEYS: `k1:${SECRET}` }
    expect(problemsOf(GOOD, environment)).toEqual([])
    expect(problemsOf({}, environment)).toEqual([
      { key: 'database', expected: DATABASE_URL, received: 'a text that is no such URL' },
      { key: 'encryptionKeys', expected: KEY_RING, received: expect.stringContaining('"k1" is no strict base64') },
    ])
  })

  it('of Temporal counts where no option is given, one of ours always', () => {
    const environment = { TEMPORAL_ADDRESS: 'http://x', INTEGRATIONS_BASE_URL: 'x', INTEGRATIONS_DEV: 'x' }
    const options = { ...GOOD, temporal: { address: 'localhost:7233' }, baseUrl: 'https://a.example', dev: false }
    expect(problemsOf(options, environment).map(({ received }) => received)).toEqual([
      '"x" from INTEGRATIONS_BASE_URL',
      '"x" from INTEGRATIONS_DEV',
    ])
  })

  it('that is empty is none', () => {
    const names = ['INTEGRATIONS_DEV', 'INTEGRATIONS_BASE_URL', 'TEMPORAL_ADDRESS', 'LOG_LEVEL', 'LOG_STREAM']
    expect(problemsOf(GOOD, Object.fromEntries(names.map((name) => [name, ''])))).toEqual([])
  })
})

describe('dev where NODE_ENV is production', () => {
  const refused = { key: 'dev', expected: 'false where NODE_ENV is production' }

  it.each<[dev: boolean | undefined, text: string, received: string | null]>([
    [true, '', 'true'],
    [true, 'false', 'true'],
    [undefined, '1', 'true from INTEGRATIONS_DEV'],
    [undefined, 'true', 'true from INTEGRATIONS_DEV'],
    [undefined, '0', null],
    [undefined, '', null],
    [false, '1', null],
  ])('the option %j and the variable "%s"', (dev, text, received) => {
    const problems = problemsOf({ ...GOOD, dev }, { INTEGRATIONS_DEV: text, NODE_ENV: 'production' })
    expect(problems).toEqual(received === null ? [] : [{ ...refused, received }])
  })
})

describe('all problems at once', () => {
  it('are those of code, environment, options, database, keys and providers, in one error', () => {
    const problems = problemsOf(
      {
        database: 'mysql://x',
        encryptionKeys: 'x',
        baseUrl: 'x',
        loger: console,
        providers: { demo: 3, 7: webhookProvider() },
        config: { ...inCode(BAD_VALUES), pruning: { requests_days: 0 } },
      },
      { ...inEnvironment(BAD_VALUES), INTEGRATIONS_DEV: 'x', INTEGRATIONS__SYNC__LOCK_TTL: '60' },
    )
    const code = BAD_VALUES.filter(({ key }) => !key.startsWith('pruning.')).map(problemInCode)
    const environment = BAD_VALUES.filter(({ text }) => text !== null).map(problemInEnvironment)
    const rest = [
      { key: 'pruning.requests_days', expected: 'an integer from 1 to 2147483647', received: '0' },
      { key: 'sync.lock_ttl', expected: 'at least sync.job_timeout (1800)', received: '60' },
      { key: 'loger', expected: 'a known option, did you mean "logger"?', received: 'an unknown option' },
      { key: 'baseUrl', expected: expect.any(String), received: '"x"' },
      { key: 'dev', expected: 'true or false', received: '"x" from INTEGRATIONS_DEV' },
      { key: 'database', expected: DATABASE_URL, received: 'a text that is no such URL' },
      { key: 'encryptionKeys', expected: KEY_RING, received: expect.any(String) },
      { key: 'providers.demo', expected: PROVIDER, received: expect.any(String) },
      { key: 'providers.7', expected: PROVIDER, received: expect.any(String) },
    ]
    expect(problems).toHaveLength(code.length + environment.length + rest.length)
    expect(problems).toEqual(expect.arrayContaining([...code, ...environment, ...rest]))
  })

  it('leave an error of the host itself as it is', () => {
    const broken = new Error('the host forgot its token')
    const providers = {
      demo: () => {
        throw broken
      },
    }
    expect(() => problemsOf({ ...GOOD, providers })).toThrow(broken)
  })
})
