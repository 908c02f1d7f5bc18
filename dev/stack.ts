/**
 * Everything on one machine: Postgres, Temporal with its UI, a sandbox provider, the example host's API and worker.
 * Data lies in one folder; a second start finds it again.
 */
import { randomBytes } from 'node:crypto'
import { createWriteStream, existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { HOOK_ID } from '../sandbox/github/webhook-sender.ts'
import { freePort } from '../src/bin/free-port.ts'
import { loadHost } from '../src/bin/host.ts'
import type { Integrations } from '../src/create-integrations.ts'
import { shellWord } from '../src/framework/shell-word.ts'
import { inPlaceOfTheShells, withheld } from './environment.ts'
import { ownersOnly } from './local-process.ts'
import type { RunLock } from './lock.ts'
import type { Checklist } from './narrator.ts'
import { startLocalPostgres } from './postgres.ts'
import type { ManagedProcess, Supervisor } from './processes.ts'
import { findOrStartTemporalServer } from './temporal-server.ts'

const ROOT = fileURLToPath(new URL('../', import.meta.url))
/** Node reads the sources through tsx; the condition makes `durable-integrations` mean this checkout. */
const FROM_SOURCES = ['--conditions=durable-source', '--import', 'tsx']
/** What the dashboard links to. */
const TEMPORAL_UI = 'INTEGRATIONS__OPERATOR__TEMPORAL_UI'
/** Where only we know how a command is run. Rule: docs/behaviour/doctor.md, "Remedies under npm start". */
const LOCAL_COMMANDS = 'INTEGRATIONS_LOCAL_COMMANDS'
const REPLAY_WINDOW = 'INTEGRATIONS__WEBHOOK__REPLAY_WINDOW'
const HOST_CONFIG = join(ROOT, 'examples/host/integrations.config.ts')
const SANDBOX_TOKEN = 'sandbox-token'
const SYNC_INTERVAL_MINUTES = 1
/** Faults, and where a data folder closed to others keeps its data: postgres-folder.ts. */
const NEWS_OF_POSTGRES = /FATAL|PANIC|initdb|its data is kept in|is gone, and the data/
/** A process that ends by itself (or by your hand) is started again after this time. */
const RESTART_AFTER_MS = 1_000
const READY_TIMEOUT_MS = 90_000

export const PREFERRED_PORTS = { api: 3_000, postgres: 5_432, temporal: 7_233, temporalUi: 8_233 } as const

export interface StackOptions {
  readonly folder: string
  readonly supervisor: Supervisor
  readonly lock: Pick<RunLock, 'addChild' | 'removeChild'>
  readonly checklist: Checklist
  /** Lines of the processes. */
  readonly onLine: (source: string, line: string) => void
  /** Any free ports instead of the usual ones: for tests and the demo. */
  readonly anyPorts?: boolean
  /** How the package's commands are run in this folder, such as `npm run cli --`: the doctor's remedies name it. */
  readonly commands?: string
  /** Added to the environment of API and worker. */
  readonly env?: Readonly<Record<string, string>>
  /** Issues and pull requests that the sandbox begins with. Default: its own, 340. */
  readonly sandboxEntries?: number
  /** Of a package that is compiled: node starts it in half the time, without tsx. Default: the sources. */
  readonly compiled?: CompiledPrograms
}

/** Paths of JavaScript. */
export interface CompiledPrograms {
  readonly api: string
  readonly worker: string
  /** The example host's module. */
  readonly config: string
}

export interface Stack {
  readonly integrations: Integrations
  readonly integrationId: number
  readonly databaseUrl: string
  /** Opens a `psql` on it, for a shell. */
  readonly psql: string
  readonly temporalAddress: string
  readonly temporalUi: string | null
  /** Path of the `temporal` that runs; null where a server was there already. */
  readonly temporalBinary: string | null
  readonly apiUrl: string
  readonly sandboxUrl: string
  readonly api: Restarting
  readonly worker: Restarting
  /** In which a command works on the same tables and server. */
  readonly environment: Readonly<Record<string, string>>
}

/** A process that is kept up. */
export interface Restarting {
  readonly pid: number
  /** Ends when a process of this kind is ready that was not before the call. */
  nextReady(): Promise<void>
}

export async function startStack(options: StackOptions): Promise<Stack> {
  const { folder, supervisor, lock } = options
  const checklist: Checklist = {
    step(name, work) {
      if (supervisor.stopping) throw new Error('It was stopped while it was starting.')
      return options.checklist.step(name, work)
    },
  }
  mkdirSync(folder, { recursive: true })
  const port = (preferred: number): number => (options.anyPorts === true ? 0 : preferred)
  // Not started again: a server that ended by itself may have a reason that another start makes worse.
  const tellWhenEnded = (name: string, exited: Promise<unknown>): void =>
    void exited.then(() => {
      if (!supervisor.stopping)
        options.onLine(name, 'ended, and what needs it waits. Nothing is lost: Ctrl-C, then start again')
    })

  const postgres = await checklist.step('Postgres', async (progress) => {
    const server = await startLocalPostgres({
      dataFolder: join(folder, 'postgres'),
      preferredPort: port(PREFERRED_PORTS.postgres),
      database: 'durable_integrations',
      log: (line) => {
        // While it recovers it turns us away with a FATAL of its own; that is no news.
        if (NEWS_OF_POSTGRES.test(line) && !line.includes('the database system is')) progress(line)
      },
    })
    supervisor.own('Postgres', () => server.stop())
    lock.addChild({ name: 'Postgres', pid: server.pid, stopSignal: 'SIGINT' })
    tellWhenEnded('Postgres', server.exited)
    return server
  })
  const temporal = await checklist.step('Temporal', async (progress) => {
    const logFile = join(folder, 'temporal.log')
    await ownersOnly(logFile)
    const log = createWriteStream(logFile, { flags: 'a', mode: 0o600 })
    let isUp = false
    const server = await findOrStartTemporalServer({
      port: port(PREFERRED_PORTS.temporal),
      uiPort: port(PREFERRED_PORTS.temporalUi),
      dataFile: join(folder, 'temporal.db'),
      // Getting the server may take minutes and says how it goes; what the server itself says goes to its file.
      log: (line) => {
        log.write(`${line}\n`)
        if (!isUp && /download|install|build/i.test(line)) progress(line)
      },
    })
    isUp = true
    supervisor.own('Temporal', () => server.stop())
    if (server.pid !== null) lock.addChild({ name: 'Temporal', pid: server.pid })
    tellWhenEnded('Temporal', server.exited)
    return server
  })

  const psql = psqlOn(folder, postgres.url)
  const environment = {
    ...(options.commands === undefined
      ? {}
      : {
          [LOCAL_COMMANDS]: JSON.stringify({
            integrations: options.commands,
            temporal: shellWord(temporal.binary ?? 'temporal'),
            psql,
          }),
        }),
    ...(temporal.uiUrl === null ? {} : { [TEMPORAL_UI]: temporal.uiUrl }),
    ...inPlaceOfTheShells(process.env, temporal.pid !== null),
    DATABASE_URL: postgres.url,
    TEMPORAL_ADDRESS: temporal.address,
    INTEGRATIONS_ENCRYPTION_KEYS_FILE: keyFile(folder),
    INTEGRATIONS_CONFIG: options.compiled?.config ?? HOST_CONFIG,
    INTEGRATIONS_DEV: '1',
    // The published examples hold five bodies twice, and the traffic comes back to them: each is a delivery of its own here.
    [REPLAY_WINDOW]: process.env[REPLAY_WINDOW] ?? '0',
    ...options.env,
  }
  Object.assign(process.env, environment)
  const { integrations, prepare } = await loadHost(HOST_CONFIG)
  supervisor.own('connections', () => integrations.close())
  await checklist.step('tables', async () => {
    await integrations.migrate()
    await integrations.ready()
    await prepare?.()
  })

  const run = processStarter(options, environment)
  const sandboxUrl = await checklist.step('sandbox provider', async () => {
    let url = ''
    const entries = options.sandboxEntries === undefined ? [] : ['--entries', String(options.sandboxEntries)]
    const { started, ready } = await run.once(
      'sandbox',
      [...FROM_SOURCES, 'sandbox/github/main.ts', '--port', '0', '--token', SANDBOX_TOKEN, ...entries],
      {},
      (line) => {
        url = /"url":"([^"]+)"/.exec(line)?.[1] ?? ''
        return url !== ''
      },
    )
    await ready
    tellWhenEnded('sandbox', started.exited)
    return url
  })
  const integrationId = await checklist.step('integration', () => connectSandbox(integrations, sandboxUrl))

  const programOf = (kind: 'api' | 'worker'): string[] =>
    options.compiled === undefined ? [...FROM_SOURCES, `src/bin/${kind}.ts`] : [options.compiled[kind]]
  const startApi = async (preferred: number): Promise<{ url: string; process: Restarting }> => {
    const apiPort = await freePort(preferred)
    const env = { PORT: String(apiPort), HOST: '127.0.0.1' }
    try {
      const started = await run.keptUp('api', programOf('api'), env, (line) => line.includes('"api.ready"'))
      return { url: `http://127.0.0.1:${apiPort}`, process: started }
    } catch (error) {
      // Somebody took the port between our look and the API's start.
      if (preferred !== 0 && String(error).includes('EADDRINUSE')) return startApi(0)
      throw error
    }
  }
  const [api, worker] = await checklist.step('API and worker', () =>
    Promise.all([
      startApi(port(PREFERRED_PORTS.api)),
      run.keptUp('worker', programOf('worker'), {}, (line) => line.includes('"worker.ready"')),
    ]),
  )
  return {
    integrations,
    integrationId,
    databaseUrl: postgres.url,
    psql,
    temporalAddress: temporal.address,
    temporalUi: temporal.uiUrl,
    temporalBinary: temporal.binary,
    apiUrl: api.url,
    sandboxUrl,
    api: api.process,
    worker,
    environment: { ...environment, PORT: new URL(api.url).port },
  }
}

