/** Starts a whole Temporal server over a Postgres: tables, all four services in one process, a namespace. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { Connection } from '@temporalio/client'
import { endWithParent, run } from '../../dev/local-process.ts'
import { startLocalPostgres } from '../../dev/postgres.ts'
import { freePort } from '../../src/bin/free-port.ts'
import type { ServerBinaries } from './binaries.ts'
import type { ServicePorts } from './configuration.ts'
import { DATABASES, dynamicConfiguration, SERVICE_COUNT, serverConfiguration } from './configuration.ts'

const ENVIRONMENT_NAME = 'full'
const TOOL_SECONDS = 120
const START_SECONDS = 120
const STOP_SECONDS = 20
const POLL_MS = 200
const LAST_LINES = 20
/** A line may carry the stack of a Go program. */
const LINE_LENGTH = 400
const FIRST_PORT = 20_000
const PORTS = 12_000
const SYSTEM_NAMESPACE = 'temporal-system'

/** What tears down: called in the reverse order, also when a later step fails. */
export type Own = (name: string, stop: () => Promise<void>) => void

export interface FullServer {
  /** host:port of the frontend. */
  readonly address: string
  /** Where what it says is written. */
  readonly logFile: string
  /** Ends when the namespace takes requests. Always at the same address, over the same tables. */
  start(): Promise<RunningServer>
}

export interface RunningServer {
  readonly pid: number
  /** Resolves with its last lines when it has ended, wanted or not. */
  readonly exited: Promise<string>
}

/** Starts its Postgres and makes its tables; the server itself can be started, and again once it has ended. */
export async function prepareFullServer({
  binaries,
  folder,
  namespace,
  own,
  log,
}: {
  readonly binaries: ServerBinaries
  /** Holds the database's files, the configuration with its password and the log. */
  readonly folder: string
  readonly namespace: string
  readonly own: Own
  readonly log: (line: string) => void
}): Promise<FullServer> {
  log('starting Postgres for Temporal')
  const database = await startLocalPostgres({
    dataFolder: join(folder, 'postgres'),
    preferredPort: 0,
    database: DATABASES.main,
  })
  own('Postgres of Temporal', () => database.stop())
  const databaseUrl = new URL(database.url)
  log("making Temporal's tables")
  await makeTables(binaries.sqlTool, databaseUrl)

  const ports = await differentPorts()
  const configFolder = join(folder, 'config')
  const dynamicConfigFile = join(configFolder, 'dynamic.yaml')
  await mkdir(configFolder, { recursive: true })
  await writeFile(dynamicConfigFile, dynamicConfiguration())
  const configuration = serverConfiguration({ databaseUrl, ports, dynamicConfigFile })
  await writeFile(join(configFolder, `${ENVIRONMENT_NAME}.yaml`), configuration, { mode: 0o600 })

  const logFile = join(folder, 'temporal.log')
  const address = `127.0.0.1:${ports[0]?.grpc}`
  return {
    address,
    logFile,
    async start() {
      log('starting the Temporal server')
      const server = await startProcess(binaries.server, configFolder, logFile)
      own('Temporal server', server.stop)
      const failure = await Promise.race([server.exited, serves(address, namespace)])
      if (failure !== null) throw new Error(`The Temporal server did not come up on ${address}:\n${failure}`)
      return server
    },
  }
}

async function makeTables(sqlTool: string, url: URL): Promise<void> {
  const tool = async (database: string, ...args: readonly string[]): Promise<void> => {
    const { code, output } = await run(sqlTool, args, {
      // By the environment: what is on a command line can be read by everybody on the machine.
      env: {
        ...process.env,
        SQL_PLUGIN: 'postgres12',
        SQL_HOST: url.hostname,
        SQL_PORT: url.port,
        SQL_USER: url.username,
        SQL_PASSWORD: decodeURIComponent(url.password),
        SQL_DATABASE: database,
      },
      seconds: TOOL_SECONDS,
    })
    if (code !== 0) throw new Error(`temporal-sql-tool ${args.join(' ')} (${database}): ${output.trim().slice(-2_000)}`)
  }
  await tool(DATABASES.visibility, 'create-database')
  for (const [database, schema] of [
    [DATABASES.main, 'postgresql/v12/temporal'],
    [DATABASES.visibility, 'postgresql/v12/visibility'],
  ] as const) {
    await tool(database, 'setup-schema', '--version', '0.0')
    await tool(database, 'update-schema', '--schema-name', schema)
  }
}

