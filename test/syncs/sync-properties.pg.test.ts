/**
 * What must hold under any order of events: the cursor never passes an item that is not done, never goes back by itself,
 * and each run is finalised and announced once.
 *
 * Each example is one integration in the life of random commands. The steps are the real activities and operations; the
 * model knows only what the provider has, and who lives.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { ItemBatch } from '../../src/activities/item-activities.ts'
import { syncItemActivities } from '../../src/activities/item-activities.ts'
import { syncActivities } from '../../src/activities/sync-activities.ts'
import { claimOf } from '../../src/claims/rules.ts'
import type { SyncResult } from '../../src/events/events.ts'
import { RateLimitExceededException } from '../../src/framework/errors.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { SyncSession } from '../../src/providers/sync-session.ts'
import { advanceCursor, finaliseOneRun, setSyncCursor } from '../../src/syncs/by-hand.ts'
import { skipSyncItem } from '../../src/syncs/items/item-acts.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { occasion, testIntegrations } from '../support/integrations.ts'
import { syncProvider, ThingSynced } from '../support/providers.ts'
import { makeIntegration } from '../support/rows.ts'

const EXAMPLES = 20
/** Records at the provider that change; each of the others is there once and has no external id. */
const KEYS = ['a', 'b', 'c', 'd'] as const
/** One in so many changes fails in every run. */
const POISON = 5
const SETTINGS = { item_tries: 2, item_backoff: [1], item_concurrency: 3 }

type Outcome = 'succeed' | 'throw' | 'defer'

type Command =
  /** Records change at the provider, or appear; `null` has no external id. */
  | { readonly do: 'change'; readonly keys: readonly (string | null)[] }
  /** A record is gone at the provider, first of all one whose item is not done: no listing makes up for it. */
  | { readonly do: 'vanish'; readonly at: number }
  | { readonly do: 'open' }
  /** `dies`: the workflow is gone halfway, with a bookmark set. */
  | { readonly do: 'list'; readonly how: 'whole' | 'fails' | 'dies' }
  | { readonly do: 'give up the listing' }
  /** `left`: the batch goes on, but nobody waits for it: its workflow learns of its end later, or never. */
  | { readonly do: 'batch'; readonly limit: number; readonly outcomes: readonly Outcome[]; readonly left: boolean }
  | { readonly do: 'due'; readonly outcomes: readonly Outcome[] }
  /** Whatever was left at work comes to its end. */
  | { readonly do: 'come to an end'; readonly outcome: Outcome }
  /** The workflow is gone; its batches may go on. */
  | { readonly do: 'die' }
  | { readonly do: 'finalise'; readonly times: number; readonly announced: boolean }
  | { readonly do: 'cancel' }
  | { readonly do: 'retry'; readonly at: number; readonly outcome: Outcome; readonly left: boolean }
  | { readonly do: 'skip'; readonly at: number }
  | { readonly do: 'set cursor'; readonly to: number | null; readonly by: 'operator' | 'force' | 'code' }
  | { readonly do: 'finalise late'; readonly at: number }
  | { readonly do: 'advance'; readonly limit: number }

/** What the listeners of one batch, or of one retry, are to do. */
interface Work {
  readonly outcomes: readonly Outcome[]
  /** Null: at once. */
  readonly gate: ReturnType<typeof occasion<Outcome>> | null
  readonly begun: ReturnType<typeof occasion<void>>
  /** A run's own: there every so many an item fails whatever is asked. A retry by hand does what it is told. */
  readonly isOfRun: boolean
}

const works = new AsyncLocalStorage<Work>()

let database: TestDatabase
let test: TestIntegrations
const lives = new Map<number, Life>()

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, {
    providers: {
      acme: syncProvider((session) => lifeOf(session.integration.id).listInto(session), {
        reduceCheckpoints: (checkpoints) => Math.max(...checkpoints.map(Number)),
      }),
    },
    config: { sync: SETTINGS },
  })
  test.integrations.on(ThingSynced, (event) => lifeOf(event.integration.id).handle(event.payload.n))
  test.integrations.on('SyncCompleted', ({ integration, result }) => lifeOf(integration.id).completed(result))
  Object.assign(test.framework.workflows, {
    cancelSync: ({ integrationId }: { integrationId: number }) => lifeOf(integrationId).cancel(),
  })
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