/** The sandbox's integration: made at the first start, pointed at the sandbox's present address at each. */
async function connectSandbox(integrations: Integrations, sandboxUrl: string): Promise<number> {
  // The webhook that the sandbox sends by: reconciliation lists its deliveries.
  const metadata = { owner: 'octo-sandbox', repo: 'widgets', base_url: sandboxUrl, hook_id: HOOK_ID }
  for await (const { id } of integrations.list({ provider: 'github', limit: 1 })) {
    await integrations.update(id, { metadata })
    return id
  }
  const { id } = await integrations.create({
    provider: 'github',
    name: 'Sandbox repository',
    credentials: { token: SANDBOX_TOKEN, webhook_secret: randomBytes(24).toString('hex') },
    metadata,
    syncIntervalMinutes: SYNC_INTERVAL_MINUTES,
  })
  return id
}

/** Without the password, which would end up in logs and screenshots. */
function psqlOn(folder: string, databaseUrl: string): string {
  const url = new URL(databaseUrl)
  url.password = ''
  return `PGPASSWORD=$(cat ${shellWord(join(folder, 'postgres', 'password'))}) psql ${shellWord(url.href)}`
}

/** A key of this folder's own, made once: what the database holds is readable with it only. */
function keyFile(folder: string): string {
  const path = join(folder, 'encryption-keys')
  if (!existsSync(path)) writeFileSync(path, `dev:${randomBytes(32).toString('base64')}\n`, { mode: 0o600 })
  return path
}

