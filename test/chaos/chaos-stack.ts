/**
 * A stack whose every part can be killed: Postgres and the Temporal dev server with their data in files, worker and API as a
 * host starts them, compiled. Each keeps its port, so that the others find it again.
 *
 * One a file: the host's module and the environment belong to the process.
 */
import { randomBytes } from 'node:crypto'
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Sql } from 'postgres'
import postgres from 'postgres'
import { inject } from 'vitest'
import { startLocalPostgres } from '../../dev/postgres.ts'
import { processesIn, startProcess } from '../../dev/processes.ts'
import { startTemporalServer } from '../../dev/temporal-server.ts'
import { findTemporalBinary } from '../../dev/temporal-server-binary.ts'
import { findServerBinaries } from '../../scripts/full-server/binaries.ts'
import { prepareFullServer } from '../../scripts/full-server/start.ts'
import { freePort } from '../../src/bin/free-port.ts'
import { loadHost } from '../../src/bin/host.ts'
import type { Integrations } from '../../src/create-integrations.ts'
import { newDataFolder } from '../support/data-folder.ts'
import { installedProgram, installedScript } from '../support/installed-script.ts'
import { preparePgbouncer } from '../support/pgbouncer.ts'
import type { StartedProcess } from './kept-process.ts'
import { KeptProcess } from './kept-process.ts'
import { patiently } from './patient-sql.ts'
import type { SyncTarget } from './targets.ts'

/** Below the range that Linux takes the ports of outgoing connections from: nobody is to get ours while we are away. */
const FIRST_PORT = 20_000
const PORTS = 12_000

export interface ChaosStack extends Readonly<Record<SyncTarget, KeptProcess>> {
  /** PgBouncer in transaction mode, between the processes and Postgres; not before `integrations` and `sql`. Null: there is none. */
  readonly pooler: KeptProcess | null
  readonly integrations: Integrations
  readonly integrationId: number
  readonly temporalAddress: string
  /** Of the stack's files; gone with the stack. */
  readonly folder: string
  /** The ring that each process reads at its start. */
  readonly keyFile: string
  /** Connects anew after Postgres was away; a statement under way fails. */
  readonly sql: Sql
  /** Ends when Postgres answers by the way that the processes take. */
  postgresAnswers(): Promise<void>
  /** What the processes said so far, `<process> <line>`. */
  readonly lines: readonly string[]
  /** Starts the API on this port, as one more part. */
  keepApi(port: number, name?: string): KeptProcess
  /** Starts one more worker. The host's module finds its name in FLEET_MEMBER. */
  keepWorker(name: string): KeptProcess
  stop(): Promise<void>
}

/** Where a process finds its backends. */
export interface Backends {
  readonly DATABASE_URL: string
  readonly TEMPORAL_ADDRESS: string
}

