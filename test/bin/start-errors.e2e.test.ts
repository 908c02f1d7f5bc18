/**
 * What somebody sees who starts a process with bad input: one clear message and the right exit code, no stack, no secret.
 *
 * Real processes with a small host that has installed the package.
 */
import type { ChildProcess } from 'node:child_process'
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import type { AddressInfo, Server, Socket } from 'node:net'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import packageJson from '../../package.json' with { type: 'json' }
import { loadHost } from '../../src/bin/host.ts'
import { createIntegrations } from '../../src/create-integrations.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { Output } from '../support/output.ts'
import { outputOf } from '../support/output.ts'
import { sharePostgres } from '../support/postgres-setup.ts'

type Program = 'api' | 'worker' | 'integrations'

const INSTALLED = inject('installed')
const PASSWORD = 'open-sesame'
const KEY = randomBytes(32).toString('base64')
const OTHER_KEY = randomBytes(32).toString('base64')
/** Nobody listens there: it is reserved, and not for us. */
const CLOSED_PORT = 1
/** Stored credentials; must turn up nowhere. */
const TOKEN = 'gho_abracadabra'

/** 5 s, and what it takes to load the package on a busy machine. */
const GIVEN_UP_SECONDS = 15

/** A host of the smallest kind. What a test needs otherwise it gives in the environment. */
const HOST = `
import { createIntegrations } from 'durable-integrations'

const demo = {
  verifyWebhookSignature: (_, request) => request.headers.get('x-signature') === 'right',
  handleWebhook: () => null,
}

export default createIntegrations({ providers: { demo }, config: JSON.parse(process.env.TEST_CONFIG ?? '{}') })
`

let server: Awaited<ReturnType<typeof sharePostgres>>
let database: TestDatabase
let root: string
const children = new Set<ChildProcess>()
const servers = new Set<Server>()

beforeAll(async () => {
  server = await sharePostgres()
  database = await createTestDatabase({ adminUrl: server.url })
  root = await mkdtemp(join(INSTALLED, 'start-errors-'))
  // A host that a test gives is TypeScript; for this one its reader would be loaded at each start.
  await writeFile(join(root, 'integrations.config.js'), HOST)
})

afterAll(async () => {
  for (const child of children) child.kill('SIGKILL')
  for (const listening of servers) listening.close()
  await rm(root, { recursive: true, force: true })
  await database.drop()
  await server.release()
})

interface Start {
  /** Beside, or in place of, what a good start needs; undefined takes one away. */
  env?: Record<string, string | undefined>
  args?: string[]
  /** Text of the host's module in place of the good one; null for none at all. */
  host?: string | null
  /** Files beside the host's module: name → text. */
  beside?: Record<string, string>
}

function goodEnvironment(): Record<string, string | undefined> {
  return {
    PATH: process.env.PATH,
    HOME: process.env.HOME,
    DATABASE_URL: database.url,
    INTEGRATIONS_ENCRYPTION_KEYS: `k1:${KEY}`,
    TEMPORAL_ADDRESS: `127.0.0.1:${CLOSED_PORT}`,
    PORT: '0',
  }
}

