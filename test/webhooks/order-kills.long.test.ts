/**
 * 200 keys, 10,000 webhooks, two workers that are killed one after the other: each key is handled in order. What another pump and the
 * workflow of a row do after a death, the test does. ORDER_ROWS makes it shorter.
 */
import type { ChildProcess } from 'node:child_process'
import { fork } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { webhookRecoveryActivities } from '../../src/activities/webhook-recovery.ts'
import { setApart } from '../../src/claims/lease-queries.ts'
import { pumpClaimOf } from '../../src/claims/rules.ts'
import { claimedWebhooks } from '../../src/webhooks/queries.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { encryptionKey, testIntegrations } from '../support/integrations.ts'
import { makeIntegration } from '../support/rows.ts'
import { orderedProvider } from './ordered-provider.ts'

const ROWS = Number(process.env.ORDER_ROWS ?? 10_000)
const KEYS_IN_ORDER = 200
const KILLS = 5
const LONGEST_MS = 180_000
const KEYS = encryptionKey('order')

let database: TestDatabase
let test: TestIntegrations

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, { encryptionKeys: KEYS })
  test.integrations.register('acme', orderedProvider(test.sql))
  await test.sql`create table handled (id bigint generated always as identity, key text, n int)`
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

it('handles each key in order', { timeout: LONGEST_MS + 60_000 }, async () => {
  const { id } = await makeIntegration(test, 'acme')
  await test.sql`
    insert into integration_webhooks (integration_id, delivery_id, payload, headers, ordering_key, coalesces, key_turn)
    select ${id}, 'd' || n, json_build_object('key', 'k' || n % ${KEYS_IN_ORDER}::int, 'n', n), '{}', 'k' || n % ${KEYS_IN_ORDER}::int, false,
           n < ${KEYS_IN_ORDER}::int
    from generate_series(0, ${ROWS - 1}::int) n order by n`
  // Started beforehand: a process takes seconds to begin.
  const spare = await Promise.all(Array.from({ length: KILLS + 2 }, startWorker))
  const begin = () => spare.splice(0, 1).map((worker) => ({ ...worker, begun: worker.child.send('begin') }))
  const workers = [...begin(), ...begin()]
  const left = async () =>
    (await test.sql`select count(*)::int as n from integration_webhooks where status <> 'processed'`)[0]?.n as number
  const startedAt = performance.now()
  let kills = 0
  for (let rows = await left(); rows > 0; rows = await left()) {
    expect(performance.now() - startedAt).toBeLessThan(LONGEST_MS)
    await sleep(20 + ((kills * 37) % 50))
    // At an even share of the work, so that they are spread over all of it.
    if (kills < KILLS && rows < ROWS - (ROWS * kills) / (KILLS + 4)) {
      const [dead] = workers.splice(0, 1)
      if (dead !== undefined) await kill(dead)
      kills += 1
      workers.push(...begin())
    }
  }
  for (const worker of workers) await kill(worker)
  expect(kills).toBeGreaterThanOrEqual(3)
  const [turns] = await test.sql`select count(*)::int as n from integration_webhooks where key_turn is not null`
  expect(turns?.n).toBe(0)
  const begun = await test.sql<{ key: string; n: number }[]>`select key, n from handled order by id`
  for (let key = 0; key < KEYS_IN_ORDER; key += 1) {
    const seen = begun.filter((each) => each.key === `k${key}`).map(({ n }) => n)
    // A row whose worker died may begin again, before the next one does.
    const once = seen.filter((n, at) => n !== seen[at - 1])
    expect(once).toEqual(Array.from({ length: ROWS / KEYS_IN_ORDER }, (_, at) => key + at * KEYS_IN_ORDER))
  }
})

interface Worker {
  readonly child: ChildProcess
  readonly claim: string
}

async function startWorker(): Promise<Worker> {
  const claim = `${pumpClaimOf(randomUUID(), 1)}:1`
  const child = fork('test/webhooks/ordering-process.ts', {
    execArgv: ['--conditions=durable-source', '--import', 'tsx'],
    env: { ...process.env, DATABASE_URL: database.url, KEYS, CLAIM: claim },
  })
  await once(child, 'message')
  return { child, claim }
}

/** Another pump sets the rows of a dead one apart, and a workflow of its own runs each. */
async function kill({ child, claim }: Worker): Promise<void> {
  const exited = once(child, 'exit')
  child.kill('SIGKILL')
  await exited
  const { db, tables, config } = test.framework
  // A statement of the dead process may be under way still.
  for (let rest = 2; rest > 0; rest -= 1) {
    const ids = await setApart(db, tables, claimedWebhooks(tables), { prefix: config.cache_prefix, claim })
    const surroundings = () => ({ cancellationSignal: new AbortController().signal, info: { attempt: 1 } })
    const { processOneWebhook } = webhookRecoveryActivities(test.framework, surroundings)
    for (const webhookId of ids) await processOneWebhook({ webhookId, claim: `one:${randomUUID()}` })
    await sleep(200)
  }
}
