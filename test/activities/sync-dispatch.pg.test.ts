/** Who is due, how fast the due ones are started, and what becomes of those that can't be. */
import fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { syncActivities } from '../../src/activities/sync-activities.ts'
import type { LogRow } from '../../src/db/schema/tables.ts'
import { BackendUnreachable } from '../../src/framework/errors.ts'
import type { Pace } from '../../src/syncs/dispatch.ts'
import { isDispatchFull } from '../../src/syncs/dispatch.ts'
import { dueIntegrations, dueRule, overdueIntegrations } from '../../src/syncs/due.ts'
import { dueFrom } from '../model/due-sync.ts'
import { runActivity } from '../support/activities.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { occasion, testIntegrations } from '../support/integrations.ts'
import { incrementalProvider, syncProvider } from '../support/providers.ts'
import { makeIntegration, makeRun, setIntegration } from '../support/rows.ts'

const INTERVAL_MINUTES = 10
/** Of the provider `acme`, while a test has it throw. */
let broken: Error | null = null

let database: TestDatabase
let test: TestIntegrations

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, {
    providers: {
      acme: syncProvider(() => {}, {
        defaultSyncInterval: () => {
          if (broken !== null) throw broken
          return INTERVAL_MINUTES
        },
      }),
      incremental: incrementalProvider(
        () => {},
        () => {},
      ),
      'by-hand': syncProvider(() => {}, { defaultSyncInterval: () => null }),
      unscheduled: {},
      crm: {
        defaultRateLimit: () => null,
        streams: { contacts: { sync: async () => {}, reduceCheckpoints: () => null, everySeconds: 600 } },
      },
    },
    config: { health: { degraded_backoff: 2, failing_backoff: 10 } },
  })
})

afterAll(async () => {
  await test?.close()
  await database?.drop()
})

beforeEach(async () => {
  await test.sql`delete from integrations`
  test.starts.syncs.length = 0
  test.starts.running.clear()
  test.lines.length = 0
  broken = null
})

const minutesAgo = (minutes: number): Date => new Date(Date.now() - minutes * 60_000)
const ids = async (): Promise<number[]> => {
  const { db, tables } = test.framework
  return (await dueIntegrations(db, tables, dueRule(test.framework), 1_000)).map(({ id }) => id)
}

/** A clock that only moves when somebody sleeps by it. */
function fakePace(): Pace & { readonly slept: () => number } {
  let now = 0
  return {
    now: () => now,
    async sleep(ms) {
      now += ms
    },
    slept: () => now,
  }
}

function startDue(pace: Pace = fakePace(), onStart?: (cancel: () => void) => void) {
  const { startDueSyncs } = syncActivities(test.framework, undefined, pace)
  return runActivity<void, Awaited<ReturnType<typeof startDueSyncs>>>(
    startDueSyncs,
    undefined,
    onStart === undefined ? {} : { onStart },
  )
}

async function manyDue(count: number): Promise<number[]> {
  const rows = await test.sql<{ id: string }[]>`
    insert into integrations (provider, name, credentials, next_sync_at)
    select 'acme', 'due', 'sealed', now() - make_interval(mins => 1000 - n) from generate_series(1, ${count}) n
    returning id`
  return rows.map(({ id }) => Number(id))
}

