/** One batch of a run's items as a worker runs it: claim, listeners, settlement. */

import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { z } from 'zod'
import type { ItemBatch, ItemBatchResult } from '../../src/activities/sync-items.ts'
import { RateLimitExceededException } from '../../src/core/errors.ts'
import { settleItems } from '../../src/db/queries/sync-items.ts'
import type { LogRow } from '../../src/db/schema/tables.ts'
import type { IntegrationEvents } from '../../src/events/events.ts'
import { SyncItemEvent } from '../../src/providers/events.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { runActivity } from '../support/activities.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { listen, occasion, testIntegrations } from '../support/integrations.ts'
import { OtherSynced, syncProvider, ThingSynced, TOKEN } from '../support/providers.ts'
import { itemOf, logsOf, makeIntegration, makeItem, makeRun } from '../support/rows.ts'

const TRIES = 3
const BACKOFF = [10, 30]
const WINDOW_SECONDS = 1_000

/** A class of version 3 that knows how to read versions 1 and 2. */
class Versioned extends SyncItemEvent<{ name: string }> {
  static override readonly type = 'test.versioned'
  static override readonly version = 3
  static override readonly schema = z.object({ name: z.string() })
  static override upgrade(data: unknown, from: number): unknown {
    if (from === 1) throw new Error('version 1 is too old')
    return { name: (data as { title?: unknown }).title }
  }
}
class WithoutUpgrade extends SyncItemEvent<unknown> {
  static override readonly type = 'test.without_upgrade'
  static override readonly version = 2
}
class BaseThing extends SyncItemEvent<unknown> {}
class DerivedThing extends BaseThing {
  static override readonly type = 'test.derived'
}

let database: TestDatabase
let test: TestIntegrations
let integration: Integration
let run: LogRow
let batches = 0

beforeAll(async () => {
  database = await createTestDatabase()
  const classes = [ThingSynced, OtherSynced, Versioned, WithoutUpgrade, DerivedThing]
  test = testIntegrations(database.url, {
    providers: { acme: syncProvider(() => {}, { syncItemEvents: () => classes }) },
    config: {
      sync: {
        item_tries: TRIES,
        item_backoff: BACKOFF,
        item_retry_window: WINDOW_SECONDS,
        item_timeout: 1,
        item_concurrency: 4,
      },
    },
  })
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  integration = await makeIntegration(test, 'acme')
  run = await makeRun(test, integration.id)
})

describe('a claim', () => {
  it('takes pending items of the run by id, up to its limit', async () => {
    const items = [await item(), await item(), await item()]
    expect(await batch({ kind: 'pending', limit: 2 })).toEqual({
      claimed: 2,
      succeeded: 2,
      failed: 0,
      waiting: [],
      deferredSeconds: 0,
    })
    expect(await Promise.all(items.map(statusOf))).toEqual(['success', 'success', 'pending'])
  })

  it('takes nothing before the listing is complete', async () => {
    run = await makeRun(test, integration.id, { enumerated: false })
    const row = await item()
    expect(await batch()).toMatchObject({ claimed: 0 })
    await test.sql`update integration_logs set metadata = metadata || '{"enumerated": true}' where id = ${run.id}`
    expect(await batch()).toMatchObject({ claimed: 1, succeeded: 1 })
    expect(await statusOf(row)).toBe('success')
  })

  it('shares no item with another batch at the same moment', async () => {
    for (let n = 0; n < 40; n += 1) await item()
    const heard = vi.fn()
    listen(test, ThingSynced, heard)
    const take = { kind: 'pending', limit: 25 } as const
    const results = await Promise.all([batch(take), batch(take), batch(take)])
    expect(results.reduce((sum, { claimed }) => sum + claimed, 0)).toBe(40)
    expect(heard).toHaveBeenCalledTimes(40)
  })

  it('of items that are due takes those named that wait, and no other', async () => {
    const waits = await item({ status: 'processing', attempts: 1 })
    const alsoWaits = await item({ status: 'processing', attempts: 1 })
    const held = await item({ status: 'processing', attempts: 1, claim: 'another:1' })
    const done = await item({ status: 'success', attempts: 1 })
    const result = await batch({ kind: 'due', ids: [waits.id, held.id, done.id] })
    expect(result).toMatchObject({ claimed: 1, succeeded: 1 })
    expect(await itemOf(test, waits.id)).toMatchObject({ status: 'success', attempts: 2 })
    expect(await itemOf(test, held.id)).toEqual(held)
    expect(await itemOf(test, alsoWaits.id)).toEqual(alsoWaits)
  })
})

