/**
 * The command line as a real process with a host of its own: exit codes, what goes to stdout and what to stderr, signals,
 * pipes and a terminal.
 */
import type { ChildProcess } from 'node:child_process'
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import type { Integrations } from '../../../src/create-integrations.ts'
import { createIntegrations } from '../../../src/create-integrations.ts'
import type { TestDatabase } from '../../support/database.ts'
import { createTestDatabase } from '../../support/database.ts'
import type { Output } from '../../support/output.ts'
import { outputOf } from '../../support/output.ts'
import { sharePostgres } from '../../support/postgres-setup.ts'

const INSTALLED = inject('installed')
const KEY = `k1:${randomBytes(32).toString('base64')}`
const TOKEN = 'gho_abracadabra'
const PASSWORD = 'open-sesame'
/** Nobody listens there: it is reserved, and not for us. */
const CLOSED_PORT = 1

/** A host that chatters on stdout, and whose provider's health check says that it is asked. */
const HOST = `
import { createIntegrations } from 'durable-integrations'
import { z } from 'zod'

console.log('the host is loading')

const demo = {
  credentialsSchema: z.object({ token: z.string().min(8) }),
  async healthCheck(integration) {
    process.stderr.write('the provider is asked\\n')
    if (process.env.TEST_HANGS) await new Promise((resolve) => setTimeout(resolve, 600_000))
    return integration.credentialsArray().token.startsWith('gho_')
  },
  sync: async () => {},
  reduceCheckpoints: () => null,
  defaultRateLimit: () => null,
}

export default createIntegrations({ providers: { demo }, config: JSON.parse(process.env.TEST_CONFIG ?? '{}') })
`

let server: Awaited<ReturnType<typeof sharePostgres>>
let database: TestDatabase
let integrations: Integrations
let root: string
/** An integration that stays, and one for each command that takes it away. */
let ids: Record<'kept' | 'deleted' | 'erased', number>
const children = new Set<ChildProcess>()

beforeAll(async () => {
  server = await sharePostgres()
  database = await createTestDatabase({ adminUrl: server.url })
  root = await mkdtemp(join(INSTALLED, 'cli-'))
  // Of TypeScript: commands-three-ways.e2e.test.ts, start-errors.e2e.test.ts. Here its reader would be loaded at each start.
  await writeFile(join(root, 'integrations.config.js'), HOST)
  integrations = createIntegrations({ database: database.url, encryptionKeys: KEY, providers: { demo: {} } })
  const make = async (name: string) =>
    (await integrations.create({ provider: 'demo', name, credentials: { token: TOKEN } })).id
  ids = { kept: await make('kept'), deleted: await make('deleted'), erased: await make('erased') }
})

afterAll(async () => {
  // Those of a test that failed.
  for (const child of children) child.kill('SIGKILL')
  await integrations.close()
  await rm(root, { recursive: true, force: true })
  await database.drop()
  await server.release()
})

type Environment = Record<string, string | undefined>

const COMMAND = [process.execPath, join(INSTALLED, 'node_modules', '.bin', 'integrations')]

function environment(env: Environment): NodeJS.ProcessEnv {
  const given = {
    PATH: process.env.PATH,
    HOME: process.env.HOME,
    DATABASE_URL: database.url,
    INTEGRATIONS_ENCRYPTION_KEYS: KEY,
    TEMPORAL_ADDRESS: `127.0.0.1:${CLOSED_PORT}`,
    DEMO_TOKEN: TOKEN,
    ...env,
  }
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as NodeJS.ProcessEnv
}

function start(program: string, args: readonly string[], env: Environment = {}): ChildProcess {
  const child = spawn(program, args, { cwd: root, env: environment(env), stdio: ['pipe', 'pipe', 'pipe'] })
  children.add(child)
  child.stdin?.end()
  return child
}

const cli = (words: readonly string[], env: Environment = {}): ChildProcess =>
  start(COMMAND[0] as string, [...COMMAND.slice(1), ...words], env)

async function ended(child: ChildProcess): Promise<Output> {
  const output = await outputOf(child)
  for (const secret of [TOKEN, PASSWORD, KEY, new URL(server.url).password])
    expect(output.out + output.err).not.toContain(secret)
  return output
}

/** The output as one JSON document in one line, and nothing before or after it. */
function document(out: string): unknown {
  expect(out).toMatch(/^[^\n]+\n$/)
  return JSON.parse(out)
}

/** Commands by what they need: the host only, or the tables as well. All of them by each way: test/e2e/commands-three-ways. */
const COMMANDS: [string, 'no host' | 'nothing' | 'tables', () => string[]][] = [
  ['migrate', 'tables', () => []],
  ['config', 'nothing', () => []],
  ['keys generate', 'no host', () => []],
  ['install demo', 'tables', () => ['--name', `n${Math.random()}`, '--credential', 'token=env:DEMO_TOKEN']],
  ['list', 'tables', () => []],
]

