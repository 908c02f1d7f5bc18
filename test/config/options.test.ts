import { describe, expect, expectTypeOf, it } from 'vitest'
import type { OPTIONS } from '../../src/config/option-registry.ts'
import { checkOptions } from '../../src/config/options.ts'
import type { IntegrationsOptions } from '../../src/create-integrations.ts'
import type { ConfigurationProblem } from '../../src/framework/errors.ts'

type GroupOf<Name> = Name extends `${infer Group}.${string}` ? Group : Name

/** What is in force of sound options. */
function inForce(options: object, environment: Record<string, string> = {}) {
  const problems: ConfigurationProblem[] = []
  const checked = checkOptions(options, environment, problems)
  expect(problems).toEqual([])
  return checked
}

describe('the registry of options', () => {
  it('names what createIntegrations() takes, and nothing else', () => {
    expectTypeOf<GroupOf<keyof typeof OPTIONS>>().toEqualTypeOf<keyof IntegrationsOptions>()
  })
})

describe('sound options', () => {
  it.each<[object]>([
    [{}],
    [{ database: undefined, schema: undefined, pool: undefined, temporal: undefined }],
    [{ database: Object.assign(() => {}, { options: {} }) }],
    [{ schema: 'é'.repeat(31), pool: { max: 1, idleSeconds: 0 } }],
    [{ pool: { max: 262_143, idleSeconds: 2_147_483, statementSeconds: 0 } }],
    [{ temporal: { address: '[::1]:7233', namespace: 'a', apiKey: 'k', tls: true } }],
    [{ temporal: { address: 'temporal', tls: { clientCertPair: { crt: Buffer.of(1), key: Buffer.of(2) } } } }],
    [{ encryptionKeys: ['k1:x'], config: { webhook: {} }, providers: { a: {} } }],
    [{ middleware: { a: () => {}, [`a${'-'.repeat(63)}`]: () => {} } }],
    [{ logger: console, clock: { now: () => new Date() } }],
  ])('%o', (options) => {
    expect(inForce(options)).toEqual({ baseUrl: null, dev: false, logLevel: 'info' })
  })
})

describe('the base URL', () => {
  it.each([
    ['https://api.example.com', 'https://api.example.com'],
    ['https://api.example.com/', 'https://api.example.com'],
    ['https://api.example.com//', 'https://api.example.com'],
    ['http://127.0.0.1:3000/app/', 'http://127.0.0.1:3000/app'],
    ['http://[::1]:3000', 'http://[::1]:3000'],
    ['HTTPS://API.example.com/App', 'HTTPS://API.example.com/App'],
  ])('%s is %s, from the option and from the variable', (text, expected) => {
    expect(inForce({ baseUrl: text }).baseUrl).toBe(expected)
    expect(inForce({}, { INTEGRATIONS_BASE_URL: text }).baseUrl).toBe(expected)
  })

  it("is the option's where both are given", () => {
    const environment = { INTEGRATIONS_BASE_URL: 'https://variable.example' }
    expect(inForce({ baseUrl: 'https://option.example' }, environment).baseUrl).toBe('https://option.example')
  })
})

describe('dev', () => {
  it.each<[dev: boolean | undefined, text: string | undefined, expected: boolean]>([
    [undefined, undefined, false],
    [undefined, '', false],
    [undefined, '0', false],
    [undefined, 'false', false],
    [undefined, '1', true],
    [undefined, 'true', true],
    [true, undefined, true],
    [true, '0', true],
    [false, '1', false],
  ])('is, with the option %j and the variable %j, %j', (dev, text, expected) => {
    const environment = text === undefined ? {} : { INTEGRATIONS_DEV: text }
    expect(inForce({ dev }, { ...environment, NODE_ENV: 'development' }).dev).toBe(expected)
  })
})

describe('the level of the built-in logger', () => {
  it.each([
    [undefined, 'info'],
    ['', 'info'],
    ['debug', 'debug'],
    ['silent', 'silent'],
  ])('with LOG_LEVEL=%s is %s', (text, expected) => {
    expect(inForce({}, text === undefined ? {} : { LOG_LEVEL: text }).logLevel).toBe(expected)
  })
})