describe('listeners', () => {
  it('get the event with its payload, and the integration as it is now', async () => {
    const heard = vi.fn<(event: ThingSynced) => void>()
    listen(test, ThingSynced, heard)
    await item({ payload: { v: 1, data: { n: 5 } } })
    await test.integrations.update(integration.id, { name: 'renamed' })
    await batch()
    const event = heard.mock.calls[0]?.[0]
    expect(event).toBeInstanceOf(ThingSynced)
    expect([event?.payload, event?.integration.name]).toEqual([{ n: 5 }, 'renamed'])
  })

  it('run one after the other, by order, then by registration; a parent class matches', async () => {
    const order: string[] = []
    const note = (name: string) => async () => {
      order.push(`${name} begins`)
      await test.sql`select 1`
      order.push(`${name} ends`)
    }
    listen(test, DerivedThing, note('second'))
    listen(test, BaseThing as never, note('third'))
    listen(test, DerivedThing, note('first'), { order: -1 })
    await item({ eventClass: 'test.derived' })
    await batch()
    expect(order).toEqual(['first', 'second', 'third'].flatMap((name) => [`${name} begins`, `${name} ends`]))
  })

  it('stop at the first throw; a retry runs all of them again', async () => {
    const [first, third] = [vi.fn(), vi.fn()]
    const second = vi.fn().mockRejectedValueOnce(new Error('not yet'))
    for (const listener of [first, second, third]) listen(test, ThingSynced, listener)
    const { id } = await item()
    await batch()
    expect([first, second, third].map((listener) => listener.mock.calls.length)).toEqual([1, 1, 0])
    await batch({ kind: 'due', ids: [id] })
    expect([first, second, third].map((listener) => listener.mock.calls.length)).toEqual([2, 2, 1])
  })
})