const words = (name: string, args: () => string[]): string[] => [...name.split(' '), ...args(), '--json']

describe('every command with --json', () => {
  it.each(COMMANDS)('%s (needs %s): 0', async (name, needs, args) => {
    // The default logger is talkative: its lines are no result.
    const { code, out, err } = await ended(cli(words(name, args), { LOG_LEVEL: 'trace' }))
    expect(document(out)).not.toHaveProperty('error')
    expect({ code, err }).toMatchObject({ code: 0 })
    expect(err.includes('the host is loading')).toBe(needs !== 'no host')
  })

  // These, for every command, in a process of the test's own: exit-codes.pg.test.ts.
  it('without Postgres: 2', async () => {
    const env = { DATABASE_URL: `postgres://app:${PASSWORD}@127.0.0.1:${CLOSED_PORT}/app` }
    const { code, out } = await ended(cli(['list', '--json'], env))
    expect(code).toBe(2)
    expect(document(out)).toEqual({
      error: {
        code: 'backend_unreachable',
        message: expect.stringContaining(`Postgres was not reached at 127.0.0.1:${CLOSED_PORT}.`),
      },
    })
  })

  it('with a bad configuration: 1, every problem at once', async () => {
    const TEST_CONFIG = JSON.stringify({ webhook: { max_attempts: '3', max_payload_byte: 1 } })
    const { code, out } = await ended(cli(['list', '--json'], { TEST_CONFIG }))
    expect(code).toBe(1)
    expect(document(out)).toMatchObject({
      error: {
        code: 'invalid_configuration',
        problems: [{ key: 'webhook.max_attempts' }, { key: 'webhook.max_payload_byte' }],
      },
    })
  })

  it('on tables that are behind: 1, and migrate mends it', async () => {
    const empty = `empty_${randomBytes(6).toString('hex')}`
    const sql = postgres(server.url, { max: 1, fetch_types: false })
    await sql.unsafe(`create database ${empty}`)
    await sql.end()
    const env = { DATABASE_URL: Object.assign(new URL(database.url), { pathname: empty }).href }
    const behind = await ended(cli(['list', '--json'], env))
    expect(behind.code).toBe(1)
    expect(document(behind.out)).toEqual({
      error: { code: 'schema_behind', message: expect.stringContaining('`integrations migrate`') },
    })
    expect((await ended(cli(['migrate', '--json'], env))).code).toBe(0)
    expect(document((await ended(cli(['list', '--json'], env))).out)).toEqual([])
  })

  it('without a host: 1', async () => {
    const { code, out } = await ended(cli(['list', '--json'], { INTEGRATIONS_CONFIG: 'elsewhere.ts' }))
    expect(code).toBe(1)
    expect(document(out)).toMatchObject({
      error: { code: 'invalid_configuration', problems: [{ key: 'INTEGRATIONS_CONFIG' }] },
    })
  })

  it('and bad input: 1', async () => {
    const { code, out, err } = await ended(cli(['show', 'x', '--json']))
    expect({ code, err }).toEqual({ code: 1, err: '' })
    expect(document(out)).toMatchObject({ error: { code: 'usage' } })
  })
})

describe('a rehearsal', () => {
  it('is played by a process of the package, in a copy of the copy that is gone after', async () => {
    const copy = await createTestDatabase({ adminUrl: server.url })
    const { code, out, err } = await ended(cli(['rehearse', '--since', '24h', '--database', copy.url, '--json']))
    expect(document(out)).toMatchObject({ handled: 0, different: 0, differences: [] })
    expect(code).toBe(0)
    // Once for the command, once in the process that plays.
    expect(err.match(/the host is loading/g)).toHaveLength(2)
    const sql = postgres(server.url, { max: 1, fetch_types: false })
    const name = new URL(copy.url).pathname.slice(1)
    expect(await sql`select datname from pg_database where datname like ${`${name}_%`}`).toEqual([])
    await sql.end()
    await copy.drop()
  })

  it('refuses the configured database: 1', async () => {
    const { code, out } = await ended(cli(['rehearse', '--since', '24h', '--database', database.url, '--json']))
    expect(document(out)).toMatchObject({ error: { code: 'invalid_argument' } })
    expect(code).toBe(1)
  })
})

describe('a pipe', () => {
  it('whose reader has gone does not fail the command', async () => {
    const line = `${COMMAND.map((word) => `'${word}'`).join(' ')} config | true; echo "\${PIPESTATUS[0]}"`
    const { out, err } = await ended(start('bash', ['-c', line]))
    expect(out).toBe('0\n')
    expect(err).toBe('the host is loading\n')
  })
})