describe('an integration is due', () => {
  it.each([
    ['that was never planned', 'acme', { nextSyncAt: null }, true],
    ['whose time has just come', 'acme', { nextSyncAt: minutesAgo(0.02) }, true],
    ['whose time comes in a minute', 'acme', { nextSyncAt: minutesAgo(-1) }, false],
    ['that is switched off', 'acme', { nextSyncAt: null, isActive: false }, false],
    ['that its health disabled', 'acme', { nextSyncAt: null, healthStatus: 'disabled' as const }, false],
    ['of an unregistered provider', 'acme', { nextSyncAt: null, provider: 'gone' }, false],
    ['of a provider without sync()', 'unscheduled', { nextSyncAt: null }, false],
    ['of a provider without an interval', 'by-hand', { nextSyncAt: null }, false],
    ['of such a one, with an interval of its own', 'by-hand', { nextSyncAt: null, syncIntervalMinutes: 5 }, true],
    ['of an incremental provider', 'incremental', { nextSyncAt: null }, true],
  ])('or not: one %s', async (_, provider, values, isDue) => {
    const { id } = await makeIntegration(test, provider)
    await setIntegration(test, id, values)
    const count = isDue ? 1 : 0
    expect(await startDue()).toEqual({ due: count, started: count, alreadyRunning: 0 })
    expect(test.starts.syncs).toEqual(isDue ? [id] : [])
  })

  it('never of an unregistered provider: that is one warning in a process for each, however often it is dispatched', async () => {
    const made = [await makeIntegration(test, 'acme'), await makeIntegration(test, 'acme')]
    for (const { id } of made) await setIntegration(test, id, { provider: 'lost' })
    const off = await makeIntegration(test, 'acme')
    await setIntegration(test, off.id, { provider: 'switched-off', isActive: false })
    await startDue()
    await startDue()
    const warned = test.lines.filter(({ fields }) => fields.event === 'providers.unregistered')
    expect(warned.map(({ level, fields }) => [level, fields.provider, fields.integrations])).toEqual([
      ['warn', 'lost', 2],
    ])
  })

  it('first when it was never planned, then the longest overdue', async () => {
    const made: number[] = []
    for (const nextSyncAt of [minutesAgo(5), minutesAgo(50), null, minutesAgo(20), null]) {
      const { id } = await makeIntegration(test, 'acme')
      await setIntegration(test, id, { nextSyncAt })
      made.push(id)
    }
    await startDue()
    expect(test.starts.syncs.map((id) => made.indexOf(id))).toEqual([2, 4, 1, 3, 0])
  })

  it('behind a thousand that run by hand only', async () => {
    await test.sql`
      insert into integrations (provider, name, credentials)
      select 'by-hand', 'by hand', 'sealed' from generate_series(1, 1001)`
    const { id } = await makeIntegration(test, 'acme')
    await startDue()
    expect(test.starts.syncs).toEqual([id])
  })

  it('behind a thousand that wait for their health', async () => {
    await test.sql`
      insert into integrations (provider, name, credentials, health_status, last_synced_at, next_sync_at)
      select 'acme', 'ill', 'sealed', 'failing', now() - interval '20 minutes', now() - interval '10 minutes'
      from generate_series(1, 1001)`
    const { id } = await makeIntegration(test, 'acme')
    await setIntegration(test, id, { nextSyncAt: minutesAgo(1) })
    await startDue()
    expect(test.starts.syncs).toEqual([id])
  })

  it('by an interval of its own while its provider’s default interval throws, and the others as ever', async () => {
    broken = new Error('no interval today')
    const own = await makeIntegration(test, 'incremental')
    const other = await makeIntegration(test, 'incremental')
    const without = await makeIntegration(test, 'incremental')
    await setIntegration(test, own.id, { provider: 'acme', syncIntervalMinutes: 5 })
    await setIntegration(test, without.id, { provider: 'acme' })
    await startDue()
    expect(test.starts.syncs).toEqual([own.id, other.id])
    expect(test.lines).toContainEqual(
      expect.objectContaining({ level: 'error', fields: expect.objectContaining({ provider: 'acme' }) }),
    )
  })
})

