/** A sync under kills, in the size that a test asks for, and what is done about its poison afterwards. */
import { setTimeout as sleep } from 'node:timers/promises'
import postgres from 'postgres'
import { expect } from 'vitest'
import type { ChaosStack } from './chaos-stack.ts'
import { startChaosStack } from './chaos-stack.ts'
import { diagnosis, SYNC_ITEMS } from './diagnosis.ts'
import { carryOut, drawKills, seeded } from './seeded-kills.ts'
import { readSyncLedger, runEnded } from './sync-ledger.ts'
import type { Plan } from './sync-plan.ts'
import { checkpointOf } from './sync-plan.ts'
import type { SyncTarget } from './targets.ts'
import { SYNC_TARGETS } from './targets.ts'

/** The cursor before the run: not null, so that "it stays" says something; below every checkpoint. */
const CURSOR_BEFORE = checkpointOf(0)
/** So many listeners have begun since the last kill, so that each one meets work of its own. */
const BEGUN_ANEW = 20
/** A dead worker's batch is given to the next one after 20 s. */
const AT_WORK_SECONDS = 60
const POLL_MS = 20
/** Longer than an item waits for its next attempt. */
const AWAY_SECONDS = 10

/** The stack of a plan: its integration carries it, and a cursor from before. */
export async function startSyncStack(plan: Plan): Promise<ChaosStack> {
  const stack = await startChaosStack({
    hostConfig: new URL('./sync-host.ts', import.meta.url),
    integration: { provider: 'chaos', name: 'Chaos', credentials: {}, metadata: { ...plan } },
  })
  try {
    await (await stack.integrations.get(stack.integrationId)).updateSyncCursor(CURSOR_BEFORE)
    await stack.worker.ready()
    return stack
  } catch (error) {
    await stack.stop()
    throw error
  }
}

/** Runs one sync while all that it needs is killed; good items end well, poison ones badly, and the cursor stays. */
export async function killUnderSync(
  stack: ChaosStack,
  {
    seed,
    plan,
    killsEach,
    meanGapMs,
    killsListing = false,
    isWorkerLast = false,
    endedWithinSeconds,
  }: {
    readonly seed: number
    readonly plan: Plan
    readonly killsEach: number
    readonly meanGapMs: number
    /** One more for the worker, in the middle of its listing. */
    readonly killsListing?: boolean
    /** The 20 s after which Temporal gives a dead worker's work to the next one then cover what the other kills have cost. */
    readonly isWorkerLast?: boolean
    /** After the last kill. */
    readonly endedWithinSeconds: number
  },
): Promise<void> {
  console.log(`CHAOS_SEED=${seed}`)
  const drawn = drawKills(seeded(seed), { targets: SYNC_TARGETS, each: killsEach, meanGapMs })
  const kills = isWorkerLast ? drawn.toSorted((a, b) => rankOf(a.target) - rankOf(b.target)) : drawn
  const { integrations, integrationId, sql } = stack
  const startedAt = performance.now()
  expect(await integrations.syncs.start(integrationId)).toMatchObject({ kind: 'started' })
  if (killsListing) {
    await until(stack, 'a listing has stored some', async () => {
      const [row] = await sql`select count(*)::int as count from integration_sync_items`
      return Number(row?.count) > 0
    })
    await stack.worker.kill()
  }
  const story = await carryOut(stack, kills, async (part) => {
    await atWork(stack)
    await part.kill()
  })
  await Promise.all(SYNC_TARGETS.map((target) => stack[target].ready()))
  const lastAt = performance.now()
  console.log(`kill -9: ${story.join(', ')}`)
  await runEnded(stack, endedWithinSeconds)
  const { takenUpAgain, extraRuns, faults } = await readSyncLedger(stack, plan)
  console.log(
    `${plan.items} items, ${takenUpAgain} taken up again, ${extraRuns} extra runs of the listener; ended ` +
      `${secondsSince(lastAt)} s after the last kill, ${secondsSince(startedAt)} s in all`,
  )
  expect(story).toHaveLength(killsEach * SYNC_TARGETS.length)
  expect(faults).toEqual([])
  await expectEndedOnce(stack, plan, CURSOR_BEFORE)
  expect(await cursorOf(stack)).toBe(CURSOR_BEFORE)
  // Else the kills have met nobody at work, and the rest says nothing.
  expect(takenUpAgain).toBeGreaterThan(0)
}

/**
 * What a supervisor does not see: a worker that stands still for longer than Temporal waits for its signs of life, and then
 * goes on with what is no longer its work, in a listing and among items. Temporal away while retries are due. Postgres killed in the
 * middle of the finalisation.
 */