it('the cursor never passes what is not done nor goes back by itself; each run is finalised and announced once', async () => {
  await fc.assert(
    fc.asyncProperty(story(), async (commands) => {
      const life = new Life(await makeIntegration(test, 'acme'))
      lives.set(life.id, life)
      try {
        for (const each of commands) await life.live(each)
        await life.end()
      } finally {
        life.release('succeed')
      }
    }),
    // Shrinking runs hundreds of examples and would outlast the test: the seed and the path lead to the same example.
    { numRuns: EXAMPLES, endOnFailure: true },
  )
})

/** Runs as they go, with steps left out and other things happening in between. */
function story(): fc.Arbitrary<Command[]> {
  const chapter = fc
    .tuple(
      sometimes(change(), 0.8),
      sometimes(fc.constant<Command>({ do: 'open' }), 0.95),
      sometimes(listing(), 0.95),
      sometimes(batch(), 0.95),
      sometimes(batch(), 0.5),
      sometimes(due(), 0.8),
      sometimes(finalise(), 0.9),
    )
    .map((steps) => steps.flat())
  return fc.array(chapter, { minLength: 3, maxLength: 6, size: 'max' }).map((chapters) => chapters.flat())
}

/** The step, something else before it, or nothing. */
function sometimes(step: fc.Arbitrary<Command>, share: number): fc.Arbitrary<Command[]> {
  const of100 = fc.nat(99)
  return fc.tuple(of100, step, of100, intrusion()).map(([a, own, b, other]) => {
    const steps = a < share * 100 ? [own] : []
    return b < 35 ? [other, ...steps] : steps
  })
}

const outcome = () => fc.constantFrom<Outcome>('succeed', 'succeed', 'succeed', 'succeed', 'throw', 'throw', 'defer')
const outcomes = () => fc.array(outcome(), { minLength: 1, maxLength: 4 })

function change(): fc.Arbitrary<Command> {
  return fc.record({
    do: fc.constant('change' as const),
    keys: fc.array(fc.constantFrom(...KEYS, null), { minLength: 1, maxLength: 4 }),
  })
}

function listing(): fc.Arbitrary<Command> {
  const hows = ['whole', 'whole', 'whole', 'whole', 'whole', 'fails', 'dies'] as const
  return fc.record({ do: fc.constant('list' as const), how: fc.constantFrom(...hows) })
}

function batch(): fc.Arbitrary<Command> {
  return fc.record({
    do: fc.constant('batch' as const),
    limit: fc.integer({ min: 2, max: 8 }),
    outcomes: outcomes(),
    left: fc.constantFrom(false, false, false, false, true),
  })
}

function due(): fc.Arbitrary<Command> {
  return fc.record({ do: fc.constant('due' as const), outcomes: outcomes() })
}

function finalise(): fc.Arbitrary<Command> {
  return fc.record({
    do: fc.constant('finalise' as const),
    times: fc.integer({ min: 1, max: 3 }),
    announced: fc.boolean(),
  })
}

function intrusion(): fc.Arbitrary<Command> {
  const at = fc.nat(20)
  const cursor = fc.record({
    do: fc.constant('set cursor' as const),
    to: fc.option(fc.nat(10)),
    by: fc.constantFrom('operator' as const, 'force' as const, 'code' as const),
  })
  return fc.oneof<fc.WeightedArbitrary<Command>[]>(
    {
      weight: 4,
      arbitrary: fc.record({ do: fc.constant('retry' as const), at, outcome: outcome(), left: fc.boolean() }),
    },
    { weight: 4, arbitrary: fc.record({ do: fc.constant('skip' as const), at }) },
    { weight: 4, arbitrary: fc.record({ do: fc.constant('finalise late' as const), at }) },
    { weight: 3, arbitrary: fc.record({ do: fc.constant('come to an end' as const), outcome: outcome() }) },
    {
      weight: 2,
      arbitrary: fc.record({ do: fc.constant('advance' as const), limit: fc.integer({ min: 1, max: 10 }) }),
    },
    { weight: 2, arbitrary: fc.constant({ do: 'die' as const }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('vanish' as const), at }) },
    { weight: 1, arbitrary: fc.constant({ do: 'cancel' as const }) },
    { weight: 1, arbitrary: fc.constant({ do: 'give up the listing' as const }) },
    { weight: 1, arbitrary: cursor },
    { weight: 2, arbitrary: change() },
    { weight: 1, arbitrary: finalise() },
  )
}

