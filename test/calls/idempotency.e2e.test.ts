/** Keyed writes of real processes, some of which are killed: a server counts what arrives. */
import { once } from 'node:events'
import type { Server } from 'node:http'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { ManagedProcess } from '../../dev/processes.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import { installedScript } from '../support/installed-script.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { encryptionKey, testIntegrations } from '../support/integrations.ts'
import { sharePostgres } from '../support/postgres-setup.ts'
import { makeIntegration } from '../support/rows.ts'
import type { TalkingProcess } from '../support/talking-process.ts'
import { startTalkingProcess } from '../support/talking-process.ts'
import type { Said } from './idempotency-process.ts'
import { CALLS_A_PROCESS, KEY, KNOWING, post, TIMEOUT_MS } from './idempotency-process.ts'

const SCRIPT = installedScript(new URL('idempotency-process.ts', import.meta.url))
const PROCESSES = 4
const ENCRYPTION_KEY = encryptionKey('k1')

let postgres: Awaited<ReturnType<typeof sharePostgres>>
let database: TestDatabase
let test: TestIntegrations
let server: Server
let origin: string
const processes: ManagedProcess[] = []
/** What arrived, by path: the keys in order, and how many at most were there at once. */
const arrived = new Map<string, { keys: unknown[]; present: number; most: number }>()

beforeAll(async () => {
  postgres = await sharePostgres()
  database = await createTestDatabase({ adminUrl: postgres.url })
  test = testIntegrations(database.url, {
    encryptionKeys: ENCRYPTION_KEY,
    providers: { plain: {}, knowing: KNOWING },
    // Many of its calls fail on purpose.
    config: { circuit_breaker: { enabled: false } },
  })
  server = createServer((request, response) => {
    const seen = arrivedAt(request.url ?? '')
    seen.keys.push(request.headers['idempotency-key'])
    seen.present += 1
    seen.most = Math.max(seen.most, seen.present)
    // Others that are let through at the same time get here while this one waits.
    setTimeout(() => {
      seen.present -= 1
      response.writeHead(request.url?.startsWith('/failing') ? 503 : 200, { 'Content-Type': 'application/json' })
      response.end('{"id":1}')
    }, 20)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterEach(async () => {
  await Promise.all(processes.splice(0).map((child) => child.stop()))
})
afterAll(async () => {
  server?.closeAllConnections()
  server?.close()
  await test?.close()
  await database?.drop()
  await postgres?.release()
})

function arrivedAt(path: string) {
  const seen = arrived.get(path) ?? { keys: [], present: 0, most: 0 }
  arrived.set(path, seen)
  return seen
}

async function start(...args: string[]): Promise<TalkingProcess<Said>> {
  const started = await startTalkingProcess<Said>(SCRIPT, args, {
    DATABASE_URL: database.url,
    INTEGRATIONS_ENCRYPTION_KEYS: ENCRYPTION_KEY,
    INTEGRATIONS__CIRCUIT_BREAKER__ENABLED: 'false',
  })
  processes.push(started.process)
  return started
}

/** How the calls of all processes ended, sorted. */
async function race(integration: Integration, path: string): Promise<string[]> {
  const running = await Promise.all(
    Array.from({ length: PROCESSES }, async () => {
      const racer = await start('race', String(integration.id), `${origin}${path}`)
      await racer.next('ready')
      return racer
    }),
  )
  const raced = running.map((racer) => racer.next('raced'))
  for (const { process: child } of running) child.child.send('go')
  return (await Promise.all(raced)).flatMap(({ outcomes }) => outcomes).toSorted()
}

describe('100 concurrent calls with one key, in four processes', () => {
  it.each(['plain', 'knowing'])('exactly one arrives, 99 conflict (%s)', async (provider) => {
    const path = `/${provider}`
    const outcomes = await race(await makeIntegration(test, provider), path)
    expect(outcomes).toEqual([...Array(PROCESSES * CALLS_A_PROCESS - 1).fill('idempotency_conflict'), 'made'])
    expect(arrivedAt(path).keys).toEqual([KEY])
  })

  it('whose effect stays unknown arrive one at a time, where the provider knows the key', async () => {
    const outcomes = await race(await makeIntegration(test, 'knowing'), '/failing')
    const { keys, most } = arrivedAt('/failing')
    expect(most).toBe(1)
    expect(new Set(keys)).toEqual(new Set([KEY]))
    expect(outcomes.filter((outcome) => outcome === 'http_error')).toHaveLength(keys.length)
    expect(outcomes.filter((outcome) => outcome === 'idempotency_conflict')).toHaveLength(outcomes.length - keys.length)
  })
})

describe('a process that is killed', () => {
  /** Kills a process that stands there. @returns how many calls had arrived */
  async function killed(integration: Integration, at: 'before' | 'after', path: string): Promise<number> {
    const { process: child, next } = await start('stand', String(integration.id), `${origin}${path}`, at)
    await next('standing')
    child.child.kill('SIGKILL')
    expect(await child.exited).toEqual({ code: null, signal: 'SIGKILL' })
    return arrivedAt(path).keys.length
  }
  const write = (integration: Integration, path: string) =>
    integration.request('things', 'POST', post(`${origin}${path}`), { idempotencyKey: KEY, timeoutMs: TIMEOUT_MS })

  /** For how long the turn of its key lasts yet, by the database's clock. */
  const turnOf = async ({ id }: Integration) => {
    const [key] = await test.sql<{ seconds: number }[]>`
      select extract(epoch from turn_ends_at - clock_timestamp())::float8 as seconds from integration_idempotency_keys
      where integration_id = ${id}`
    return key?.seconds
  }

  describe.each([
    ['between reservation and call', 'before', 0],
    ['between call and settlement', 'after', 1],
  ] as const)('%s', (_, at, arrivals) => {
    it('leaves the key spent, its effect unknown: a repeat conflicts', async () => {
      const integration = await makeIntegration(test, 'plain')
      const path = `/plain-${at}`
      expect(await killed(integration, at, path)).toBe(arrivals)
      const prior = { priorState: 'unknown', priorResponse: null, priorRequestId: null }
      expect(await integration.idempotencyRecord(KEY)).toMatchObject(prior)
      await expect(write(integration, path)).rejects.toMatchObject({ code: 'idempotency_conflict', ...prior })
      expect(arrivedAt(path).keys).toHaveLength(arrivals)
    })

    it('is let through again, with the same header, where the provider knows the key', async () => {
      const integration = await makeIntegration(test, 'knowing')
      const path = `/knowing-${at}`
      expect(await killed(integration, at, path)).toBe(arrivals)
      // Nobody can tell a killed caller from a slow one before its turn is over.
      await expect(write(integration, path)).rejects.toMatchObject({ code: 'idempotency_conflict' })
      // It ends with the timeout of its call.
      const seconds = await turnOf(integration)
      expect(seconds).toBeGreaterThan(0)
      expect(seconds).toBeLessThanOrEqual(TIMEOUT_MS / 1_000 + 1)
      await test.sql`update integration_idempotency_keys set turn_ends_at = clock_timestamp() - interval '1 s'
        where integration_id = ${integration.id}`
      expect(await write(integration, path)).toEqual({ id: 1 })
      expect(arrivedAt(path).keys).toEqual(Array(arrivals + 1).fill(KEY))
      await expect(write(integration, path)).rejects.toMatchObject({
        priorState: 'recovered',
        priorResponse: { id: 1 },
      })
    })
  })
})