describe('waiting for health', () => {
  async function integrationThat(
    values: Parameters<typeof setIntegration>[2],
    ...runs: Partial<LogRow>[]
  ): Promise<number> {
    const { id } = await makeIntegration(test, 'acme')
    await setIntegration(test, id, { nextSyncAt: minutesAgo(1), ...values })
    for (const run of runs) await makeRun(test, id, {}, run)
    return id
  }
  const ended = (endedMinutesAgo: number, status = 'failed'): Partial<LogRow> => ({
    status,
    createdAt: minutesAgo(endedMinutesAgo + 60),
    durationMs: 3_600_000,
  })

  it.each([
    ['degraded', 19, 21],
    ['failing', 99, 101],
  ] as const)('of a %s one takes that many intervals since its last clean run', async (healthStatus, early, late) => {
    await integrationThat({ healthStatus, lastSyncedAt: minutesAgo(early) })
    const due = await integrationThat({ healthStatus, lastSyncedAt: minutesAgo(late) })
    expect(await ids()).toEqual([due])
  })

  it.each(['success', 'partial', 'failed'])('counts from the end of a later run that ended as %s', async (status) => {
    const healthStatus = 'degraded'
    await integrationThat({ healthStatus, lastSyncedAt: minutesAgo(500) }, ended(19, status))
    const due = await integrationThat({ healthStatus, lastSyncedAt: minutesAgo(500) }, ended(21, status))
    expect(await ids()).toEqual([due])
  })

  it('does not count from a cancelled run, one under way, a backfill, or a run before the last', async () => {
    const runs = [
      ended(5, 'cancelled'),
      { status: 'processing', createdAt: minutesAgo(5) },
      { ...ended(5), operation: 'backfill' },
    ]
    const due = await integrationThat({ healthStatus: 'degraded' }, ended(30), ...runs)
    expect(await ids()).toEqual([due])
  })

  it('counts from the last change of a log that was closed by hand', async () => {
    const closed = (at: number) => ({ status: 'failed', createdAt: minutesAgo(500), updatedAt: minutesAgo(at) })
    await integrationThat({ healthStatus: 'degraded' }, closed(19))
    const due = await integrationThat({ healthStatus: 'degraded' }, closed(21))
    expect(await ids()).toEqual([due])
  })

  it('counts from the last change of a run that took longer than its log can say', async () => {
    const long = (at: number) => ({
      status: 'failed',
      createdAt: minutesAgo(400 * 24 * 60),
      updatedAt: minutesAgo(at),
      durationMs: 2_147_483_647,
    })
    await integrationThat({ healthStatus: 'degraded' }, long(19))
    const due = await integrationThat({ healthStatus: 'degraded' }, long(21))
    expect(await ids()).toEqual([due])
  })

  it('of the longest interval by the largest factor is no reason to start nobody', async () => {
    const syncIntervalMinutes = 2_147_483_647
    await integrationThat({ healthStatus: 'failing', lastSyncedAt: minutesAgo(500), syncIntervalMinutes }, ended(500))
    const due = await integrationThat({})
    const { db, tables } = test.framework
    const rule = { ...dueRule(test.framework), backoff: { degraded: 2_147_483_647, failing: 2_147_483_647 } }
    expect((await dueIntegrations(db, tables, rule, 10)).map(({ id }) => id)).toEqual([due])
    expect(await overdueIntegrations(db, tables, rule, { seconds: 1, limit: 10 })).toMatchObject([{ id: due }])
  })

  it('is none before the first run', async () => {
    const due = await integrationThat({ healthStatus: 'failing', nextSyncAt: null })
    expect(await ids()).toEqual([due])
  })

  it('does not shorten the failure backoff', async () => {
    await integrationThat({ healthStatus: 'degraded', lastSyncedAt: minutesAgo(500), nextSyncAt: minutesAgo(-1) })
    expect(await ids()).toEqual([])
  })

  it('does not let an integration count as overdue', async () => {
    const { db, tables } = test.framework
    const overdue = () => overdueIntegrations(db, tables, dueRule(test.framework), { seconds: 300, limit: 10 })
    const health = { healthStatus: 'degraded', nextSyncAt: minutesAgo(60) } as const
    await integrationThat({ ...health, lastSyncedAt: minutesAgo(24) })
    expect(await overdue()).toEqual([])
    const lastSyncedAt = minutesAgo(26)
    const id = await integrationThat({ ...health, lastSyncedAt })
    expect(await overdue()).toEqual([{ id, stream: null, dueSince: new Date(lastSyncedAt.getTime() + 20 * 60_000) }])
  })
})

