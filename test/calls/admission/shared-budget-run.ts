/** Runs processes whose integrations share a budget, against a provider that counts arrivals by a clock of its own. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { startProcess } from '../../../dev/processes.ts'
import { createTestDatabase } from '../../support/database.ts'
import { installedScript } from '../../support/installed-script.ts'
import type { TestIntegrations } from '../../support/integrations.ts'
import { encryptionKey, testIntegrations } from '../../support/integrations.ts'
import { mostWithin } from './most-within.ts'
import type { Calls, Said } from './shared-budget-process.ts'

/** Well within a round. */
const LOOK_MS = 50
/** From the moment at which a unit is given out; on a busy machine. */
const ARRIVES_WITHIN_MS = 1_000

const SCRIPT = installedScript(new URL('shared-budget-process.ts', import.meta.url))
const encryptionKeys = encryptionKey('k1')

export interface Run {
  readonly limit: number
  readonly seconds: number
  /** By process: how many integrations, their callers and the pause of these. */
  readonly processes: readonly { readonly integrations: number; readonly callers: number; readonly everyMs: number }[]
  readonly lastsMs: number
  /** When the last process is killed. */
  readonly killsAtMs?: number
  readonly postgresUrl: string
}

export interface Told {
  /** The most that arrived in any span of a window. */
  readonly most: number
  /** Once all wait: in all; by the process of the integration, calls of each integration and its longest call. */
  readonly arrived: number
  readonly tenants: readonly (readonly { readonly calls: number; readonly longestMs: number }[])[]
  /** How long all of them called. */
  readonly lastedMs: number
  /** Whole rounds meanwhile whose calls have all arrived: each integration that waited throughout has had one. */
  readonly rounds: number
}

export async function runShared({ limit, seconds, processes, lastsMs, killsAtMs, postgresUrl }: Run): Promise<Told> {
  const arrivals: { readonly id: number; readonly at: number }[] = []
  const server = createServer((request, response) => {
    arrivals.push({ id: Number(request.url?.slice(1)), at: performance.now() })
    request.resume()
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const database = await createTestDatabase({ adminUrl: postgresUrl })
  const test = testIntegrations(database.url, { encryptionKeys, providers: { sharing: {} } })
  const children: Awaited<ReturnType<typeof start>>[] = []
  const ended = new AbortController()
  try {
    await test.integrations.ready()
    const groups: number[][] = []
    for (const { integrations } of processes) {
      const ids: number[] = []
      for (let made = 0; made < integrations; made += 1) {
        const { id } = await test.integrations.create({ provider: 'sharing', name: `tenant ${made}`, credentials: {} })
        ids.push(id)
      }
      groups.push(ids)
    }
    for (const [at, { callers, everyMs }] of processes.entries()) {
      const tenants = (groups[at] ?? []).map((id) => ({ id, callers, everyMs }))
      children.push(await start(database.url, { url, limit, seconds, tenants }))
    }
    const startedAt = performance.now()
    // The first window goes to those that ask first. The first round's share is that of the few that waited as it began.
    const allWaitFrom = startedAt + seconds * 2_500
    const rounds = watchRounds(test, ended.signal)
    for (const { process: child } of children) child.child.send('go')
    const failed = Promise.race(children.map(({ failed: each }) => each))
    await Promise.race([sleep(killsAtMs ?? lastsMs), failed])
    if (killsAtMs !== undefined) {
      children.at(-1)?.process.child.kill('SIGKILL')
      await Promise.race([sleep(lastsMs - killsAtMs), failed])
    }
    const endedAt = performance.now()
    ended.abort()
    const begun = await rounds
    const living = killsAtMs === undefined ? children : children.slice(0, -1)
    for (const { process: child } of living) child.child.send('stop')
    const longest = Object.assign({}, ...(await Promise.all(living.map(({ done }) => done)))) as Record<number, number>
    const inTime = arrivals.filter(({ at }) => at >= allWaitFrom && at <= endedAt)
    const calls = new Map<number, number>()
    for (const { id } of inTime) calls.set(id, (calls.get(id) ?? 0) + 1)
    return {
      most: mostWithin(
        arrivals.map(({ at }) => at),
        seconds * 1_000,
      ),
      arrived: inTime.length,
      tenants: groups.map((ids) => ids.map((id) => ({ calls: calls.get(id) ?? 0, longestMs: longest[id] ?? 0 }))),
      lastedMs: endedAt - allWaitFrom,
      // From one beginning to the next.
      rounds: begun.filter((at) => at >= allWaitFrom && at <= endedAt - ARRIVES_WITHIN_MS).length - 1,
    }
  } finally {
    ended.abort()
    await Promise.all(children.map(({ process: child }) => child.stop()))
    await test.close()
    server.close()
    await database.drop()
  }
}

/** Moments at which another round has begun: fewer have had their turn than at the last look at the budget's row. */
async function watchRounds({ sql }: TestIntegrations, signal: AbortSignal): Promise<readonly number[]> {
  const begun: number[] = []
  let before = 0
  while (!signal.aborted) {
    const [row] = await sql<{ served: number }[]>`
      select jsonb_array_length(value -> 'served') as served from integration_cache where key like '%:shared:%'`
    const served = row?.served ?? 0
    if (served < before) begun.push(performance.now())
    before = served
    await sleep(LOOK_MS, undefined, { signal }).catch(() => {})
  }
  return begun
}

async function start(databaseUrl: string, calls: Calls) {
  const lines: string[] = []
  const child = await startProcess({
    name: 'caller',
    command: process.execPath,
    args: [SCRIPT],
    env: {
      DATABASE_URL: databaseUrl,
      INTEGRATIONS_ENCRYPTION_KEYS: encryptionKeys,
      INTEGRATIONS_ENCRYPTION_KEYS_FILE: undefined,
      NODE_OPTIONS: undefined,
      CALLS: JSON.stringify(calls),
    },
    onLine: (line) => lines.push(line),
  })
  const ready = deferred<void>()
  const done = deferred<Readonly<Record<number, number>>>()
  const failed = deferred<never>()
  child.child.on('message', (message) => {
    const said = message as Said
    if (said.kind === 'ready') ready.resolve()
    else if (said.kind === 'done') done.resolve(said.longestMs)
    else failed.reject(new Error(said.message))
  })
  void child.exited.then((exit) => {
    if (exit.code !== 0 && exit.signal !== 'SIGKILL')
      failed.reject(new Error(`ended with ${JSON.stringify(exit)}: ${lines.join('\n')}`))
  })
  failed.promise.catch(() => {})
  await Promise.race([ready.promise, failed.promise])
  return { process: child, done: Promise.race([done.promise, failed.promise]), failed: failed.promise }
}

function deferred<T>(): { promise: Promise<T>; resolve: (value: T) => void; reject: (error: Error) => void } {
  let resolve: (value: T) => void = () => {}
  let reject: (error: Error) => void = () => {}
  const promise = new Promise<T>((onValue, onError) => {
    resolve = onValue
    reject = onError
  })
  return { promise, resolve, reject }
}
