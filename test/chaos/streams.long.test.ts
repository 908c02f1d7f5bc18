/** Ten integrations with five streams each under kill -9 of all that they need: each stream keeps its own promises. */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { ChaosStack } from './chaos-stack.ts'
import { startChaosStack } from './chaos-stack.ts'
import { carryOut, drawKills, seeded, seedOfRun } from './seeded-kills.ts'
import { checkpointOf, POISONED, STREAM_ITEMS, STREAMS } from './sync-plan.ts'
import { SYNC_TARGETS } from './targets.ts'

const INTEGRATIONS = 10
const ENDED_WITHIN_MS = 240_000

let stack: ChaosStack
let ids: number[]

beforeAll(async () => {
  const integration = { provider: 'chaos', name: 'Chaos', credentials: {} }
  stack = await startChaosStack({ hostConfig: new URL('./streams-host.ts', import.meta.url), integration })
  ids = [stack.integrationId]
  while (ids.length < INTEGRATIONS) ids.push((await stack.integrations.create(integration)).id)
  await stack.worker.ready()
})

afterAll(() => stack?.stop())

it('each stream lists, runs and ends once; the poison holds the cursor of its own stream alone', async () => {
  const { integrations, sql } = stack
  const seed = seedOfRun()
  console.log(`CHAOS_SEED=${seed}`)
  for (const id of ids) await integrations.syncs.start(id)
  const kills = drawKills(seeded(seed), { targets: SYNC_TARGETS, each: 2, meanGapMs: 4_000 })
  const story = await carryOut(stack, kills, async (part) => {
    await Promise.all(SYNC_TARGETS.map((target) => stack[target].ready()))
    await part.kill()
  })
  await Promise.all(SYNC_TARGETS.map((target) => stack[target].ready()))
  console.log(`kill -9: ${story.join(', ')}`)
  const wanted = INTEGRATIONS * STREAMS.length
  const giveUpAt = performance.now() + ENDED_WITHIN_MS
  const ended = async (): Promise<number> => {
    const rows = await sql`
      select distinct integration_id, stream from integration_logs
      where operation = 'sync' and status in ('success', 'partial') and metadata ? 'announced_at'`
    return rows.length
  }
  while ((await ended().catch(() => 0)) < wanted && performance.now() < giveUpAt) {
    // A run that was lost before its listing was whole is failed by the next one, which nobody else starts here.
    for (const id of ids) await integrations.syncs.start(id).catch(() => {})
    await sleep(5_000)
  }
  await expect.poll(ended, { timeout: 10_000 }).toBe(wanted)
  for (const id of ids) await integrations.syncs.cancel(id, { forget: true })

  const standing = await sql`
    select integration_id::int as id, stream, sync_cursor as cursor, consecutive_sync_failures > 0 as failing
    from integration_streams order by 1, 2`
  const expected = ids.flatMap((id) =>
    [...STREAMS].sort().map((stream) => {
      const isPoisoned = stream === POISONED
      return { id, stream, cursor: isPoisoned ? null : checkpointOf(STREAM_ITEMS), failing: isPoisoned }
    }),
  )
  expect([...standing]).toEqual(expected)
  const [effects] = await sql`select count(*)::int as count from stream_effects`
  expect(effects?.count).toBe(INTEGRATIONS * (STREAMS.length * STREAM_ITEMS - 1))
  const strayed = await sql`
    select from integration_sync_items i join integration_logs l on l.id = i.sync_log_id
    where i.stream is distinct from l.stream or split_part(i.external_id, '-', 1) <> i.stream`
  expect(strayed).toHaveLength(0)
  const twiceOpen = await sql`
    select from integration_logs where operation = 'sync' and status = 'processing'
    group by integration_id, stream having count(*) > 1`
  expect(twiceOpen).toHaveLength(0)
  const told = await sql`select distinct integration, stream, kind from stream_ends where kind <> 'failed'`
  expect(told.length).toBe(wanted)
  const [again] = await sql`select count(*)::int as runs from stream_runs`
  console.log(
    `${wanted} streams, ${again?.runs} runs of listeners for ${wanted * STREAM_ITEMS} items of the first run of each`,
  )
})