async function start(program: Program, { env = {}, args = [], host, beside = {} }: Start): Promise<ChildProcess> {
  let cwd = root
  if (host !== undefined) {
    cwd = await mkdtemp(join(root, 'host-'))
    if (host !== null) await writeFile(join(cwd, 'integrations.config.ts'), host)
    for (const [name, text] of Object.entries(beside)) await writeFile(join(cwd, name), text)
  }
  const command = join(INSTALLED, 'node_modules', 'durable-integrations', 'dist', 'bin', `${program}.js`)
  const given = Object.entries({ ...goodEnvironment(), ...env }).filter(([, value]) => value !== undefined)
  const child = spawn(process.execPath, [command, ...args], {
    cwd,
    env: Object.fromEntries(given) as NodeJS.ProcessEnv,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  children.add(child)
  return child
}

interface End extends Output {
  readonly seconds: number
}

/** Runs to its end, and holds what every end has in common against what was printed. */
async function ends(program: Program, options: Start = {}): Promise<End> {
  const startedAt = performance.now()
  const { code, out, err } = await outputOf(await start(program, options))
  const printed = out + err
  expect(printed).not.toMatch(/^\s+at .*[:(]/m) // a line of a stack
  const serverPassword = new URL(server.url).password
  for (const secret of [PASSWORD, KEY, OTHER_KEY, TOKEN, serverPassword]) expect(printed).not.toContain(secret)
  expect(printed).not.toContain('api.ready')
  expect(printed).not.toContain('worker.ready')
  return { code, out, err, seconds: (performance.now() - startedAt) / 1_000 }
}

/** The event that a process prints as one line of JSON. */
async function event(child: ChildProcess, name: string): Promise<Record<string, unknown>> {
  if (child.stdout === null) throw new Error('its stdout is not piped')
  for await (const line of createInterface({ input: child.stdout })) {
    if (!line.includes(`"${name}"`)) continue
    return JSON.parse(line) as Record<string, unknown>
  }
  throw new Error(`it ended before ${name}`)
}

async function listening(answer: (socket: Socket) => void): Promise<number> {
  const listener = createServer(answer)
  servers.add(listener)
  listener.listen(0, '127.0.0.1')
  await once(listener, 'listening')
  return (listener.address() as AddressInfo).port
}

function databaseAt(part: Partial<Record<'hostname' | 'port' | 'username' | 'password' | 'pathname', string>>): string {
  return Object.assign(new URL(database.url), part).href
}

describe("the host's module", () => {
  it('missing: says where it looked', async () => {
    const { code, err } = await ends('api', { host: null })
    expect(code).toBe(1)
    expect(err).toContain('INTEGRATIONS_CONFIG: expected a module that exports createIntegrations(…) as default')
    expect(err).toContain('integrations.config.ts, integrations.config.js, integrations.config.mjs here')
    expect(err).toContain('received none of them')
  })

  it.each([
    ['a file that is not there', 'elsewhere.ts', 'where there is no file'],
    ['a folder', '.', 'which is no file'],
  ])('named by INTEGRATIONS_CONFIG, but %s', async (_, path, why) => {
    const { code, err } = await ends('api', { env: { INTEGRATIONS_CONFIG: path } })
    expect(code).toBe(1)
    expect(err).toContain(`received ${join(root, path)}, ${why}`)
  })

  it('is looked for in the working directory when INTEGRATIONS_CONFIG is empty', async () => {
    const { code, err } = await ends('api', { env: { INTEGRATIONS_CONFIG: '', PORT: 'x' } })
    expect({ code, named: err.includes('INTEGRATIONS_CONFIG') }).toEqual({ code: 1, named: false })
  })

  it('needs a package that is not installed: says which', async () => {
    const { code, err } = await ends('api', { host: `import 'some-sdk/errors'\n${HOST}` })
    expect({ code, lines: err.trim().split('\n').length }).toEqual({ code: 1, lines: 2 })
    expect(err).toContain('integrations.config.ts: expected the package some-sdk: `npm install some-sdk`, received no')
  })

  it('needs an optional peer that is not installed: says which versions fit', async () => {
    // Outside of the clone, which has all of them.
    const folder = await mkdtemp(join(tmpdir(), 'start-errors-'))
    const file = join(folder, 'integrations.config.ts')
    await writeFile(file, "import 'stripe'\nexport default {}")
    const { code, err } = await ends('api', { env: { INTEGRATIONS_CONFIG: file } })
    await rm(folder, { recursive: true })
    expect(code).toBe(1)
    const { stripe } = packageJson.peerDependencies
    expect(err).toContain(`${file}: expected the package stripe: \`npm install 'stripe@${stripe}'\`, received no`)
  })

  it('exports nothing', async () => {
    const { code, err } = await ends('worker', { host: 'export const other = 1' })
    expect(code).toBe(1)
    expect(err).toMatch(/integrations\.config\.ts: expected a default export made by createIntegrations\(\)/)
    expect(err).toContain('received undefined')
  })

  it.each([
    ['a function', 'export default () => {}', 'function'],
    ['an object that is something else', 'export default { webhooks: {} }', 'object'],
  ])('exports %s', async (_, host, received) => {
    const file = join(await mkdtemp(join(root, 'host-')), 'integrations.config.ts')
    await writeFile(file, host)
    await expect(loadHost(file)).rejects.toMatchObject({
      problems: [{ key: file, expected: 'a default export made by createIntegrations()', received }],
    })
  })

  // Read by Node 20, which has jiti read all TypeScript: a later Node must not refuse what it reads itself.
  it.each([
    [
      'a type imported without `type`',
      "import { Ticket } from './ticket.ts'\nexport default { id: 1 } satisfies Ticket",
      { 'ticket.ts': 'export interface Ticket { id: number }' },
    ],
    [
      'a package of CommonJS',
      "import { id } from './ticket.ts'\nexport default { id }",
      { 'package.json': '{ "type": "commonjs" }', 'ticket.ts': 'export const id = 1' },
    ],
  ])('is read in spite of %s', async (_, host, beside) => {
    const { code, err } = await ends('api', { host, beside })
    expect(code).toBe(1)
    // It was read and has run.
    expect(err).toContain('expected a default export made by createIntegrations(), received object')
  })

  it('leaves no copy of itself in the folder for temporary files, where others could replace it', async () => {
    const TMPDIR = await mkdtemp(join(root, 'temporary-'))
    // Of any Node: none finds a `.js` that is not there, so that jiti is asked.
    const host = "import { id } from './ticket.js'\nexport default { id }"
    const { err } = await ends('api', { host, beside: { 'ticket.ts': 'export const id = 1' }, env: { TMPDIR } })
    expect(err).toContain('received object')
    expect(await readdir(TMPDIR)).toEqual([])
  })

  it('registers a provider that is none', async () => {
    const host = HOST.replace('handleWebhook: () => null,', '')
    const { code, err } = await ends('api', { host })
    expect(code).toBe(1)
    expect(err).toContain('providers.demo: expected a provider that can be registered')
    expect(err).toContain("received one that can't be: HandlesWebhooks lacks handleWebhook")
  })
})

describe('the configuration', () => {
  // Of each program: test/config/bad-values.e2e.test.ts.
  it('is reported with every fault at once, of the host and of the environment', async () => {
    const TEST_CONFIG = JSON.stringify({
      webhook: { max_attempts: '3', max_payload_byte: 1 },
      sync: { job_timeout: 600, lock_ttl: 60 },
      table_prefix: 'Upper Case',
    })
    const { code, err } = await ends('api', {
      env: {
        TEST_CONFIG,
        INTEGRATIONS__SYNC__ITEM_TRIES: '3.5',
        INTEGRATIONS__WEBHOK__QUEUE: 'x',
        INTEGRATIONS__OPERATOR__TOKENS: `[{"name":"ci","sha256":"${PASSWORD}"}]`,
      },
    })
    expect(code).toBe(1)
    const lines = err.trim().split('\n')
    const keys = [
      'webhook.max_attempts',
      'webhook.max_payload_byte',
      'sync.lock_ttl',
      'table_prefix',
      'sync.item_tries',
      'INTEGRATIONS__WEBHOK__QUEUE',
    ]
    for (const key of keys)
      expect(
        lines.filter((line) => line.startsWith(`  ${key}: expected `) && line.includes(', received ')),
      ).toHaveLength(1)
    expect(err).toContain('webhook.max_payload_bytes') // the nearest to what was written
    expect(err).toContain('INTEGRATIONS__WEBHOOK__QUEUE')
    expect(lines[0]).toBe(`The configuration has ${lines.length - 1} problems:`)
  })

  it.each([
    ['api', []],
    ['worker', []],
    ['integrations', ['config']],
  ] as const)(
    'names a provider that is not registered: %s ends before it looks for Postgres',
    async (program, args) => {
      const env = {
        DATABASE_URL: databaseAt({ port: String(CLOSED_PORT) }),
        TEST_CONFIG: JSON.stringify({ sync: { queues: { dmo: 'slow' } } }),
        PORT: 'x',
      }
      const { code, err } = await ends(program, { env, args: [...args] })
      expect(code).toBe(1)
      expect(err).toContain('sync.queues.dmo: expected a registered provider (demo), received "dmo"')
      // Together with the other faults of the start.
      if (program === 'api') expect(err).toContain('PORT: expected')
    },
  )
})

describe('the encryption keys', () => {
  it('that are no base64', async () => {
    const { code, err } = await ends('api', { env: { INTEGRATIONS_ENCRYPTION_KEYS: `k1:${PASSWORD}` } })
    expect(code).toBe(1)
    expect(err).toMatch(/"k1" is no strict base64/)
  })

  it('in a file that is not there', async () => {
    const env = { INTEGRATIONS_ENCRYPTION_KEYS: undefined, INTEGRATIONS_ENCRYPTION_KEYS_FILE: '/nowhere/keys' }
    const { code, err } = await ends('worker', { env })
    expect(code).toBe(1)
    expect(err).toMatch(/\/nowhere\/keys.*ENOENT/)
  })

  describe('of another database', () => {
    let encrypted: TestDatabase

    beforeAll(async () => {
      encrypted = await createTestDatabase({ adminUrl: server.url })
      const integrations = createIntegrations({
        database: encrypted.url,
        encryptionKeys: `k1:${KEY}`,
        providers: { demo: {} },
      })
      await integrations.ready()
      await integrations.create({ provider: 'demo', name: 'ours', credentials: { token: TOKEN } })
      await integrations.close()
    })

    afterAll(() => encrypted.drop())

    it.each<[Program, string[]]>([
      ['api', []],
      ['worker', []],
      ['integrations', ['sync', '--integration', '1']],
    ])('%s %j refuses to start', async (program, args) => {
      const env = { DATABASE_URL: encrypted.url, INTEGRATIONS_ENCRYPTION_KEYS: `k1:${OTHER_KEY}` }
      const { code, err } = await ends(program, { env, args })
      expect(code).toBe(1)
      expect(err).toMatch(/Other bytes under the same id: k1\./)
      expect(err).toContain('Give the keys that wrote it')
    })
  })
})

describe('Postgres', () => {
  // Of each command: test/commands/cli/exit-codes.pg.test.ts.
  it.each(['api', 'worker'] as const)('not there: %s ends with 2', async (program) => {
    const env = { DATABASE_URL: `postgres://app:${PASSWORD}@127.0.0.1:${CLOSED_PORT}/app` }
    const { code, err } = await ends(program, { env })
    expect(code).toBe(2)
    expect(err).toContain(`Postgres was not reached at 127.0.0.1:${CLOSED_PORT}.`)
    expect(err).toContain('Check that it runs')
  })

  it('that refuses the password says so, and does not show it', async () => {
    const sql = postgres(database.url, { max: 1, fetch_types: false, onnotice: () => {} })
    await sql.unsafe(`drop role if exists barred; create role barred nologin password '${PASSWORD}'`)
    await sql.end()
    const { code, err } = await ends('api', {
      env: { DATABASE_URL: databaseAt({ username: 'barred', password: PASSWORD }) },
    })
    expect(code).toBe(2)
    expect(err).toContain('It refused the user or the password')
  })

  it('without the database says so', async () => {
    const { code, err } = await ends('api', { env: { DATABASE_URL: databaseAt({ pathname: '/nowhere' }) } })
    expect(code).toBe(2)
    expect(err).toContain('It has no database of that name')
  })

  it('whose URL is bad is a fault of the configuration', async () => {
    const { code, err } = await ends('api', { env: { DATABASE_URL: `mysql://app:${PASSWORD}@localhost/app` } })
    expect(code).toBe(1)
    expect(err).toContain('database: expected a URL such as postgres://user:password@host:5432/name')
  })

  describe('without our tables', () => {
    let empty: string

    beforeAll(async () => {
      empty = `empty_${randomBytes(6).toString('hex')}`
      const sql = postgres(server.url, { max: 1, fetch_types: false })
      await sql.unsafe(`create database ${empty}`)
      await sql.end()
    })

    it.each(['api', 'worker'] as const)('%s names the command that makes them', async (program) => {
      const { code, err } = await ends(program, { env: { DATABASE_URL: databaseAt({ pathname: `/${empty}` }) } })
      expect(code).toBe(1)
      expect(err).toMatch(/The database has 0 of \d+ migrations\. Run `integrations migrate`/)
    })

    it('integrations migrate makes them, and has nothing to do the second time', async () => {
      const options = { env: { DATABASE_URL: databaseAt({ pathname: `/${empty}` }) }, args: ['migrate'] }
      const first = await ends('integrations', options)
      expect(first).toMatchObject({ code: 0, err: '' })
      expect(first.out).toMatch(/^Applied \d+ migrations: 0000_initial to \S+\.\n$/)
      expect(await ends('integrations', options)).toMatchObject({ code: 0, out: 'Nothing to apply.\n', err: '' })
    })
  })
})

describe('a server that does not answer', () => {
  it('Postgres that accepts and stays silent is given up after 5 s', async () => {
    const port = await listening(() => {})
    const env = { DATABASE_URL: `postgres://app:${PASSWORD}@127.0.0.1:${port}/app` }
    const { code, err, seconds } = await ends('worker', { env })
    expect(code).toBe(2)
    expect(err).toContain('no answer within 5 s')
    expect(seconds).toBeLessThan(GIVEN_UP_SECONDS)
  })

  it('Temporal that is not there: the worker ends with 2', async () => {
    const { code, err, seconds } = await ends('worker')
    expect(code).toBe(2)
    expect(err).toContain(`Temporal was not reached at 127.0.0.1:${CLOSED_PORT}.`)
    expect(err).toContain('TEMPORAL_ADDRESS')
    expect(seconds).toBeLessThan(GIVEN_UP_SECONDS)
  })

  it('Temporal that is not there: the API starts, and stores what comes in', async () => {
    const integrations = createIntegrations({
      database: database.url,
      encryptionKeys: `k1:${KEY}`,
      providers: { demo: {} },
    })
    const { id } = await integrations.create({ provider: 'demo', name: 'ours', credentials: { token: TOKEN } })
    await integrations.close()

    const api = await start('api', {})
    const { url } = await event(api, 'api.ready')
    const send = (signature: string) =>
      fetch(`${url}/integrations/demo/${id}/webhook`, {
        method: 'POST',
        body: '{"a":1}',
        headers: { 'x-signature': signature },
      })
    const answers = [await send('right'), await send('right'), await send('wrong')]
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 403])
    expect(await answers[0]?.json()).toEqual({ status: 'queued' })
    expect(await answers[1]?.json()).toEqual({ status: 'duplicate' })

    const sql = postgres(database.url, { max: 1, fetch_types: false })
    const rows = await sql`select status, attempts, payload from integration_webhooks where integration_id = ${id}`
    await sql.end()
    expect(rows).toEqual([{ status: 'pending', attempts: 0, payload: '{"a":1}' }])

    api.kill('SIGTERM')
    const [code] = (await once(api, 'exit')) as [number | null]
    expect(code).toBe(0)
  })
})

describe('the port', () => {
  it('that is none is refused', async () => {
    const { code, err } = await ends('api', { env: { PORT: '65536' } })
    expect(code).toBe(1)
    expect(err).toContain('PORT: expected an integer from 0 to 65535, received "65536"')
  })

  it('in use is named', async () => {
    const port = await listening(() => {})
    const { code, err } = await ends('api', { env: { PORT: String(port) } })
    expect(code).toBe(1)
    expect(err).toMatch(new RegExp(`The API can't listen on 127\\.0\\.0\\.1:${port}: .*EADDRINUSE`))
  })
})

describe('the command line', () => {
  it.each([[['--help']], [['sync', '--help']]])('%j needs neither host nor database', async (args) => {
    const { code, out, err } = await ends('integrations', { host: null, env: { DATABASE_URL: undefined }, args })
    expect({ code, err }).toEqual({ code: 0, err: '' })
    expect(out).toContain('Usage: integrations')
  })

  // Bad words: test/commands/cli/program.test.ts.
  it('refuses an integration that is not there', async () => {
    const { code, err } = await ends('integrations', { args: ['sync', '--integration', '999'] })
    expect(code).toBe(1)
    expect(err).toContain('There is no integration with id 999.')
  })
})