export async function standStill(
  stack: ChaosStack,
  { plan, seconds, endedWithinSeconds }: { plan: Plan; seconds: number; endedWithinSeconds: number },
): Promise<void> {
  const { integrations, integrationId, sql } = stack
  const startedAt = performance.now()
  expect(await integrations.syncs.start(integrationId)).toMatchObject({ kind: 'started' })
  await until(stack, 'a listing has stored some', async () => {
    const [row] = await sql`select count(*)::int as count from integration_sync_items`
    return Number(row?.count) > 0
  })
  await stack.worker.freeze(seconds)
  await atWork(stack)
  await stack.worker.freeze(seconds)
  await atWork(stack)
  const comeBack = await stack.temporal.killAndKeepAway()
  await sleep(AWAY_SECONDS * 1_000)
  await comeBack()

  const holder = postgres(String(process.env.DATABASE_URL), { max: 1, fetch_types: false, onnotice: () => {} })
  for (;;) {
    await holder.unsafe(`begin; select from integrations where id = ${integrationId} for no key update`)
    await until(stack, 'a finalisation waits', async () => (await waitingForLocks(stack)) > 0)
    const open = await sql`select from integration_sync_items where status in ('pending', 'processing')`
    if (open.length === 0) break
    // It is there to find what lost batches have left behind; the last one comes after these.
    await holder.unsafe('rollback')
    await until(stack, 'that finalisation goes on', async () => (await waitingForLocks(stack)) === 0)
  }
  await stack.postgres.kill()
  await holder.end({ timeout: 1 })
  await stack.postgres.ready()
  await runEnded(stack, endedWithinSeconds)
  const { takenUpAgain, extraRuns, faults } = await readSyncLedger(stack, plan)
  console.log(`${takenUpAgain} taken up again, ${extraRuns} extra runs, ${secondsSince(startedAt)} s in all`)
  expect(faults).toEqual([])
  await expectEndedOnce(stack, plan, CURSOR_BEFORE)
  expect(await cursorOf(stack)).toBe(CURSOR_BEFORE)
  expect(takenUpAgain).toBeGreaterThan(0)
}

/** One poison item is given up, the others are cured and run again: the cursor moves with the last of them, and nothing else does. */
export async function resolvePoison(stack: ChaosStack, plan: Plan): Promise<void> {
  const { integrations, integrationId, sql } = stack
  const failed = await integrations.admin.syncItems.failed({ integrationId })
  expect(failed.map((item) => Number(item.externalId)).sort((a, b) => a - b)).toEqual([...plan.poison])
  const [skipped, ...retried] = failed
  if (skipped === undefined) throw new Error('a plan without poison')

  expect(await integrations.admin.syncItems.retry(skipped.id)).toMatchObject({ outcome: 'failed' })
  for (const [index, item] of retried.entries()) {
    await sql`insert into cures (n) values (${Number(item.externalId)})`
    expect(await integrations.admin.syncItems.retry(item.id)).toMatchObject({ outcome: 'success', status: 'success' })
    expect(await cursorOf(stack), `after ${index + 1} of ${retried.length} retries`).toBe(CURSOR_BEFORE)
  }
  expect(await integrations.admin.syncItems.skip(skipped.id)).toMatchObject({ integrationId, cursorMoved: true })
  expect(await cursorOf(stack)).toBe(checkpointOf(plan.items))
  const left = await sql`select from integration_sync_items where status not in ('success', 'skipped')`
  expect(left).toHaveLength(0)
  const effects = await sql`select n from effects`
  expect(effects).toHaveLength(plan.items - 1)
  await expectEndedOnce(stack, plan, checkpointOf(plan.items))
}

/** The worker after the others, which stay as they were drawn. */
function rankOf(target: SyncTarget): number {
  return target === 'worker' ? 1 : 0
}

/**
 * The run's own end: one log, one finalisation, told at least once and always the same.
 *
 * @param cursor as the log has it after the run, and after whatever moved it since
 */
async function expectEndedOnce({ sql, integrationId }: ChaosStack, plan: Plan, cursor: string): Promise<void> {
  const failed = plan.poison.length
  const succeeded = plan.items - failed
  const runs = await sql<{ status: string; metadata: Record<string, unknown> }[]>`
    select status, metadata from integration_logs where operation = 'sync'`
  expect(runs).toHaveLength(1)
  expect(runs[0]).toMatchObject({
    status: 'partial',
    metadata: {
      listed: plan.items,
      success_count: succeeded,
      failure_count: failed,
      cursor_before: CURSOR_BEFORE,
      cursor_after: cursor,
    },
  })
  const [integration] = await sql`
    select consecutive_sync_failures as failures, last_synced_at from integrations where id = ${integrationId}`
  // Each finalisation of a run with failures counts one.
  expect(integration).toMatchObject({ failures: 1, last_synced_at: null })
  const told = await sql`select distinct kind, succeeded, failed from completions`
  expect([...told]).toEqual([{ kind: 'partial', succeeded, failed }])
}

/** Parts are there, and listeners have begun since. */
async function atWork(stack: ChaosStack): Promise<void> {
  await Promise.all(SYNC_TARGETS.map((target) => stack[target].ready()))
  const begun = async (): Promise<number> => {
    const [row] = await stack.sql<{ count: number }[]>`select count(*)::int as count from entry_runs`
    return row?.count ?? 0
  }
  let before: number | null = null
  await until(stack, 'listeners are at work again', async () => {
    const now = await begun()
    before ??= now
    return now - before >= BEGUN_ANEW
  })
}

async function waitingForLocks({ sql }: ChaosStack): Promise<number> {
  const [row] = await sql`select count(*)::int as count from pg_stat_activity where wait_event_type = 'Lock'`
  return Number(row?.count)
}

async function until(stack: ChaosStack, what: string, look: () => Promise<boolean>): Promise<void> {
  const giveUpAt = performance.now() + AT_WORK_SECONDS * 1_000
  while (performance.now() < giveUpAt) {
    // A connection of the time before a kill fails once.
    if (await look().catch(() => false)) return
    await sleep(POLL_MS)
  }
  throw new Error(
    `Within ${AT_WORK_SECONDS} s it did not come to pass that ${what}.\n${await diagnosis(stack, SYNC_ITEMS)}`,
  )
}

async function cursorOf({ sql, integrationId }: ChaosStack): Promise<unknown> {
  const [row] = await sql`select sync_cursor as cursor from integrations where id = ${integrationId}`
  return row?.cursor
}

function secondsSince(from: number): number {
  return Math.round((performance.now() - from) / 100) / 10
}
