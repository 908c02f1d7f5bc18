/**
 * A Temporal dev server for development and tests: found, or fetched once, then started on the loopback interface.
 *
 * Looked for in this order: `TEMPORAL_ADDRESS` (nothing is started) · a binary, see server-binary.ts. Production connects
 * to a cluster by address and never comes here.
 */
import type { ChildProcess } from 'node:child_process'
import { spawn } from 'node:child_process'
import { mkdir } from 'node:fs/promises'
import { dirname } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { Connection } from '@temporalio/client'
import { freePort } from '../src/bin/free-port.ts'
import type { UiGuard } from '../src/bin/ui-guard.ts'
import { hiddenPlace, startUiGuard } from '../src/bin/ui-guard.ts'
import { BackendUnreachable } from '../src/framework/errors.ts'
import { SEARCH_ATTRIBUTES } from '../src/temporal/label-rules.ts'
import { connectTo, endWithParent, ownersOnly } from './local-process.ts'
import { findTemporalBinary } from './temporal-server-binary.ts'

const DEFAULT_PORT = 7233
const DEFAULT_UI_PORT = 8233
const START_SECONDS = 60
const STOP_SECONDS = 10
const PORT_ATTEMPTS = 5 // between choosing a free port and binding it another process may take it
/** Its own words; the last are a panic's, where a port that it chose for itself is gone before it has tried it. */
const PORT_TAKEN = /can't (set|use).* port|address already in use|failed assigning ephemeral port/
/** Of what it says, at the beginning and at the end. */
const KEPT_LINES = 20

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
  'history.transferProcessorMaxPollRPS': '1000', // 20 a shard: all steps of a workflow go through one shard
  'frontend.rps': '100000', // 2400
  'frontend.namespaceRPS': '100000', // 2400
  'frontend.namespaceRPS.visibility': '5000', // 10; the dev server's own 100
  'frontend.namespaceCount': '20000', // 1200 long polls and queries at a time
  'worker.schedulerNamespaceStartWorkflowRPS': '1000', // 30
  'frontend.enableServerVersionCheck': 'false', // true asks a server on the internet for newer versions
  // The HTTP API listens on a random port and can't be switched off. It asks for no content type and no origin, so that any web page
  // could start workflows: it answers to a name only that no host can have (RFC 2606, 2). We speak gRPC, which no page can.
  'frontend.httpAllowedHosts': '["nobody.invalid"]', // any
  'system.enableActivityEagerExecution': 'true', // false; true from 1.32 on
  'system.enableNexus': 'false', // true; the HTTP API's other routes, which look at no Host
}

type Log = (line: string) => void

export interface TemporalServer {
  /** host:port of the frontend. */
  readonly address: string
  /** Path of the `temporal` that runs it. Null for a server that was there already. */
  readonly binary: string | null
  /** Of the guard in front of the UI. Null without a UI, and for a server that was there already. */
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
  /** Name → type: Text, Keyword, Int, Double, Bool, Datetime or KeywordList. Default: those that our workflows carry. */
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
    return { address, binary: null, uiUrl: null, pid: null, exited: new Promise(() => {}), stop: async () => {} }
  }
  const { log } = options
  const binary = await findTemporalBinary({ env, ...(log && { log }) })
  return startTemporalServer({ ...options, binary })
}

/** Only that something listens: with which certificate or key to talk to it is the connection's business. */
async function checkReachable(address: string): Promise<void> {
  try {
    await connectTo(address)
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
  const { dataFile } = options
  if (dataFile !== undefined) {
    await mkdir(dirname(dataFile), { recursive: true })
    for (const file of [dataFile, `${dataFile}-shm`, `${dataFile}-wal`]) await ownersOnly(file)
  }
  for (let attempt = 1; ; attempt++) {
    const port = await freePort(options.port ?? DEFAULT_PORT)
    const ui = options.uiPort === null ? null : await hiddenPlace()
    const said: string[] = []
    // A history says who did what and when. The files that the server makes take the shell's mask.
    const inShell = ['-c', 'umask 077; exec "$@"', 'sh', options.binary]
    const child = spawn('/bin/sh', [...inShell, ...serverArguments(options, namespace, port, ui)], {
      env: withoutTemporalVariables(process.env),
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const failed = new Promise<Error>((resolve) => {
      child.once('error', resolve)
      child.once('close', (code, signal) =>
        resolve(new Error(`temporal ended (${signal ?? code}):\n${said.join('\n')}`)),
      )
    })
    for (const stream of [child.stdout, child.stderr]) {
      createInterface({ input: stream }).on('line', (line) => {
        // A panic says at its beginning what it is about.
        if (said.push(line) > 2 * KEPT_LINES) said.splice(KEPT_LINES, 1)
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
      const guard = ui === null ? null : await startGuard(ui, options.uiPort ?? DEFAULT_UI_PORT, child)
      return {
        address,
        binary: options.binary,
        uiUrl: guard === null ? null : `http://127.0.0.1:${guard.port}`,
        pid: child.pid as number,
        exited: failed.then(() => {}),
        stop: async () => {
          await guard?.close()
          await end(child)
        },
      }
    }
    await end(child)
    if (!said.some((line) => PORT_TAKEN.test(line)) || attempt === PORT_ATTEMPTS) {
      throw new BackendUnreachable('Temporal', address, {
        cause: failure,
        remedy: `\`${options.binary} server start-dev\` did not come up: ${failure.message}`,
      })
    }
  }
}

async function startGuard(
  ui: { host: string; port: number },
  preferredPort: number,
  child: ChildProcess,
): Promise<UiGuard> {
  try {
    return await startUiGuard(ui, { host: '127.0.0.1', port: preferredPort, isPreferred: true })
  } catch (error) {
    await end(child)
    throw error
  }
}

function serverArguments(
  options: StartTemporalOptions,
  namespace: string,
  port: number,
  ui: { host: string; port: number } | null,
): string[] {
  const args = ['server', 'start-dev', '--ip', '127.0.0.1', '--port', String(port), '--namespace', namespace]
  args.push(...(ui === null ? ['--headless'] : ['--ui-ip', ui.host, '--ui-port', String(ui.port)]))
  if (options.dataFile !== undefined) args.push('--db-filename', options.dataFile)
  for (const [key, value] of Object.entries({ ...DYNAMIC_CONFIG, ...options.dynamicConfig })) {
    args.push('--dynamic-config-value', `${key}=${value}`)
  }
  for (const [name, type] of Object.entries(options.searchAttributes ?? SEARCH_ATTRIBUTES)) {
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
      const connection = await Connection.connect({
        address,
        connectTimeout: '2s',
        // It is on this machine, where no proxy of the environment is asked.
        channelArgs: { 'grpc.enable_http_proxy': 0 },
      })
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