describe('an outcome', () => {
  it('without a listener is success: done, held by nobody, no error, no log line', async () => {
    const row = await item({ error: 'of an attempt before' })
    await batch()
    expect(await itemOf(test, row.id)).toMatchObject({
      status: 'success',
      attempts: 1,
      error: null,
      claim: null,
      completedAt: expect.any(Date),
    })
    expect(await logsOf(test, integration.id, 'sync_item')).toEqual([])
  })

  it.each([
    [1, 10],
    [2, 30],
  ])(
    'of a failed attempt %i is another one in %i s: processing, error null, one log line',
    async (attempt, seconds) => {
      listen(test, ThingSynced, throwing(new TypeError('bad')))
      const row = await item({ status: 'processing', attempts: attempt - 1, externalId: 'x-1' })
      expect(await batch({ kind: 'due', ids: [row.id] })).toMatchObject({
        failed: 0,
        waiting: [{ id: row.id, seconds }],
        deferredSeconds: 0,
      })
      expect(await itemOf(test, row.id)).toMatchObject({
        status: 'processing',
        attempts: attempt,
        claim: null,
        error: null,
        completedAt: null,
      })
      expect(await logsOf(test, integration.id, 'sync_item')).toEqual([
        expect.objectContaining({
          status: 'failed',
          parentId: run.id,
          attempt,
          maxAttempts: TRIES,
          externalId: 'x-1',
          error: 'TypeError: bad',
        }),
      ])
    },
  )

  it('of the last attempt is failed, and SyncItemFailed is told', async () => {
    const told = vi.fn<(event: IntegrationEvents['SyncItemFailed']) => void>()
    listen(test, 'SyncItemFailed', told)
    const error = new TypeError('bad')
    listen(test, ThingSynced, throwing(error))
    const row = await item({ status: 'processing', attempts: TRIES - 1, externalId: 'x', checkpointValue: 'c' })
    expect(await batch({ kind: 'due', ids: [row.id] })).toMatchObject({ failed: 1, waiting: [] })
    expect(await itemOf(test, row.id)).toMatchObject({
      status: 'failed',
      attempts: TRIES,
      error: 'TypeError: bad',
      completedAt: expect.any(Date),
    })
    expect(told).toHaveBeenCalledTimes(1)
    expect(told.mock.calls[0]?.[0]).toMatchObject({
      error,
      item: {
        id: row.id,
        syncLogId: run.id,
        externalId: 'x',
        checkpointValue: 'c',
        attempts: TRIES,
        error: 'TypeError: bad',
      },
    })
  })

  it.each([
    ['ends the window exactly with its wait', WINDOW_SECONDS - 10 - 5, 'processing'],
    ['would wait past the window', WINDOW_SECONDS - 9, 'failed'],
  ])('of an item that %s', async (_, ageSeconds, status) => {
    listen(test, ThingSynced, throwing(new Error('bad')))
    const row = await item({ createdAt: new Date(Date.now() - ageSeconds * 1_000) })
    await batch()
    expect(await statusOf(row)).toBe(status)
  })

  it('past the window: the first attempt runs all the same', async () => {
    const row = await item({ createdAt: new Date(Date.now() - 2 * WINDOW_SECONDS * 1_000) })
    await batch()
    expect(await statusOf(row)).toBe('success')
  })

  it.each([
    ['thrown', (error: Error) => error],
    ['as a cause', (error: Error) => new Error('outer', { cause: new Error('inner', { cause: error }) })],
  ])('of a rate limit %s is a deferral: no attempt, no log line, the run waits', async (_, wrap) => {
    const limited = new RateLimitExceededException({ id: integration.id, provider: 'acme', name: 'x' }, 77, null)
    listen(test, ThingSynced, throwing(wrap(limited)))
    const row = await item()
    expect(await batch()).toMatchObject({ failed: 0, waiting: [{ id: row.id, seconds: 77 }], deferredSeconds: 77 })
    expect(await itemOf(test, row.id)).toMatchObject({ status: 'processing', attempts: 0, error: null, claim: null })
    expect(await logsOf(test, integration.id, 'sync_item')).toEqual([])
  })

  it('of a deferral past the window is failed now', async () => {
    const limited = new RateLimitExceededException(
      { id: integration.id, provider: 'acme', name: 'x' },
      WINDOW_SECONDS + 1,
      null,
    )
    listen(test, ThingSynced, throwing(limited))
    const row = await item()
    expect(await batch()).toMatchObject({ failed: 1, deferredSeconds: 0 })
    expect(await statusOf(row)).toBe('failed')
  })

  it('of an event class with a queued listener is failed at once: no listener runs, attempts stays 0', async () => {
    const heard = vi.fn()
    listen(test, ThingSynced, heard)
    listen(test, ThingSynced, vi.fn(), { queued: true })
    const row = await item()
    expect(await batch()).toMatchObject({ failed: 1, waiting: [] })
    expect(await itemOf(test, row.id)).toMatchObject({
      status: 'failed',
      attempts: 0,
      error: expect.stringContaining('SyncListenerMustNotBeQueuedException'),
    })
    expect(heard).not.toHaveBeenCalled()
  })

  it('of listeners that outlive sync.item_timeout is a failed attempt', async () => {
    const late = occasion()
    listen(test, ThingSynced, () => late.happened)
    const row = await item()
    expect(await batch()).toMatchObject({ waiting: [{ id: row.id, seconds: 10 }] })
    late.happen()
    expect((await logsOf(test, integration.id, 'sync_item'))[0]?.error).toMatch(/^ItemTimedOut: .*1 s/)
  })

  it.each([
    ['a credential', new Error(`sent ${TOKEN}`), 'Error: sent [REDACTED]'],
    [
      'a credential at the cut',
      new Error(`${'x'.repeat(985)} ${TOKEN}`),
      expect.not.stringContaining(TOKEN.slice(0, 5)),
    ],
    ['more than 1,000 characters', new Error('x'.repeat(2_000)), `Error: ${'x'.repeat(993)}`],
    ['a pair that the cut halves', new Error(`${'x'.repeat(992)}😀`), `Error: ${'x'.repeat(992)}\ufffd`],
    ['U+0000 in a thrown text', 'a\0b', 'ab'],
  ])('with an error of %s is stored as one line', async (_, thrown, stored) => {
    listen(test, ThingSynced, throwing(thrown))
    const row = await item({ status: 'processing', attempts: TRIES - 1 })
    await batch({ kind: 'due', ids: [row.id] })
    expect((await itemOf(test, row.id)).error).toEqual(stored)
    expect((await logsOf(test, integration.id, 'sync_item'))[0]?.error).toEqual(stored)
    expect(JSON.stringify(test.lines)).not.toContain(TOKEN)
  })
})