interface Run {
  readonly syncLogId: number
  readonly runId: string
  listings: number
  batches: number
  waiting: number[]
}

interface Row {
  readonly id: number
  readonly log: number
  readonly external: string | null
  readonly checkpoint: number
  readonly status: string
}

interface Log {
  readonly id: number
  readonly status: string
  readonly enumerated: boolean
  readonly isFinalised: boolean
  readonly cursorAfter: number | null | undefined
}

interface State {
  readonly cursor: number | null
  readonly failures: number
  readonly rows: readonly Row[]
  readonly logs: readonly Log[]
  /** The log row of the last change of the cursor from outside; 0: none. */
  readonly setAt: number
}

/** One integration: what its provider has, which workflows live, and what was seen of it last. */
class Life {
  readonly id: number
  /** `SyncCompleted`, by the run's log. */
  readonly #told = new Map<number, number>()
  readonly #integration: Integration
  /** Of each record its latest change; what has no external id is its own key. */
  readonly #records = new Map<string, { external: string | null; version: number }>()
  #versions = 0
  #run: Run | null = null
  #runs = 0
  #retries = 0
  #listing: 'whole' | 'fails' | 'dies' = 'whole'
  /** At work with nobody who waits for it. */
  #left: { readonly gate: ReturnType<typeof occasion<Outcome>>; readonly done: Promise<unknown> }[] = []
  /** Items whose retry lives, or died between two attempts. */
  readonly #retried = new Map<number, 'lives' | 'died'>()
  /** The highest version that somebody setting the cursor has answered for. */
  #answeredFor = 0
  #seen: State = { cursor: null, failures: 0, rows: [], logs: [], setAt: 0 }
  readonly #items = syncItemActivities(test.framework, () => this.#surroundings())
  readonly #starts = syncActivities(test.framework, () => this.#surroundings())

  constructor(integration: Integration) {
    this.id = integration.id
    this.#integration = integration
  }

  async live(command: Command): Promise<void> {
    await this.#act(command)
    await this.#look(JSON.stringify(command))
  }