describe('a terminal', () => {
  it('that has gone does not fail the command: each write to it answers EIO', async () => {
    // As Node tells of it, once the command listens.
    const gone = `
      const { on } = process.stderr
      process.stderr.on = function (name, listener) {
        if (name === 'error')
          setImmediate(() => this.emit('error', Object.assign(new Error('write EIO'), { code: 'EIO' })))
        return on.call(this, name, listener)
      }`
    const { code, out } = await ended(
      cli(['config', '--json'], { NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(gone)}` }),
    )
    expect(document(out)).toBeInstanceOf(Array)
    expect(code).toBe(0)
  })
})

/** Beside each other: they wait for what does not come. */
describe.concurrent('a command that waits', () => {
  it('sync --integration, which needs Temporal: 2', async () => {
    const { code, out, err } = await ended(
      cli(['sync', '--integration', String(ids.kept), '--json'], { LOG_LEVEL: 'trace' }),
    )
    expect(document(out)).toMatchObject({ error: { code: 'backend_unreachable' } })
    expect(code).toBe(2)
    expect(err).toContain('the host is loading')
  })

  it('delete and erase', async () => {
    const deleted = await ended(cli(['delete', String(ids.deleted), '--yes', '--force', '--json']))
    // Whether a run lives is asked of Temporal.
    expect(deleted.code).toBe(2)
    expect(document(deleted.out)).toMatchObject({ error: { code: 'backend_unreachable' } })
    expect((await integrations.find(ids.deleted))?.id).toBe(ids.deleted)
    const unasked = await ended(cli(['erase', String(ids.erased), '--json']))
    expect(unasked.code).toBe(1)
    expect(document(unasked.out)).toMatchObject({ error: { code: 'confirmation_needed' } })
  })

  it('Ctrl-C: ends with 130, and what was begun is taken back or switched off', async () => {
    const child = cli(['install', 'demo', '--name', 'hangs', '--credential', 'token=env:DEMO_TOKEN', '--json'], {
      TEST_HANGS: '1',
    })
    let err = ''
    const end = ended(child)
    const asked = new Promise<void>((resolve) => {
      child.stderr?.on('data', (chunk) => {
        err += chunk
        if (err.includes('the provider is asked')) resolve()
      })
    })
    await asked
    child.kill('SIGINT')
    const { code, out } = await end
    expect(code).toBe(130)
    expect(document(out)).toMatchObject({ error: { code: 'interrupted' } })
    for await (const integration of integrations.list({ provider: 'demo' }))
      if (integration.name === 'hangs') expect(integration.isActive).toBe(false)
  })
})

describe('a terminal', () => {
  /** Runs the command on a pseudo-terminal; answers each question when it is seen. */
  const ON_A_TERMINAL = `
import fcntl, json, os, pty, struct, sys, termios
command, answers = json.loads(sys.argv[1]), json.loads(sys.argv[2])
child, terminal = pty.fork()
if child == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack('HHHH', 24, 120, 0, 0))
    os.execvp(command[0], command)
seen = b''
while True:
    try:
        chunk = os.read(terminal, 4096)
    except OSError:
        break
    if not chunk:
        break
    seen += chunk
    sys.stdout.buffer.write(chunk)
    if answers and answers[0][0].encode() in seen:
        os.write(terminal, answers.pop(0)[1].encode())
        seen = b''
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
`
  const onTerminal = (given: readonly string[], answers: readonly [string, string][], env: Environment = {}) =>
    ended(
      start('python3', ['-c', ON_A_TERMINAL, JSON.stringify([...COMMAND, ...given]), JSON.stringify(answers)], {
        TERM: 'xterm',
        ...env,
      }),
    )

  it('is asked, and a credential is not shown while it is typed', async () => {
    const { code, out } = await onTerminal(
      ['install', 'demo'],
      [
        ['Name of the integration', ' of the terminal\r'],
        ['token', `${TOKEN}\r`],
      ],
    )
    expect({ code, installed: out.includes('("demo of the terminal", demo)') }).toEqual({ code: 0, installed: true })
  })

  it('breaks a question off with Ctrl-C: 130', async () => {
    const { code, out } = await onTerminal(['install', 'demo'], [['Name of the integration', '\u0003']])
    expect(code).toBe(130)
    expect(out).toContain('Interrupted.')
  })

  it.each([
    ['CI', [], { CI: 'true' }],
    ['--no-interactive', ['--no-interactive'], {}],
  ])('is not asked with %s', async (_, flags, env) => {
    const { code, out } = await onTerminal(['erase', String(ids.erased), ...flags], [], env)
    expect(code).toBe(1)
    expect(out).toContain('give --yes to go on')
  })
})