type IsReady = (line: string) => boolean

function processStarter({ supervisor, lock, onLine }: StackOptions, environment: Record<string, string>) {
  async function once(
    name: string,
    args: readonly string[],
    env: Record<string, string>,
    isReady: IsReady,
  ): Promise<{ started: ManagedProcess; ready: Promise<void> }> {
    let onReady: () => void = () => {}
    const ready = new Promise<void>((resolve) => {
      onReady = resolve
    })
    const tail: string[] = []
    const started = await supervisor.start({
      name,
      command: process.execPath,
      args,
      cwd: ROOT,
      env: { ...withheld(process.env), ...environment, ...env },
      onLine: (line) => {
        tail.push(line)
        tail.splice(0, tail.length - 20)
        onLine(name, line)
        if (isReady(line)) onReady()
      },
    })
    lock.addChild({ name, pid: started.pid })
    return { started, ready: readyOrEnded(name, started, ready, tail) }
  }

  async function keptUp(
    name: string,
    args: readonly string[],
    env: Record<string, string>,
    isReady: IsReady,
  ): Promise<Restarting> {
    const first = await once(name, args, env, isReady)
    await first.ready
    let current = first.started
    let waiting: (() => void)[] = []
    const keepUp = async (): Promise<void> => {
      while (!supervisor.stopping) {
        const { code, signal } = await current.exited
        lock.removeChild(current.pid)
        if (supervisor.stopping) return
        onLine(name, `ended (${signal ?? `exit code ${code}`}); starting another`)
        await sleep(RESTART_AFTER_MS)
        if (supervisor.stopping) return
        const next = await once(name, args, env, isReady)
        current = next.started
        next.ready.then(
          () => {
            for (const resolve of waiting) resolve()
            waiting = []
          },
          // It ended again, perhaps killed: the next turn says so and starts another.
          () => {},
        )
      }
    }
    keepUp().catch((error: unknown) =>
      onLine(name, `could not be kept up: ${error instanceof Error ? error.message : error}`),
    )
    return {
      get pid() {
        return current.pid
      },
      nextReady: () => new Promise((resolve) => waiting.push(resolve)),
    }
  }

  return { once, keptUp }
}

async function readyOrEnded(
  name: string,
  started: ManagedProcess,
  ready: Promise<void>,
  tail: readonly string[],
): Promise<void> {
  const timeout = new AbortController()
  const outcome = await Promise.race([
    ready.then(() => 'ready' as const),
    started.exited.then(() => 'ended' as const),
    sleep(READY_TIMEOUT_MS, 'late' as const, { signal: timeout.signal, ref: false }),
  ])
  timeout.abort()
  if (outcome === 'ready') return
  const what = outcome === 'ended' ? 'ended before it was ready' : `was not ready within ${READY_TIMEOUT_MS / 1_000} s`
  throw new Error(`${name} ${what}. Its last lines:\n${tail.join('\n')}`)
}
