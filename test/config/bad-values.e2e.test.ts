/**
 * What a host sees who starts a process of ours with bad values in its integrations.config.ts and in the environment: all
 * of them at once, from each process, no secret, exit code 1. Nothing is reached for this: no Postgres, no Temporal.
 *
 * Each process runs twice: from a clone, where a loader reads TypeScript, and compiled, as a host installs the package, where
 * Node 20 does not read TypeScript and the host's module comes by jiti.
 */
import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import type { Output } from '../support/output.ts'
import { outputOf } from '../support/output.ts'
import { BAD_VALUES, inCode, inEnvironment, line, problemInCode, problemInEnvironment, SECRET } from './bad-values.ts'

const PACKAGE = fileURLToPath(new URL('../../', import.meta.url))

/** Faults of every sort at once. The values of keys are data, so that the tests can compute what to expect. */
const BAD_HOST = `
import { createIntegrations } from 'durable-integrations'

const level: string = 'typescript'
export default createIntegrations({
  database: 'mysql://app:${SECRET}@db/app',
  encryptionKeys: 'k1:${SECRET}',
  baseUrl: 'https://app:${SECRET}@api.example.com/?token=${SECRET}',
  loger: level,
  dev: true,
  providers: { demo: { handleWebhook: () => null }, 7: {} },
  middleware: { audit: 'audit' },
  config: { ...${JSON.stringify(inCode(BAD_VALUES))}, health: { degraded_after: 60, failing_after: 60, failing_backoff: 0 } },
})
`

const ENVIRONMENT = {
  ...inEnvironment(BAD_VALUES.filter(({ key }) => key !== 'health.disabled_after')),
  INTEGRATIONS_DEV: 'yes',
  NODE_ENV: 'production',
  LOG_LEVEL: 'loud',
}

const BASE_URL = 'an absolute http(s) URL without user info, query and fragment'

/** Every line that a process must print after the first; of two only the beginning. */
const EXPECTED = [
  ...BAD_VALUES.filter(({ key }) => key !== 'health.disabled_after').flatMap((value) => [
    line(problemInCode(value)),
    ...(value.text === null ? [] : [line(problemInEnvironment(value))]),
  ]),
  '  health.failing_after: expected at most health.disabled_after (50), received 60',
  '  loger: expected a known option, did you mean "logger"?, received an unknown option',
  `  baseUrl: expected ${BASE_URL}, received "https://[masked]@api.example.com/?[masked]"`,
  '  dev: expected true or false, received "yes" from INTEGRATIONS_DEV',
  '  dev: expected false where NODE_ENV is production, received true',
  '  middleware.audit: expected a function (context, next) => …, received "audit"',
  '  LOG_LEVEL: expected "trace" or "debug" or "info" or "warn" or "error" or "fatal" or "silent", received "loud"',
  '  database: expected a URL such as postgres://user:password@host:5432/name, with special characters percent-encoded, received a text that is no such URL',
  '  providers.7: expected a provider that can be registered, received one that can\'t be: an identifier is 1 to 64 of a-z, 0-9, "_" and "-", and not all digits',
  "  providers.demo: expected a provider that can be registered, received one that can't be: HandlesWebhooks lacks signature or verifyWebhookSignature",
]
const KEY_RING =
  /^ {2}encryptionKeys: expected "kid:base64.*, received none that can be used: The key "k1" is no strict base64/

type Program = 'api' | 'worker' | 'integrations'
const PROGRAMS: [Program, string[]][] = [
  ['api', []],
  ['worker', []],
  ['integrations', ['migrate']],
]

const installed = inject('installed')
const release = join(installed, 'node_modules', 'durable-integrations')
let root: string

beforeAll(() => {
  mkdirSync(join(PACKAGE, '.data'), { recursive: true })
  root = mkdtempSync(join(PACKAGE, '.data', 'bad-values-'))
})

afterAll(() => rmSync(root, { recursive: true, force: true }))

interface Start {
  readonly program: Program
  readonly args: readonly string[]
  readonly compiled: boolean
  /** Text of the host's module. */
  readonly host: string
  readonly environment: Record<string, string>
}

async function run({ program, args, compiled, host, environment }: Start): Promise<Output> {
  const cwd = mkdtempSync(join(compiled ? installed : root, 'host-'))
  writeFileSync(join(cwd, 'integrations.config.ts'), host)
  const clone = ['--conditions=durable-source', '--import', 'tsx', join(PACKAGE, 'src', 'bin', `${program}.ts`)]
  const command = compiled ? [join(release, 'dist', 'bin', `${program}.js`)] : clone
  const child = spawn(process.execPath, [...command, ...args], {
    cwd,
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  return outputOf(child)
}

function expectAll({ code, out, err }: Output, expected: readonly string[]): void {
  expect(out + err).not.toContain(SECRET)
  expect(err).not.toMatch(/^\s+at .*[:(]/m) // a line of a stack
  const [first, ...lines] = err.trimEnd().split('\n')
  expect(lines.filter((text) => !KEY_RING.test(text)).sort()).toEqual([...expected].sort())
  expect(lines.filter((text) => KEY_RING.test(text))).toHaveLength(1)
  expect(first).toBe(`The configuration has ${lines.length} problems:`)
  expect({ code, out }).toEqual({ code: 1, out: '' })
}

describe.each([
  ['a clone', false],
  ['a release', true],
])('of %s', (_, compiled) => {
  it.each(PROGRAMS)('%s %j prints every problem of the host, its file and the environment', async (program, args) => {
    const end = await run({ program, args, compiled, host: BAD_HOST, environment: ENVIRONMENT })
    expectAll(end, EXPECTED)
  })
})

it('the API tells a port that is none together with the rest', async () => {
  const environment = { ...ENVIRONMENT, PORT: '65536' }
  const end = await run({ program: 'api', args: [], compiled: true, host: BAD_HOST, environment })
  expectAll(end, [...EXPECTED, '  PORT: expected an integer from 0 to 65535, received "65536"'])
})
