/**
 * A Temporal dev server for development and tests: found, or fetched once, then started on the loopback interface.
 *
 * Looked for in this order: `TEMPORAL_ADDRESS` (nothing is started) · `temporal` on PATH · one kept in the user's cache folder
 * or in Go's · the SDK's own download · `go install`. Production connects to a cluster by address and never comes here.
 */
import type { ChildProcess } from 'node:child_process'
import { spawn } from 'node:child_process'
import { lookup } from 'node:dns/promises'
import { accessSync, constants, lstatSync, mkdirSync } from 'node:fs'
import { chmod, mkdir, mkdtemp, open, readdir, readFile, rename, rm } from 'node:fs/promises'
import type { Socket } from 'node:net'
import { connect as connectTcp, createServer } from 'node:net'
import { homedir, tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { Connection } from '@temporalio/client'
import { BackendUnreachable } from '../core/errors.ts'

const DEFAULT_PORT = 7233
const DEFAULT_UI_PORT = 8233
const START_SECONDS = 60
const STOP_SECONDS = 10
const PORT_ATTEMPTS = 5 // between choosing a free port and binding it another process may take it

/** Newer tags carry `replace` lines, which `go install module@version` refuses. */
const GO_PACKAGE = 'github.com/temporalio/cli/cmd/temporal@v1.5.1'
/** The first server whose matching knows fair queues (matching.enableFairness). */
const OLDEST_SERVER = { major: 1, minor: 29 }

/** The SDK asks this host where the archives lie. */
const DOWNLOAD_HOST = 'temporal.download'
const REACHABLE_MS = 3000
const DOWNLOAD_SECONDS = 600

/**
 * Fair queues, and limits that a single machine's load does not meet: the defaults are a share of a cluster's.
 * Source: common/dynamicconfig/constants.go of Temporal Server 1.29.1 (the default of each is given behind it).
 */
const DYNAMIC_CONFIG: Readonly<Record<string, string>> = {
  'matching.enableFairness': 'true', // false; implies matching.useNewMatcher
  // Fairness holds within one partition (4): on one machine more of them add no throughput, one makes it exact.
  'matching.numTaskqueueReadPartitions': '1',
  'matching.numTaskqueueWritePartitions': '1',
  'matching.rps': '100000', // 1200
  'history.rps': '100000', // 3000
  'frontend.rps': '100000', // 2400
  'frontend.namespaceRPS': '100000', // 2400
  'frontend.namespaceRPS.visibility': '5000', // 10; the dev server's own 100
  'frontend.namespaceCount': '20000', // 1200 long polls and queries at a time
  'worker.schedulerNamespaceStartWorkflowRPS': '1000', // 30
  'frontend.enableServerVersionCheck': 'false', // true asks a server on the internet for newer versions
}

type Log = (line: string) => void

export interface TemporalServer {
  /** host:port of the frontend. */
  readonly address: string
  /** Null without a UI, and for a server that was there already. */
  readonly uiUrl: string | null
  /** Null for a server that was there already. */
  readonly pid: number | null
  /** Resolves when a server that this process started has ended, wanted or not. */
  readonly exited: Promise<void>
  /** Ends the server if this process started it. */
  stop(): Promise<void>
}

export interface StartTemporalOptions {
  readonly binary: string
  /** Default 7233, or a free one when that is taken. */
  readonly port?: number
  /** Default 8233, or a free one when that is taken; null for no UI. */
  readonly uiPort?: number | null
  /** SQLite file that keeps the histories; without it they are kept in memory. */
  readonly dataFile?: string
  readonly namespace?: string
  /** Name → type, e.g. `{ IntegrationId: 'Int' }`. Types: Text, Keyword, Int, Double, Bool, Datetime, KeywordList. */
  readonly searchAttributes?: Readonly<Record<string, string>>
  /** Added to, or in place of, the values set here. Values are JSON. */
  readonly dynamicConfig?: Readonly<Record<string, string>>
  readonly log?: Log
}

/** The server at `TEMPORAL_ADDRESS` if that is set (it must answer), else a dev server of our own. */
export async function findOrStartTemporalServer(
  options: Omit<StartTemporalOptions, 'binary'> & { env?: NodeJS.ProcessEnv },
): Promise<TemporalServer> {
  const env = options.env ?? process.env
  const address = env.TEMPORAL_ADDRESS
  if (address !== undefined && address !== '') {
    await checkReachable(address)
    return { address, uiUrl: null, pid: null, exited: new Promise(() => {}), stop: async () => {} }
  }
  const { log } = options
  const binary = await findTemporalBinary({ env, ...(log && { log }) })
  return startTemporalServer({ ...options, binary })
}

/** Only that something listens: with which certificate or key to talk to it is the connection's business. */
async function checkReachable(address: string): Promise<void> {
  try {
    const { hostname, port } = new URL(`tcp://${address}`)
    await new Promise<void>((resolve, reject) => {
      const socket = connectTcp({ host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || DEFAULT_PORT) })
      socket.setTimeout(REACHABLE_MS, () => socket.destroy(new Error(`no answer within ${REACHABLE_MS} ms`)))
      socket.once('connect', () => {
        socket.destroy()
        resolve()
      })
      socket.once('error', reject)
    })
  } catch (cause) {
    throw new BackendUnreachable('Temporal', address, {
      cause,
      remedy: 'Start that server, correct TEMPORAL_ADDRESS, or unset it to have a dev server started here.',
    })
  }
}