  /** Everything that was left comes to its end, and whatever is final is announced. */
  async end(): Promise<void> {
    await this.#comeToAnEnd('succeed')
    for (const { id } of this.#seen.logs) await finaliseOneRun(test.framework, id)
    await this.#look('the end')
    const finalised = this.#seen.logs.filter((log) => log.isFinalised).map(({ id }) => [id, 1])
    expect(
      [...this.#told].sort(([a], [b]) => a - b),
      'SyncCompleted, once for each finalised run',
    ).toEqual(finalised)
  }

  /**
   * The event does not name its run: it is the one that is being announced. Of several at once it is one with these counts,
   * that has been told of the least.
   */
  async completed({ kind, successCount, failureCount, skippedCount }: SyncResult): Promise<void> {
    const rows = await test.sql`
      select id::int from integration_logs
      where integration_id = ${this.id} and operation = 'sync' and status = ${kind}
        and (metadata ->> 'announcing_until')::float8 > 0 and metadata -> 'announced_at' is null
        and metadata -> 'success_count' = to_jsonb(${successCount}::int)
        and metadata -> 'failure_count' = to_jsonb(${failureCount}::int)
        and metadata -> 'skipped_count' = to_jsonb(${skippedCount}::int)`
    const told = (id: number) => this.#told.get(id) ?? 0
    const ids = rows.map((row) => row.id as number).sort((a, b) => told(a) - told(b) || a - b)
    const id = ids[0] ?? 0
    this.#told.set(id, told(id) + 1)
  }

  release(outcome: Outcome): void {
    for (const { gate } of this.#left) gate.happen(outcome)
  }

  async cancel(): Promise<void> {
    const run = this.#run
    if (run === null) return
    await test.activities.cancelSyncRun(this.#idsOf(run))
    this.#died()
  }

  async listInto(session: SyncSession): Promise<void> {
    const cursor = session.cursor() === null ? 0 : Number(session.cursor())
    const changed = [...this.#records.values()].filter(({ version }) => version > cursor)
    const inOrder = changed.sort((a, b) => a.version - b.version)
    for (const [at, { external, version }] of inOrder.entries()) {
      if (this.#listing !== 'whole' && at >= inOrder.length / 2) {
        if (this.#listing === 'dies') await session.bookmark(at)
        throw new Error('the provider is away')
      }
      await session.dispatch(new ThingSynced(session.integration, { n: version }), version, external)
    }
    if (this.#listing !== 'whole') throw new Error('the provider is away')
  }

  async handle(n: number): Promise<void> {
    const { outcomes, gate, begun, isOfRun } = works.getStore() as Work
    begun.happen()
    const told = gate === null ? outcomes[n % outcomes.length] : await gate.happened
    const outcome = isOfRun && n % POISON === 0 ? 'throw' : told
    if (outcome === 'throw') throw new Error(`the listener broke at ${n}`)
    if (outcome === 'defer') throw new RateLimitExceededException(this.#integration, 1, null)
  }

  async #act(command: Command): Promise<void> {
    switch (command.do) {
      case 'change':
        for (const key of command.keys) {
          this.#versions += 1
          this.#records.set(key ?? `#${this.#versions}`, { external: key, version: this.#versions })
        }
        return
      case 'vanish':
        return this.#vanish(command.at)
      case 'open':
        return this.#open()
      case 'list':
        return this.#list(command.how)
      case 'give up the listing':
        if (this.#run === null || this.#logOf(this.#run)?.enumerated === true) return
        await test.activities.failSyncRun({ ...this.#idsOf(this.#run), reason: 'the listing failed' })
        return this.#died()
      case 'batch':
        return this.#batch({ kind: 'pending', limit: command.limit }, command.outcomes, command.left)
      case 'due':
        if (this.#run !== null && this.#run.waiting.length > 0)
          await this.#batch({ kind: 'due', ids: this.#run.waiting.splice(0) }, command.outcomes, false)
        return
      case 'come to an end':
        return this.#comeToAnEnd(command.outcome)
      case 'die':
        return this.#died()
      case 'finalise':
        return this.#finalise(command.times, command.announced)
      case 'cancel':
        return this.cancel()
      case 'retry':
        return this.#retry(command.at, command.outcome, command.left)
      case 'skip': {
        const failed = this.#failedRow(command.at)
        if (failed !== null) await skipSyncItem(test.framework, failed.id)
        return
      }
      case 'set cursor':
        return this.#setCursor(command.to, command.by)
      case 'finalise late': {
        const log = this.#seen.logs[command.at % Math.max(this.#seen.logs.length, 1)]
        if (log !== undefined && log.id !== this.#run?.syncLogId) await finaliseOneRun(test.framework, log.id)
        return
      }
      case 'advance':
        await advanceCursor(test.framework, { integrationId: this.id, limit: command.limit })
    }
  }

  async #open(): Promise<void> {
    // The id of a workflow is its lock.
    if (this.#run !== null) return
    this.#runs += 1
    const runId = `run-${this.id}-${this.#runs}`
    const opened = await this.#starts.openSyncRun({ integrationId: this.id, runId })
    if (opened.kind !== 'open' && opened.kind !== 'adopted') return
    this.#run = { syncLogId: opened.syncLogId, runId, listings: 0, batches: 0, waiting: [] }
    test.starts.running.add(this.id)
    if (opened.kind === 'open') return
    const left = await this.#starts.takeOverSyncRun(this.#idsOf(this.#run))
    this.#run.waiting = left.waiting.map(({ id }) => id)
  }

  async #list(how: 'whole' | 'fails' | 'dies'): Promise<void> {
    const run = this.#run
    if (run === null || this.#logOf(run)?.enumerated === true) return
    run.listings += 1
    this.#listing = how
    await this.#starts.listSyncItems({ ...this.#idsOf(run), attempt: run.listings }).catch((error: Error) => {
      if (!error.message.includes('the provider is away')) throw error
    })
    this.#listing = 'whole'
    if (how === 'dies') this.#died()
  }

  async #batch(take: ItemBatch['take'], outcomes: readonly Outcome[], left: boolean): Promise<void> {
    const run = this.#run
    if (run === null) return
    run.batches += 1
    const claim = claimOf(run.runId, run.batches)
    await this.#work({ outcomes, isOfRun: true }, left, async () => {
      const { waiting } = await this.#items.processSyncItems({ syncLogId: run.syncLogId, claim, take })
      run.waiting.push(...waiting.map(({ id }) => id))
    })
  }

  async #retry(at: number, outcome: Outcome, left: boolean): Promise<void> {
    const item = this.#retryable(at)
    if (item === null) return
    this.#retries += 1
    this.#retried.set(item.id, 'lives')
    test.starts.runningItems.add(item.id)
    const claim = claimOf(`retry-${this.id}-${this.#retries}`, 1)
    await this.#work({ outcomes: [outcome], isOfRun: false }, left, async () => {
      const { waitSeconds } = await this.#items.processOneSyncItem({ itemId: item.id, claim, attempt: 1, tries: 1 })
      // A deferred one waits on, but its workflow dies here and leaves its claim.
      if (waitSeconds === null) this.#retried.delete(item.id)
      else this.#retried.set(item.id, 'died')
      test.starts.runningItems.delete(item.id)
    })
  }

  /** What is left at work is in its listeners, or found nothing to do, when this returns. */
  async #work(told: Pick<Work, 'outcomes' | 'isOfRun'>, left: boolean, work: () => Promise<void>): Promise<void> {
    const begun = occasion<void>()
    if (!left) return works.run({ ...told, gate: null, begun }, work)
    const gate = occasion<Outcome>()
    const done = works.run({ ...told, gate, begun }, work)
    this.#left.push({ gate, done })
    await Promise.race([begun.happened, done])
  }

  async #comeToAnEnd(outcome: Outcome): Promise<void> {
    this.release(outcome)
    await Promise.all(this.#left.splice(0).map(({ done }) => done))
  }

  async #finalise(times: number, announced: boolean): Promise<void> {
    const run = this.#run
    if (run === null) return
    const finalise = () => test.activities.finaliseSyncRun(this.#idsOf(run))
    const [result] = await Promise.all(Array.from({ length: times }, finalise))
    if (result?.kind === 'unfinished')
      run.waiting = [...new Set([...run.waiting, ...result.waiting.map(({ id }) => id)])]
    if (result?.kind !== 'finalised') return
    // Two at once: the second is told to look again, as Temporal's retry would.
    if (announced) await Promise.allSettled([1, 2].map(() => test.activities.announceSyncRun(this.#idsOf(run))))
    this.#died()
  }

  async #setCursor(to: number | null, by: 'operator' | 'force' | 'code'): Promise<void> {
    if (by === 'operator' && this.#run !== null) {
      await expect(setSyncCursor(test.framework, this.id, to)).rejects.toMatchObject({ code: 'integration_busy' })
      return
    }
    if (by === 'code') await this.#integration.updateSyncCursor(to)
    else await setSyncCursor(test.framework, this.id, to, { force: by === 'force' })
    // Whoever sets it answers for what lies before it, and for nothing else any more.
    this.#answeredFor = to ?? 0
    this.#seen = { ...this.#seen, cursor: to }
  }

  #died(): void {
    this.#run = null
    test.starts.running.delete(this.id)
  }

  #idsOf(run: Run): { integrationId: number; syncLogId: number } {
    return { integrationId: this.id, syncLogId: run.syncLogId }
  }

  #logOf(run: Run): Log | undefined {
    return this.#seen.logs.find(({ id }) => id === run.syncLogId)
  }

  #vanish(at: number): void {
    const undone = this.#seen.rows.filter((row) => !isDoneRow(row)).map((row) => row.external ?? `#${row.checkpoint}`)
    const known = [...undone.filter((key) => this.#records.has(key)), ...this.#records.keys()]
    const key = known[undone.length > 0 ? at % undone.length : at % Math.max(known.length, 1)]
    if (key !== undefined) this.#records.delete(key)
  }

  #failedRow(at: number): Row | null {
    const failed = this.#seen.rows.filter(({ status }) => status === 'failed')
    return failed[at % Math.max(failed.length, 1)] ?? null
  }

  #retryable(at: number): Row | null {
    const rows = this.#seen.rows.filter(({ id, status }) =>
      status === 'failed'
        ? this.#retried.get(id) !== 'lives'
        : status === 'processing' && this.#retried.get(id) === 'died',
    )
    return rows[at % Math.max(rows.length, 1)] ?? null
  }