export async function startChaosStack({
  hostConfig,
  integration,
  poolerConnections = null,
  environmentOf = async () => ({}),
  isKept = () => true,
  installed = inject('installed'),
  databaseFolder: givenFolder,
  databaseSettings = {},
  temporalServer = 'dev',
}: {
  /** The module that worker and API load. */
  readonly hostConfig: URL
  readonly integration: Parameters<Integrations['create']>[0]
  /** How many connections a PgBouncer between the processes and Postgres has to it. Null: none is started. */
  readonly poolerConnections?: number | null
  /** What a process has in its environment in place of the backends' own addresses, and beside them. Asked before each of its starts. */
  readonly environmentOf?: (name: string, backends: Backends) => Promise<Readonly<Record<string, string>>>
  /** Lines of the processes that are kept, as there may be very many; default: all. */
  readonly isKept?: (line: string) => boolean
  /** The folder of `installPackage()`; default: that of the vitest run. */
  readonly installed?: string
  /** Where Postgres has its data; default: in the stack's own folder. */
  readonly databaseFolder?: string
  readonly databaseSettings?: Readonly<Record<string, string>>
  /** `full`: all services of a Temporal server, with a Postgres of its own that nothing happens to. */
  readonly temporalServer?: 'dev' | 'full'
}): Promise<ChaosStack> {
  const folder = await mkdtemp(join(tmpdir(), 'durable-chaos-'))
  // Else the cluster of a root, which runs as another user, lies elsewhere and stays behind.
  await chmod(folder, 0o711)
  const lines: string[] = []
  const say = (source: string) => (line: string) => {
    if (isKept(line)) lines.push(`${source} ${line}`)
    if (process.env.TEST_SERVER_LOGS) process.stderr.write(`${source} ${line}\n`)
  }
  const stops: (() => Promise<unknown>)[] = [() => rm(folder, { recursive: true, force: true })]
  const stop = async (): Promise<void> => {
    for (let next = stops.pop(); next !== undefined; next = stops.pop()) await next()
  }
  const keep = (name: string, start: () => Promise<StartedProcess>): KeptProcess => {
    const kept = new KeptProcess(name, start, say('stack'))
    stops.push(() => kept.stop())
    return kept
  }
  try {
    const databaseFolder = givenFolder ?? join(folder, 'postgres')
    if (givenFolder === undefined) await newDataFolder(databaseFolder)
    const postgresPort = await steadyPort()
    let databaseUrl = ''
    let cluster: string | null = null
    const database = keep('postgres', async () => {
      const server = await startLocalPostgres({
        dataFolder: databaseFolder,
        preferredPort: postgresPort,
        database: 'chaos',
        settings: databaseSettings,
        log: say('postgres'),
      })
      expectPort('Postgres', server.port, postgresPort)
      databaseUrl = server.url
      cluster ??= await dataDirectory(server.url)
      return {
        // The backends, too: one that goes on would still commit what it was told.
        pids: () => [server.pid, ...processesIn(String(cluster))],
        ready: Promise.resolve(),
        exited: server.exited.then(() => server.stop()).then(() => null),
      }
    })
    const { address: temporalAddress, start: startTemporal } =
      temporalServer === 'full'
        ? await wholeServer(folder, stops, say('temporal'))
        : await devServer(folder, say('temporal'))
    const temporal = keep('temporal', startTemporal)
    await Promise.all([database.ready(), temporal.ready()])

    const keyFile = join(folder, 'encryption-keys')
    await writeFile(keyFile, `chaos:${randomBytes(32).toString('base64')}\n`, { mode: 0o600 })
    const environment = {
      DATABASE_URL: databaseUrl,
      // For what a host notes for the test: by its own link, which is no part of what is cut.
      NOTES_DATABASE_URL: databaseUrl,
      TEMPORAL_ADDRESS: temporalAddress,
      TEMPORAL_NAMESPACE: 'default',
      INTEGRATIONS_ENCRYPTION_KEYS_FILE: keyFile,
      INTEGRATIONS_CONFIG: installedScript(hostConfig, installed),
    }
    Object.assign(process.env, environment)
    const { integrations, prepare } = await loadHost(fileURLToPath(hostConfig))
    stops.push(() => integrations.close())
    await integrations.migrate()
    await integrations.ready()
    await prepare?.()
    const sql = postgres(databaseUrl, { max: 4, fetch_types: false, onnotice: () => {} })
    stops.push(() => sql.end({ timeout: 5 }))
    let processesUrl = databaseUrl
    let pooler: KeptProcess | null = null
    if (poolerConnections !== null) {
      const { url, start, removeFiles } = await preparePgbouncer(databaseUrl, {
        serverConnections: poolerConnections,
        listenPort: await steadyPort(),
        onLine: say('pgbouncer'),
      })
      stops.push(removeFiles)
      pooler = keep('pgbouncer', async () => {
        const { pid, exited } = await start()
        return { pids: () => [pid], ready: Promise.resolve(), exited }
      })
      processesUrl = url
    }
    const environmentOfProcesses = { ...environment, DATABASE_URL: processesUrl }
    const { id: integrationId } = await integrations.create(integration)

    const node = (name: string, kind: 'api' | 'worker', more: Readonly<Record<string, string>> = {}) =>
      keep(name, async () => {
        let onReady: () => void = () => {}
        const ready = new Promise<void>((resolve) => {
          onReady = resolve
        })
        const tell = say(name)
        const own = await environmentOf(name, environmentOfProcesses)
        const started = await startProcess({
          name,
          command: process.execPath,
          args: [installedProgram(kind, installed)],
          env: { NODE_OPTIONS: undefined, ...environmentOfProcesses, ...more, ...own },
          onLine: (line) => {
            tell(line)
            if (line.includes(`"${kind}.ready"`)) onReady()
          },
        })
        return { pids: () => [started.pid], ready, exited: started.exited }
      })
    const worker = node('worker', 'worker')
    return {
      worker,
      temporal,
      postgres: database,
      pooler,
      integrations,
      integrationId,
      temporalAddress,
      folder,
      keyFile,
      sql,
      postgresAnswers: () => patiently(() => askOnce(processesUrl)),
      lines,
      keepApi: (port, name = 'api') => node(name, 'api', { PORT: String(port), HOST: '127.0.0.1' }),
      keepWorker: (name) => node(name, 'worker', { FLEET_MEMBER: name }),
      stop,
    }
  } catch (error) {
    await stop()
    throw error
  }
}

interface KeptServer {
  readonly address: string
  start(): Promise<StartedProcess>
}

async function devServer(folder: string, log: (line: string) => void): Promise<KeptServer> {
  const port = await steadyPort()
  const binary = await findTemporalBinary()
  return {
    address: `127.0.0.1:${port}`,
    async start() {
      const dataFile = join(folder, 'temporal.db')
      const server = await startTemporalServer({ binary, port, uiPort: null, dataFile, log })
      expectPort('Temporal', Number(server.address.split(':')[1]), port)
      return { pids: () => [Number(server.pid)], ready: Promise.resolve(), exited: server.exited.then(() => null) }
    },
  }
}

async function wholeServer(
  folder: string,
  stops: (() => Promise<unknown>)[],
  log: (line: string) => void,
): Promise<KeptServer> {
  const ownFolder = join(folder, 'temporal')
  await mkdir(ownFolder)
  await chmod(ownFolder, 0o711)
  const { address, start } = await prepareFullServer({
    binaries: await findServerBinaries(log),
    folder: ownFolder,
    namespace: 'default',
    own: (_name, stop) => stops.push(stop),
    log,
  })
  return {
    address,
    async start() {
      const { pid, exited } = await start()
      return { pids: () => [pid], ready: Promise.resolve(), exited: exited.then(() => null) }
    },
  }
}

export async function steadyPort(): Promise<number> {
  for (;;) {
    const candidate = FIRST_PORT + Math.floor(Math.random() * PORTS)
    if ((await freePort(candidate)) === candidate) return candidate
  }
}

function expectPort(what: string, port: number, wanted: number): void {
  if (port !== wanted) throw new Error(`${what} came up on port ${port}: somebody else has taken ${wanted}`)
}

async function askOnce(url: string): Promise<void> {
  const sql = postgres(url, { max: 1, fetch_types: false, prepare: false })
  try {
    await sql`select 1`
  } finally {
    await sql.end({ timeout: 0 })
  }
}

async function dataDirectory(url: string): Promise<string> {
  const sql = postgres(url, { max: 1, fetch_types: false })
  try {
    const [row] = await sql<{ folder: string }[]>`select current_setting('data_directory') as folder`
    return String(row?.folder)
  } finally {
    await sql.end({ timeout: 5 })
  }
}