/** Starts `temporal server start-dev` and waits until its namespace answers. It ends when this process ends. */
export async function startTemporalServer(options: StartTemporalOptions): Promise<TemporalServer> {
  const log = options.log ?? (() => {})
  const namespace = options.namespace ?? 'default'
  if (options.dataFile !== undefined) await mkdir(dirname(options.dataFile), { recursive: true })
  for (let attempt = 1; ; attempt++) {
    const port = await freePort(options.port ?? DEFAULT_PORT)
    const uiPort = options.uiPort === null ? null : await freePort(options.uiPort ?? DEFAULT_UI_PORT)
    const tail: string[] = []
    const child = spawn(options.binary, serverArguments(options, namespace, port, uiPort), {
      env: withoutTemporalVariables(process.env),
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const failed = new Promise<Error>((resolve) => {
      child.once('error', resolve)
      child.once('close', (code, signal) =>
        resolve(new Error(`temporal ended (${signal ?? code}):\n${tail.join('\n')}`)),
      )
    })
    for (const stream of [child.stdout, child.stderr]) {
      createInterface({ input: stream }).on('line', (line) => {
        if (tail.push(line) > 20) tail.shift()
        log(line)
      })
    }
    if (child.pid !== undefined) {
      const watcher = endWithParent(child.pid)
      child.once('exit', () => watcher.cancel())
    }
    const address = `127.0.0.1:${port}`
    const failure = await Promise.race([failed, answers(address, namespace, failed)])
    if (failure === null) {
      return {
        address,
        uiUrl: uiPort === null ? null : `http://127.0.0.1:${uiPort}`,
        pid: child.pid as number,
        exited: failed.then(() => {}),
        stop: () => end(child),
      }
    }
    await end(child)
    const isPortTaken = tail.some((line) => /can't (set|use).* port|address already in use/.test(line))
    if (!isPortTaken || attempt === PORT_ATTEMPTS) {
      throw new BackendUnreachable('Temporal', address, {
        cause: failure,
        remedy: `\`${options.binary} server start-dev\` did not come up: ${failure.message}`,
      })
    }
  }
}

function serverArguments(
  options: StartTemporalOptions,
  namespace: string,
  port: number,
  uiPort: number | null,
): string[] {
  const args = ['server', 'start-dev', '--ip', '127.0.0.1', '--port', String(port), '--namespace', namespace]
  args.push(...(uiPort === null ? ['--headless'] : ['--ui-port', String(uiPort)]))
  if (options.dataFile !== undefined) args.push('--db-filename', options.dataFile)
  for (const [key, value] of Object.entries({ ...DYNAMIC_CONFIG, ...options.dynamicConfig })) {
    args.push('--dynamic-config-value', `${key}=${value}`)
  }
  for (const [name, type] of Object.entries(options.searchAttributes ?? {})) {
    args.push('--search-attribute', `${name}=${type}`)
  }
  return args
}

/** The CLI reads TEMPORAL_* as its own settings (namespace, address, profile, …). */
function withoutTemporalVariables(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith('TEMPORAL_')))
}

/** Null once the namespace answers, else the reason. */
async function answers(address: string, namespace: string, failed: Promise<Error>): Promise<Error | null> {
  const deadline = performance.now() + START_SECONDS * 1000
  let hasFailed = false
  void failed.then(() => {
    hasFailed = true
  })
  let last: unknown
  while (performance.now() < deadline && !hasFailed) {
    try {
      const connection = await Connection.connect({ address, connectTimeout: '2s' })
      try {
        await connection.withDeadline(Date.now() + 2000, () =>
          connection.workflowService.describeNamespace({ namespace }),
        )
        return null
      } finally {
        await connection.close()
      }
    } catch (error) {
      last = error
      await sleep(100)
    }
  }
  return hasFailed ? failed : new Error(`no answer within ${START_SECONDS} s`, { cause: last })
}

async function end(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  child.kill('SIGTERM')
  const timer = setTimeout(() => child.kill('SIGKILL'), STOP_SECONDS * 1000)
  await exited
  clearTimeout(timer)
}

/** Path of a `temporal` binary whose server is new enough. Fetches or builds one into the cache folder if there is none. */
export async function findTemporalBinary(options: { log?: Log; env?: NodeJS.ProcessEnv } = {}): Promise<string> {
  const log = options.log ?? (() => {})
  const env = options.env ?? process.env
  const present = await presentTemporalBinary({ log, env })
  if (present !== null) return present

  const folder = cacheFolder(env)
  const kept = join(folder, 'bin', 'temporal')
  return oneAtATime(join(folder, 'temporal.lock'), log, async () => {
    if (await isUsable(kept, log)) return kept // another process has fetched it meanwhile
    const tried: string[] = []
    for (const fetchOne of [downloadCli, buildCli]) {
      try {
        await fetchOne(kept, { log, env })
        return kept
      } catch (error) {
        tried.push((error as Error).message)
      }
    }
    throw new Error(
      `No Temporal server was found. Install the Temporal CLI so that \`temporal\` is on PATH (https://docs.temporal.io/cli), or Go 1.21 or later so that it can be built, or set TEMPORAL_ADDRESS to a running server. Tried: \`temporal\` on PATH; ${kept}; ${tried.join('; ')}.`,
    )
  })
}

/** The same without fetching: null when this machine has none yet. */
export async function presentTemporalBinary(
  options: { log?: Log; env?: NodeJS.ProcessEnv } = {},
): Promise<string | null> {
  const log = options.log ?? (() => {})
  const env = options.env ?? process.env
  const folders = [...(env.PATH ?? '').split(delimiter).filter(Boolean), join(cacheFolder(env), 'bin')]
  for (const candidate of folders.map((folder) => join(folder, 'temporal'))) {
    if (await isUsable(candidate, log)) return candidate
  }
  // Where an earlier `go install` by hand has put it. Asked last: `go env` costs a process.
  const go = await run('go', ['env', 'GOBIN', 'GOPATH'], { env, seconds: 10 })
  if (go.code !== 0) return null
  const [gobin = '', gopath = ''] = go.output.split('\n').map((line) => line.trim())
  for (const folder of [gobin, ...gopath.split(delimiter).map((path) => path && join(path, 'bin'))].filter(Boolean)) {
    if (await isUsable(join(folder, 'temporal'), log)) return join(folder, 'temporal')
  }
  return null
}

async function isUsable(path: string, log: Log): Promise<boolean> {
  try {
    accessSync(path, constants.X_OK)
  } catch {
    return false
  }
  const { code, output } = await run(path, ['--version'], { seconds: 15 })
  const version = /Server (\d+)\.(\d+)/.exec(output)
  if (code !== 0 || version === null) {
    log(`${path} is not a Temporal CLI that runs here; looking further`)
    return false
  }
  const [major, minor] = [Number(version[1]), Number(version[2])]
  const isNewEnough = major > OLDEST_SERVER.major || (major === OLDEST_SERVER.major && minor >= OLDEST_SERVER.minor)
  if (!isNewEnough) {
    log(
      `${path} has server ${major}.${minor}, older than ${OLDEST_SERVER.major}.${OLDEST_SERVER.minor}; looking further`,
    )
  }
  return isNewEnough
}

async function downloadCli(destination: string, { log, env }: { log: Log; env: NodeJS.ProcessEnv }): Promise<void> {
  await downloadWithSdk({ server: 'dev-server', destination, log, env })
}

/** The whole server from source: 2.5 minutes on two cores. */
async function buildCli(destination: string, { log, env }: { log: Log; env: NodeJS.ProcessEnv }): Promise<void> {
  const go = await run('go', ['version'], { env, seconds: 10 })
  if (go.code !== 0) throw new Error('go install: Go is not there')
  log(`building the Temporal server with ${go.output.trim()} (go install, about 2.5 minutes, once)`)
  await inNewFolder(destination, async (folder) => {
    const startedAt = performance.now()
    const seconds = () => Math.round((performance.now() - startedAt) / 1000)
    const progress = setInterval(() => log(`still building the Temporal server (${seconds()} s)`), 15_000)
    try {
      const built = await run('go', ['install', GO_PACKAGE], {
        // CGO off: no C compiler is needed, the binary is static.
        env: { ...env, GOBIN: folder, CGO_ENABLED: '0' },
        cwd: folder,
        seconds: 1800,
      })
      if (built.code !== 0) throw new Error(`go install ${GO_PACKAGE}: ${built.output.trim().slice(-1000)}`)
    } finally {
      clearInterval(progress)
    }
    log(`built the Temporal server in ${seconds()} s`)
    return join(folder, 'temporal')
  })
}

/**
 * Fetches an ephemeral server with the SDK's own downloader and keeps it at `destination`.
 *
 * It runs in a Node process of its own: the SDK's native runtime is a singleton that a later `Runtime.install()` of the host
 * would stumble over, and a download that hangs can then be ended. Rejects within 3 s when the download host is out of reach.
 */
export async function downloadWithSdk(options: {
  server: 'dev-server' | 'time-skipping'
  destination: string
  log?: Log
  env?: NodeJS.ProcessEnv
}): Promise<void> {
  const env = options.env ?? process.env
  const problem = await downloadProblem(env)
  if (problem !== null) throw new Error(`the SDK's download: ${problem}`)
  options.log?.(`downloading the Temporal ${options.server} with the SDK (once)`)
  await inNewFolder(options.destination, async (folder) => {
    const script = `
      const { TestWorkflowEnvironment } = await import('@temporalio/testing')
      const executable = { type: 'cached-download', downloadDir: process.argv[1] }
      const create = process.argv[2] === 'dev-server' ? 'createLocal' : 'createTimeSkipping'
      const environment = await TestWorkflowEnvironment[create]({ server: { executable } })
      await environment.teardown()
    `
    const { output } = await run(process.execPath, ['--input-type=module', '-e', script, folder, options.server], {
      env,
      cwd: import.meta.dirname,
      seconds: DOWNLOAD_SECONDS,
    })
    // The file counts, not the exit: a slow machine may fail to start in the SDK's 5 s what it has downloaded.
    const file = (await readdir(folder)).find((name) => /^temporal-.*(?<!\.downloading)$/.test(name))
    if (file === undefined) throw new Error(`the SDK's download: ${output.trim().slice(-500)}`)
    return join(folder, file)
  })
}

/** Why the SDK's download can't work here; null when its host answers. Takes 3 s at most. */
export async function downloadProblem(env: NodeJS.ProcessEnv = process.env): Promise<string | null> {
  if (env.HTTPS_PROXY || env.https_proxy || env.ALL_PROXY) return null // the proxy resolves the name
  const timeout = sleep(REACHABLE_MS, `${DOWNLOAD_HOST} is not resolved within ${REACHABLE_MS} ms`, { ref: false })
  const resolved = lookup(DOWNLOAD_HOST).then(
    () => null,
    () => `${DOWNLOAD_HOST} is not reachable`,
  )
  const problem = await Promise.race([resolved, timeout])
  if (problem !== null) return problem
  return checkReachable(`${DOWNLOAD_HOST}:443`).then(
    () => null,
    () => `${DOWNLOAD_HOST} is not reachable`,
  )
}

/** What is fetched once and shared by all clones of a user. Never inside a clone. */
export function cacheFolder(env: NodeJS.ProcessEnv = process.env): string {
  if (env.XDG_CACHE_HOME) return join(env.XDG_CACHE_HOME, 'durable-integrations')
  const home = env.HOME || homedir()
  try {
    accessSync(home, constants.W_OK)
    return join(home, '.cache', 'durable-integrations')
  } catch {
    // A user without a home (nobody, a service account). Under /tmp somebody else could have made the folder.
    const self = process.getuid?.()
    const folder = join(tmpdir(), `durable-integrations-${self ?? 'cache'}`)
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    if (self !== undefined && lstatSync(folder).uid !== self) {
      throw new Error(`${folder} belongs to another user. Set XDG_CACHE_HOME to a folder of your own.`)
    }
    return folder
  }
}

/** Makes a file in a fresh folder beside `destination` and moves it there as one step; what is half made is never seen. */
async function inNewFolder(destination: string, make: (folder: string) => Promise<string>): Promise<void> {
  const parent = dirname(destination)
  await mkdir(parent, { recursive: true })
  const folder = await mkdtemp(join(parent, '.new-'))
  try {
    const made = await make(folder)
    await chmod(made, 0o755)
    await rename(made, destination)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Runs `work` in one process of this machine at a time. A lock of a dead process is ignored. */
export async function oneAtATime<T>(lockFile: string, log: Log, work: () => Promise<T>): Promise<T> {
  await mkdir(dirname(lockFile), { recursive: true })
  for (let waits = 0; ; waits++) {
    try {
      const handle = await open(lockFile, 'wx')
      await handle.writeFile(String(process.pid))
      await handle.close()
      break
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
    const holder = Number(await readFile(lockFile, 'utf8').catch(() => ''))
    if (waits === 0 && holder > 0) log(`waiting for process ${holder}, which is fetching the same`)
    // An empty file is one being written, unless it stays so.
    if (holder > 0 ? !isAlive(holder) : waits > 20) await rm(lockFile, { force: true })
    else await sleep(250)
  }
  try {
    return await work()
  } finally {
    await rm(lockFile, { force: true })
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** A port of the loopback interface that nothing listens on: the preferred one if it is free. */
export async function freePort(preferred = 0): Promise<number> {
  const server = createServer()
  try {
    return await new Promise<number>((resolve, reject) => {
      server.once('error', reject)
      server.listen(preferred, '127.0.0.1', () => resolve((server.address() as { port: number }).port))
    })
  } catch (error) {
    if (preferred !== 0) return await freePort()
    throw error
  } finally {
    server.close()
  }
}

/**
 * Ends a process when this one ends, also by `kill -9`.
 *
 * A shell reads from a pipe of which we alone hold the other end: it reads the end of the file when we are gone. `cancel` it
 * when the process has ended by itself, before its pid can belong to somebody else.
 */
export function endWithParent(pid: number, signal: 'TERM' | 'INT' = 'TERM'): { cancel(): void } {
  const script = `read -r _; kill -s "$1" "$2"; i=0
    while kill -0 "$2" && [ $i -lt 200 ]; do sleep 0.1; i=$((i + 1)); done
    kill -s KILL "$2"`
  const watcher = spawn('/bin/sh', ['-c', script, 'sh', signal, String(pid)], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  watcher.on('error', () => {})
  watcher.unref()
  ;(watcher.stdin as Socket).unref()
  return { cancel: () => void watcher.kill('SIGKILL') }
}

/** Runs a command to its end; its code is null when it can't be started or took longer than `seconds`. */
async function run(
  command: string,
  args: readonly string[],
  options: { env?: NodeJS.ProcessEnv; cwd?: string; seconds: number },
): Promise<{ code: number | null; output: string }> {
  return new Promise((resolve) => {
    const child = spawn(command, args, {
      env: options.env ?? process.env,
      cwd: options.cwd,
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: options.seconds * 1000,
      killSignal: 'SIGKILL',
    })
    let output = ''
    child.stdout.on('data', (chunk) => {
      output += chunk
    })
    child.stderr.on('data', (chunk) => {
      output += chunk
    })
    child.once('error', (error) => resolve({ code: null, output: error.message }))
    child.once('close', (code) => resolve({ code, output }))
  })
}