  /** Reads what became of it all, and holds it against what was seen before. */
  async #look(after: string): Promise<void> {
    const before = this.#seen
    const now = await this.#read()
    this.#seen = now
    const said = `after ${after}: ${JSON.stringify(now)}`

    expect(now.cursor ?? 0, `the cursor goes back by itself ${said}`).toBeGreaterThanOrEqual(before.cursor ?? 0)
    for (const { external, version } of this.#records.values())
      if (version <= (now.cursor ?? 0) && version > this.#answeredFor)
        expect(isDone(now.rows, external, version), `the cursor is past change ${version} ${said}`).toBe(true)

    const ended = now.logs.filter((log) => log.status !== 'processing')
    const statusBefore = new Map(before.logs.map((log) => [log.id, log]))
    let failures = before.failures
    for (const log of ended) {
      const known = statusBefore.get(log.id)
      if (known !== undefined && known.status !== 'processing')
        expect(log.status, `run ${log.id} has ended twice ${said}`).toBe(known.status)
      else failures = log.status === 'success' ? 0 : log.status === 'cancelled' ? failures : failures + 1
      if (log.isFinalised) expect(log.enumerated, `run ${log.id} ended before its listing ${said}`).toBe(true)
    }
    expect(now.failures, `the failed runs are counted once ${said}`).toBe(failures)
    const finalised = ended.filter((log) => log.isFinalised).map(({ id }) => id)
    for (const [id, times] of this.#told) {
      expect(
        finalised,
        `SyncCompleted comes for a run that is not finalised, or not being announced: ${id} ${said}`,
      ).toContain(id)
      expect(times, `SyncCompleted comes once for run ${id} ${said}`).toBe(1)
    }

    if ((now.cursor ?? 0) === (before.cursor ?? 0)) return
    const mover = now.logs.find(
      (log) => log.cursorAfter === now.cursor && statusBefore.get(log.id)?.cursorAfter !== now.cursor,
    )
    const passed = now.rows.filter(
      (row) =>
        row.log <= (mover?.id ?? 0) &&
        row.checkpoint <= (now.cursor ?? 0) &&
        !isDoneRow(row) &&
        !now.rows.some((later) => isDoneRow(later) && later.id > row.id && sameItem(later, row)),
    )
    expect(mover?.id ?? 0, `the cursor was moved by a run that began before it was set ${said}`).toBeGreaterThan(
      now.setAt,
    )
    expect(passed, `the cursor is past items that are not done ${said}`).toEqual([])
  }

  async #read(): Promise<State> {
    const [integration] = await test.sql`
      select sync_cursor as cursor, consecutive_sync_failures as failures from integrations where id = ${this.id}`
    const rows = await test.sql`
      select id::int, sync_log_id::int as log, external_id as external, checkpoint_value::text::int as checkpoint, status
      from integration_sync_items where integration_id = ${this.id} order by id`
    const logs = await test.sql`
      select id::int, status, coalesce(metadata -> 'enumerated' = 'true'::jsonb, false) as enumerated,
             metadata -> 'success_count' is not null as "isFinalised", metadata -> 'cursor_after' as "cursorAfter"
      from integration_logs where integration_id = ${this.id} and operation = 'sync' order by id`
    const { cursor, failures } = integration as unknown as { cursor: number | null; failures: number }
    const [set] = await test.sql`
      select coalesce(max(id), 0)::int as id from integration_logs
      where integration_id = ${this.id} and operation = 'cursor'`
    const setAt = set?.id as number
    return { cursor, failures, setAt, rows: [...rows] as unknown as Row[], logs: [...logs] as unknown as Log[] }
  }

  #surroundings() {
    return { cancellationSignal: NEVER, info: { attempt: 1 } }
  }
}

const NEVER = new AbortController().signal

function lifeOf(integrationId: number): Life {
  const life = lives.get(integrationId)
  if (life === undefined) throw new Error(`integration ${integrationId} is of no example`)
  return life
}

function isDoneRow({ status }: Row): boolean {
  return status === 'success' || status === 'skipped'
}

function sameItem(one: Row, other: Row): boolean {
  return one.external !== null && one.external === other.external
}

/** By a row of this very change, or of a later one of the same record. */
function isDone(rows: readonly Row[], external: string | null, version: number): boolean {
  return rows.some(
    (row) =>
      isDoneRow(row) &&
      (row.checkpoint === version || (external !== null && row.external === external && row.checkpoint > version)),
  )
}