describe('a stored payload', () => {
  const read = async (eventClass: string, payload: unknown) => {
    const heard = vi.fn<(event: SyncItemEvent<unknown>) => void>()
    for (const each of [Versioned, ThingSynced, WithoutUpgrade]) listen(test, each, heard)
    const row = await item({ eventClass, payload })
    await batch()
    return { row: await itemOf(test, row.id), payload: heard.mock.calls[0]?.[0].payload }
  }

  it('of this version is read by its schema', async () => {
    expect(await read('test.thing', { v: 1, data: { n: 1, more: true } })).toMatchObject({
      row: { status: 'success' },
      payload: { n: 1 },
    })
  })

  it('of an older version is upgraded, then read', async () => {
    expect(await read('test.versioned', { v: 2, data: { title: 'old' } })).toMatchObject({
      row: { status: 'success' },
      payload: { name: 'old' },
    })
  })

  it.each([
    ['does not fit its schema', 'test.thing', { v: 1, data: { n: 'one' } }, /does not fit test.thing: n: /],
    ['does not fit after its upgrade', 'test.versioned', { v: 2, data: { title: 5 } }, /does not fit test.versioned/],
    ['breaks its upgrade', 'test.versioned', { v: 1, data: {} }, /upgrade\(\) .* threw Error: version 1 is too old/],
    ['is older and has no upgrade', 'test.without_upgrade', { v: 1, data: {} }, /has no upgrade\(\)/],
  ])('that %s is terminal at once', async (_, eventClass, payload, error) => {
    const { row } = await read(eventClass, payload)
    expect(row).toMatchObject({ status: 'failed', error: expect.stringMatching(error) })
  })

  it.each([
    ['of a newer version', 'test.thing', { v: 2, data: { n: 1 } }],
    ['of an unknown type', 'test.of_a_newer_release', { v: 1, data: {} }],
  ])('%s is an ordinary failed attempt: a newer worker heals it', async (_, eventClass, payload) => {
    const { row } = await read(eventClass, payload)
    expect(row).toMatchObject({ status: 'processing', attempts: 1, error: null })
    expect(await logsOf(test, integration.id, 'sync_item')).toHaveLength(1)
  })
})