it('the statement finds what the rule in code finds', async () => {
  const rule = dueRule(test.framework)
  const { db, tables } = test.framework
  const providers = ['acme', 'incremental', 'by-hand', 'unscheduled', 'gone'] as const
  // Away from the edges, so that the time between writing and asking decides nothing.
  const minutes = fc.option(fc.integer({ min: -5, max: 30 }).map((tens) => tens * 10 + 5))
  const row = fc.record({
    provider: fc.constantFrom(...providers),
    isActive: fc.boolean(),
    healthStatus: fc.constantFrom('healthy' as const, 'degraded' as const, 'failing' as const, 'disabled' as const),
    syncIntervalMinutes: fc.option(fc.constantFrom(1, 5, 10, 20)),
    nextSyncAgo: minutes,
    lastSyncedAgo: minutes,
    runs: fc.array(
      fc.record({
        status: fc.constantFrom('success', 'partial', 'failed', 'cancelled', 'processing'),
        endedAgo: fc.integer({ min: 0, max: 30 }).map((tens) => tens * 10 + 5),
      }),
      { maxLength: 3 },
    ),
  })
  await fc.assert(
    fc.asyncProperty(fc.array(row, { minLength: 40, maxLength: 80 }), async (rows) => {
      await test.sql`delete from integrations`
      const ago = (minutesSince: number | null) => (minutesSince === null ? null : minutesAgo(minutesSince))
      const plans = rows.map(({ nextSyncAgo, lastSyncedAgo, runs, ...values }) => ({
        ...values,
        nextSyncAt: ago(nextSyncAgo),
        lastSyncedAt: ago(lastSyncedAgo),
        runs: runs.map(({ status, endedAgo }) => ({ status, endedAt: minutesAgo(endedAgo) })),
      }))
      const inserted = await db
        .insert(tables.integrations)
        .values(plans.map(({ runs: _, ...values }) => ({ ...values, name: 'any', credentials: 'sealed' })))
        .returning({ id: tables.integrations.id })
      const logs = plans.flatMap(({ runs }, index) =>
        runs.map(({ status, endedAt }) => ({
          integrationId: inserted[index]?.id as number,
          operation: 'sync',
          direction: 'inbound' as const,
          status,
          createdAt: new Date(endedAt.getTime() - 1_000),
          durationMs: 1_000,
        })),
      )
      if (logs.length > 0) await db.insert(tables.logs).values(logs)

      const now = new Date()
      const expected = plans.flatMap(({ runs, provider, healthStatus, ...plan }, index) => {
        const finalised = runs.filter(({ status }) => ['success', 'partial', 'failed'].includes(status))
        const known = rule.intervals.has(provider)
        const from = dueFrom(
          {
            ...plan,
            health: healthStatus,
            intervalMinutes: known ? plan.syncIntervalMinutes : null,
            defaultIntervalMinutes: rule.intervals.get(provider) ?? null,
            lastRunEndedAt: finalised.at(-1)?.endedAt ?? null,
          },
          rule.backoff,
        )
        const at = plan.nextSyncAt?.getTime() ?? Number.NEGATIVE_INFINITY
        return from !== null && from <= now ? [{ id: inserted[index]?.id as number, at }] : []
      })
      expected.sort((one, other) => (one.at === other.at ? one.id - other.id : one.at - other.at))
      expect(await ids()).toEqual(expected.map(({ id }) => id))
    }),
    { numRuns: 25 },
  )
})