/** Below the range that Linux takes the ports of outgoing connections from, and of 15 bits, as Temporal's tables keep them. */
async function differentPorts(): Promise<ServicePorts[]> {
  const free = new Set<number>()
  while (free.size < 2 * SERVICE_COUNT) {
    const candidate = FIRST_PORT + Math.floor(Math.random() * PORTS)
    if ((await freePort(candidate)) === candidate) free.add(candidate)
  }
  const all = [...free]
  return Array.from({ length: SERVICE_COUNT }, (_, at) => ({
    grpc: Number(all[2 * at]),
    membership: Number(all[2 * at + 1]),
  }))
}

async function startProcess(server: string, configFolder: string, logFile: string) {
  const child = spawn(
    server,
    ['--root', '/', '--config', configFolder, '--env', ENVIRONMENT_NAME, '--allow-no-auth', 'start'],
    { detached: true, stdio: ['ignore', 'pipe', 'pipe'] },
  )
  const lines = createWriteStream(logFile, { flags: 'a', mode: 0o600 })
  const tail: string[] = []
  for (const stream of [child.stdout, child.stderr])
    createInterface({ input: stream }).on('line', (line) => {
      lines.write(`${line}\n`)
      if (tail.push(line.slice(0, LINE_LENGTH)) > LAST_LINES) tail.shift()
    })
  const exited = once(child, 'close').then(([code, signal]) => `it ended (${signal ?? code}):\n${tail.join('\n')}`)
  await once(child, 'spawn')
  const pid = child.pid as number
  const watcher = endWithParent(pid)
  void exited.then(() => watcher.cancel())
  return {
    pid,
    exited,
    async stop() {
      child.kill('SIGTERM')
      const timer = setTimeout(() => child.kill('SIGKILL'), STOP_SECONDS * 1_000)
      await exited
      clearTimeout(timer)
      lines.end()
    },
  }
}

/** Null once the namespace takes requests, which it does some seconds after it was made; else the last answer. */
async function serves(address: string, namespace: string): Promise<string | null> {
  let last = ''
  for (const giveUpAt = performance.now() + START_SECONDS * 1_000; performance.now() < giveUpAt; await sleep(POLL_MS))
    try {
      const connection = await Connection.connect({
        address,
        connectTimeout: '2s',
        // It is on this machine, where no proxy of the environment is asked.
        channelArgs: { 'grpc.enable_http_proxy': 0 },
      })
      try {
        await connection.withDeadline(Date.now() + 5_000, async () => {
          await register(connection, namespace)
          await connection.workflowService.countWorkflowExecutions({ namespace })
        })
        return null
      } finally {
        await connection.close()
      }
    } catch (error) {
      last = error instanceof Error ? error.message : String(error)
    }
  return `no answer within ${START_SECONDS} s; last: ${last}`
}

/** A server of one's own begins without any; the dev server makes its own. What has ended is kept as long as in the server's own one. */
async function register({ workflowService }: Connection, namespace: string): Promise<void> {
  const { namespaces } = await workflowService.listNamespaces({ pageSize: 100 })
  const named = (name: string) => namespaces?.find(({ namespaceInfo }) => namespaceInfo?.name === name)
  if (named(namespace) !== undefined) return
  const retention = named(SYSTEM_NAMESPACE)?.config?.workflowExecutionRetentionTtl
  await workflowService.registerNamespace({ namespace, workflowExecutionRetentionPeriod: retention ?? null })
}