describe('a settlement', () => {
  it.each([
    ['its attempts moved on', { attempts: 2 }],
    ['another claim holds the row', { claim: 'run:2' }],
    ['the row waits', { claim: null }],
    ['the row is settled', { status: 'success' as const, claim: null }],
  ])('changes nothing when %s', async (_, values) => {
    const row = await item({ status: 'processing', attempts: 1, claim: 'run:1', ...values })
    const settled = await settleItems(test.framework.db, test.framework.tables, [
      {
        id: row.id,
        attempts: 1,
        claim: 'run:1',
        status: 'failed',
        uncounted: false,
        error: 'late',
        failure: { message: 'late', maxAttempts: 3, durationMs: 1 },
      },
    ])
    expect(settled).toEqual(new Set())
    expect(await itemOf(test, row.id)).toEqual(row)
    expect(await logsOf(test, integration.id, 'sync_item')).toEqual([])
  })
})

describe('a second try of the same batch', () => {
  const claim = 'run-x:7'

  it.each([
    ['its first loss', claim, 'success'],
    ['its fourth loss', `${claim}:3`, 'success'],
    ['its fifth loss', `${claim}:4`, 'failed'],
  ])('takes up its own rows: at %s', async (_, by, status) => {
    const heard = vi.fn()
    listen(test, ThingSynced, heard)
    const row = await item({ status: 'processing', attempts: 1, claim: by })
    await batch({ kind: 'pending', limit: 10 }, { claim })
    expect(await itemOf(test, row.id)).toMatchObject({
      status,
      // A lost worker is no attempt of the listener.
      attempts: 1,
      error: status === 'failed' ? 'worker lost 5 times' : null,
    })
    expect(heard).toHaveBeenCalledTimes(status === 'failed' ? 0 : 1)
    expect(await logsOf(test, integration.id, 'sync_item')).toEqual([])
  })

  it('leaves rows of another batch alone', async () => {
    const row = await item({ status: 'processing', attempts: 1, claim: 'run-x:70' })
    await batch({ kind: 'pending', limit: 10 }, { claim })
    expect(await itemOf(test, row.id)).toEqual(row)
  })
})

it('a cancelled batch gives first attempts back to the queue, later ones to those that wait', async () => {
  const rows = []
  for (let n = 0; n < 4; n += 1) rows.push(await item({ status: 'processing', attempts: 1 }))
  const first = await item({ status: 'processing', attempts: 0 })
  const later = await item({ status: 'processing', attempts: 1 })
  let cancel = (): void => {}
  const cancelled = occasion()
  let running = 0
  listen(test, ThingSynced, async () => {
    running += 1
    if (running === rows.length) cancel()
    await cancelled.happened
  })
  const ids = [...rows, first, later].map(({ id }) => id)
  const result = await batch(
    { kind: 'due', ids },
    {
      onStart: (stop) => {
        cancel = () => {
          stop()
          // The activity sees it after the microtasks of this turn.
          setImmediate(() => cancelled.happen())
        }
      },
    },
  )
  expect(result).toMatchObject({ claimed: 6, succeeded: 4, waiting: [{ id: later.id, seconds: 0 }] })
  expect(await itemOf(test, first.id)).toMatchObject({ status: 'pending', attempts: 0, claim: null })
  expect(await itemOf(test, later.id)).toMatchObject({ status: 'processing', attempts: 1, claim: null })
})

function item(values = {}) {
  return makeItem(test, run, values)
}

function batch(
  take: ItemBatch['take'] = { kind: 'pending', limit: 200 },
  { claim, onStart }: { claim?: string; onStart?: (cancel: () => void) => void } = {},
): Promise<ItemBatchResult> {
  batches += 1
  const input = { syncLogId: run.id, claim: claim ?? `run:${batches}`, take }
  return runActivity(test.activities.processSyncItems, input, { ...(onStart && { onStart }) })
}

async function statusOf(row: { id: number }): Promise<string> {
  return (await itemOf(test, row.id)).status
}

function throwing(error: unknown): () => never {
  return () => {
    throw error
  }
}