describe('starting', () => {
  it('counts a run that lives as already running', async () => {
    const [first, second] = await manyDue(2)
    test.starts.running.add(second as number)
    expect(await startDue()).toEqual({ due: 2, started: 1, alreadyRunning: 1 })
    expect(test.starts.syncs).toEqual([first, second])
  })

  it('is done for a thousand in one dispatch, in order', async () => {
    await test.framework.cache.delete('dispatch-full')
    const made = await manyDue(1_001)
    expect(await startDue()).toEqual({ due: 1_000, started: 1_000, alreadyRunning: 0 })
    expect(test.starts.syncs).toEqual(made.slice(0, 1_000))
    expect(await isDispatchFull(test.framework)).toBe(false)
  })

  it('reaches those behind three thousand that have a run already, and waits for none of these', async () => {
    const last = await manyDue(1)
    const before = await test.sql<{ id: string }[]>`
      insert into integrations (provider, name, credentials, next_sync_at)
      select 'acme', 'runs', 'sealed', case when n % 3 > 0 then now() - make_interval(days => n % 7 + 2) end
      from generate_series(1, 3100) n
      returning id`
    for (const { id } of before) test.starts.running.add(Number(id))
    // Whoever sleeps is woken by the answer to the question before, or never.
    let asleep = 0
    const pace: Pace = {
      now: () => 0,
      sleep: () => {
        asleep += 1
        return new Promise(() => {})
      },
    }
    expect(await startDue(pace)).toEqual({ due: 3_101, started: 1, alreadyRunning: 3_100 })
    expect(test.starts.syncs.slice(-1)).toEqual(last)
    expect(new Set(test.starts.syncs).size).toBe(3_101)
    expect(asleep).toBeLessThanOrEqual(3_101)
  })

  it('is done in the order of their times for streams, too: 2,500 integrations with one sync leave them their turn', async () => {
    const [early, late, never] = [
      await makeIntegration(test, 'crm'),
      await makeIntegration(test, 'crm'),
      await makeIntegration(test, 'crm'),
    ]
    await test.sql`insert into integration_streams (integration_id, stream, next_sync_at)
      values (${early.id}, 'contacts', ${minutesAgo(50)}), (${late.id}, 'contacts', ${minutesAgo(0.5)})`
    await test.sql`
      insert into integrations (provider, name, credentials, next_sync_at)
      select 'acme', 'due', 'sealed', now() - interval '1 minute' from generate_series(1, 2500) n`
    expect(await startDue()).toMatchObject({ started: 2_500 })
    expect(test.starts.syncs.slice(0, 2)).toEqual([never.id, early.id])
    expect(test.starts.syncs).not.toContain(late.id)
  })

  it('is done for 2,500 at most; those that have a run are none of them', async () => {
    const running = (await manyDue(4)).slice(0, 2)
    for (const id of running) test.starts.running.add(id)
    await test.sql`
      insert into integrations (provider, name, credentials, next_sync_at)
      select 'acme', 'due', 'sealed', now() - interval '1 minute' from generate_series(1, 3100) n`
    expect(await startDue()).toMatchObject({ started: 2_500, alreadyRunning: 2 })
    expect(new Set(test.starts.syncs.filter((id) => !running.includes(id))).size).toBe(2_500)
  })

  it('that has tried all 2,500, one of them in vain, is full: the doctor takes none of the others for forgotten', async () => {
    const [refused] = await manyDue(1)
    await test.sql`
      insert into integrations (provider, name, credentials, next_sync_at)
      select 'acme', 'due', 'sealed', now() - interval '1 minute' from generate_series(1, 2600) n`
    await test.framework.cache.delete('dispatch-full')
    const start = async (id: number) => {
      if (id === refused) throw new Error('the task queue has a name that is too long')
      return { runId: 'a-run' }
    }
    expect(await withStarts(start, () => startDue())).toMatchObject({ started: 2_499 })
    expect(await isDispatchFull(test.framework)).toBe(true)
  })

  it('is given up after five minutes among those that have a run, and says so', async () => {
    await test.sql`
      insert into integrations (provider, name, credentials)
      select 'acme', 'runs', 'sealed' from generate_series(1, 1001) n`
    let now = 0
    const dispatch = withStarts(
      async () => {
        now += 301
        return 'already running'
      },
      () => startDue({ now: () => now, sleep: async () => {} }),
    )
    expect(await dispatch).toEqual({ due: 1_000, started: 0, alreadyRunning: 1_000 })
    expect(test.lines.map(({ fields }) => fields.event)).toContain('sync.dispatch_cut_short')
  })

  it('keeps its pace when answers come before it is time for the next one, beside runs that live', async () => {
    const made = await manyDue(300)
    let now = 0
    // It moves once whatever was asked before is answered.
    const pace: Pace = {
      now: () => now,
      async sleep(ms) {
        const until = now + ms
        await new Promise((turn) => setImmediate(turn))
        now = Math.max(now, until)
      },
    }
    const at: number[] = []
    await withStarts(
      async (id) => {
        if (made.indexOf(id) % 3 > 0) return 'already running'
        at.push(now)
        return { runId: 'a-run' }
      },
      () => startDue(pace),
    )
    expect(at).toHaveLength(100)
    expect(at.slice(1).map((moment, index) => moment - (at[index] as number))).toEqual(Array(99).fill(20))
  })

  it('is done 50 times a second at most, and not slower', async () => {
    await manyDue(200)
    const pace = fakePace()
    const at: number[] = []
    await withStarts(
      async () => {
        at.push(pace.now())
        return { runId: 'a-run' }
      },
      () => startDue(pace),
    )
    for (let first = 0; first + 50 < at.length; first += 1)
      expect((at[first + 50] as number) - (at[first] as number)).toBeGreaterThanOrEqual(1_000)
    expect(pace.slept()).toBe(199 * 20)
  })

  it('does not wait for a slow answer before the next one, but for ten of them', async () => {
    await manyDue(20)
    const [ten, answer] = [occasion(), occasion()]
    let begun = 0
    const dispatch = withStarts(
      async () => {
        begun += 1
        if (begun === 10) ten.happen()
        await answer.happened
        return { runId: 'a-run' }
      },
      () => startDue(),
    )
    await ten.happened
    await new Promise((turn) => setImmediate(turn))
    expect(begun).toBe(10)
    answer.happen()
    expect(await dispatch).toMatchObject({ started: 20 })
  })

  it('ends with the error when Temporal can’t be reached, and begins no more', async () => {
    const made = await manyDue(40)
    const asked: number[] = []
    const dispatch = withStarts(
      async (id) => {
        asked.push(id)
        if (id === made[2]) throw new BackendUnreachable('Temporal', 'temporal.example:7233', { remedy: 'Check it.' })
        return { runId: 'a-run' }
      },
      () => startDue(),
    )
    await expect(dispatch).rejects.toMatchObject({ type: 'backend_unreachable', nonRetryable: false })
    expect(asked.length).toBeLessThan(made.length)
    expect(asked.slice(0, 3)).toEqual(made.slice(0, 3))
  })

  it('goes on with the others when one is refused, and says so', async () => {
    const made = await manyDue(3)
    const counts = await withStarts(
      async (id) => {
        if (id === made[1]) throw new Error('the task queue has a name that is too long')
        return { runId: 'a-run' }
      },
      () => startDue(),
    )
    expect(counts).toEqual({ due: 3, started: 2, alreadyRunning: 0 })
    expect(test.lines).toContainEqual(
      expect.objectContaining({
        level: 'error',
        fields: expect.objectContaining({
          event: 'sync.start_refused',
          integration: made[1],
          error: expect.stringContaining('too long'),
        }),
      }),
    )
  })

  it('ends when the worker stops', async () => {
    await manyDue(40)
    let stop: () => void = () => {}
    let begun = 0
    const dispatch = withStarts(
      async () => {
        begun += 1
        if (begun === 3) stop()
        return { runId: 'a-run' }
      },
      () =>
        startDue(fakePace(), (cancel) => {
          stop = cancel
        }),
    )
    await expect(dispatch).rejects.toThrow(/cancelled/i)
    expect(begun).toBeLessThan(40)
  })
})

/** What Temporal answers to each start, for as long as `play` lasts. */
async function withStarts<T>(
  startSync: TestIntegrations['framework']['workflows']['startSync'],
  play: () => Promise<T>,
): Promise<T> {
  const { workflows } = test.framework
  const before = workflows.startSync
  Object.assign(workflows, { startSync })
  try {
    return await play()
  } finally {
    Object.assign(workflows, { startSync: before })
  }
}
