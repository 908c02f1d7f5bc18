/** Reconciliation of one integration: what is asked, what is stored, what the log says, and what the next run asks. */

import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { commandStep } from '../../src/activities/command-steps.ts'
import { webhookActivities } from '../../src/activities/webhook-activities.ts'
import { FailureClass } from '../../src/calls/failure-class-rules.ts'
import type { ListedWebhook, MissedWebhook, ReconcilesWebhooks } from '../../src/providers/contracts.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { storedWebhookRequest } from '../../src/providers/webhook-request.ts'
import { ManualClock } from '../../src/testing/manual-clock.ts'
import { reconcileNow } from '../../src/webhooks/reconciliation.ts'
import type { ReconcileWebhooksInput } from '../../src/webhooks/webhook-jobs.ts'
import { runActivity } from '../support/activities.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { listen, occasion, testIntegrations } from '../support/integrations.ts'
import { TOKEN, webhookProvider } from '../support/providers.ts'
import { logsOf, makeIntegration, makeWebhook, setIntegration } from '../support/rows.ts'
import { SOON } from '../support/soon.ts'
import { workOff } from '../support/work-off.ts'

const DAY_SECONDS = 86_400
const LOOKBACK_SECONDS = 3 * DAY_SECONDS
const MAX_BYTES = 1_000
const MAX_INSERTS = 1_000
const START = new Date('2026-03-10T12:00:00Z')

type Lists = ReconcilesWebhooks['missedWebhooks']

let database: TestDatabase
let test: TestIntegrations
let activities: ReturnType<typeof webhookActivities>
let integration: Integration
let clock: ManualClock
let lists: Lists

beforeAll(async () => {
  database = await createTestDatabase()
  clock = new ManualClock(START)
  const able: ReconcilesWebhooks = {
    ...webhookProvider({ webhookHandlers: () => ({ thing: (_integration, request) => request.json() }) }),
    reconcileLookbackSeconds: LOOKBACK_SECONDS,
    missedWebhooks: (...asked) => lists(...asked),
  }
  const keyed: ReconcilesWebhooks = { ...able, reconcileWebhookKey: 'hook' }
  const ordered: ReconcilesWebhooks = {
    ...able,
    orderingKey(request) {
      const { ticket } = request.json() as { ticket: { id: string } | null }
      return ticket === null ? null : { key: ticket.id, coalesce: true }
    },
  }
  test = testIntegrations(database.url, {
    clock,
    config: { webhook: { max_payload_bytes: MAX_BYTES } },
    providers: {
      able,
      keyed,
      ordered,
      blaming: { ...able, classifyFailure: () => FailureClass.Client },
      unable: webhookProvider(),
    },
  })
  activities = webhookActivities(test.framework)
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  clock.set(START)
  lists = listing([])
  test.starts.wakes.length = 0
  integration = await makeIntegration(test, 'able')
})

const ago = (seconds: number): Date => new Date(clock.now().getTime() - seconds * 1_000)

function missed(deliveryId: string, given: Partial<MissedWebhook> = {}): MissedWebhook {
  return { deliveryId, eventType: 'thing', payload: { id: deliveryId }, headers: {}, occurredAt: ago(600), ...given }
}

function listing(deliveries: Iterable<MissedWebhook>): Lists {
  const all = [...deliveries]
  return async function* () {
    yield* all
  }
}

function* many(count: number, prefix = 'd'): Iterable<MissedWebhook> {
  for (let n = 1; n <= count; n += 1) yield missed(`${prefix}-${n}`)
}

function reconcile(given: { since?: string; dryRun?: boolean } = {}, { id } = integration) {
  return runActivity(activities.reconcileIntegration, { integrationId: id, ...given })
}

function rows({ id } = integration) {
  return test.sql<{ delivery_id: string; event_type: string; payload: string; headers: Record<string, string[]> }[]>`
    select delivery_id, event_type, payload, headers::jsonb as headers, status
    from integration_webhooks where integration_id = ${id} order by id`
}

async function countRows({ id } = integration): Promise<number> {
  const [row] = await test.sql`select count(*) as n from integration_webhooks where integration_id = ${id}`
  return Number(row?.n)
}

/** What each run asked about, as seconds before it. */
function windowsOf(): { spy: ReturnType<typeof vi.fn<Lists>>; asked: () => number[][] } {
  const windows: number[][] = []
  const spy = vi.fn<Lists>((_integration, { since, until }) => {
    windows.push([since, until].map((moment) => (clock.now().getTime() - moment.getTime()) / 1_000))
    return listing([])(_integration, { since, until, signal: new AbortController().signal })
  })
  lists = spy
  return { spy, asked: () => windows }
}

const logs = () => logsOf(test, integration.id, 'webhook_reconcile')
const NOTHING = { seen: 0, known: 0, inserted: 0, tooLarge: 0, capped: false }

describe('a delivery that never arrived', () => {
  it('is stored as pending, marked as reconciled, and its inbox is woken', async () => {
    lists = listing([missed('d-1', { payload: '{"a": 1}', headers: { 'X-Event': 'thing' } })])
    expect(await reconcile()).toEqual({ ...NOTHING, seen: 1, inserted: 1 })
    expect(await rows()).toEqual([
      expect.objectContaining({
        delivery_id: 'd-1',
        event_type: 'thing',
        payload: '{"a": 1}',
        headers: { 'x-event': ['thing'], ':source': ['reconcile'] },
        status: 'pending',
      }),
    ])
    expect(test.starts.wakes).toEqual(['arrived'])
  })

  it('is handled as one that arrived', async () => {
    lists = listing([missed('d-1', { payload: { a: 1 } })])
    await reconcile()
    await workOff(test.framework)
    expect(await logsOf(test, integration.id, 'webhook')).toEqual([
      expect.objectContaining({ status: 'success', externalId: 'd-1', resultData: { a: 1 } }),
    ])
  })

  it('is told to the listeners of WebhookReceived; one that throws disturbs nothing', async () => {
    const told = vi.fn(() => {
      throw new Error('a listener broke')
    })
    listen(test, 'WebhookReceived', told)
    lists = listing([missed('d-1'), missed('d-2', { eventType: null })])
    expect(await reconcile()).toMatchObject({ inserted: 2 })
    const [first, second] = await test.sql`
      select id from integration_webhooks where integration_id = ${integration.id} order by delivery_id`
    const common = { integration: expect.objectContaining({ id: integration.id }), provider: 'able' }
    expect(told.mock.calls).toEqual([
      [{ ...common, webhookId: Number(first?.id), deliveryId: 'd-1', eventType: 'thing' }],
      [{ ...common, webhookId: Number(second?.id), deliveryId: 'd-2', eventType: null }],
    ])
  })

  it('waits for its turn behind the others of its ordering key', async () => {
    const ordered = await makeIntegration(test, 'ordered')
    const running = { deliveryId: 'd-4', status: 'processing', orderingKey: 'a', keyTurn: true } as const
    await makeWebhook(test, ordered.id, running)
    const of = (id: string) => ({ payload: { ticket: { id } } })
    lists = listing([
      missed('d-1', of('a')),
      missed('d-2', of('b')),
      missed('d-3', of('b')),
      missed('of none', { payload: { ticket: null } }),
      missed('unread', { payload: 'no JSON' }),
      missed('unread, too', { payload: 'no JSON' }),
    ])
    expect(await reconcile({}, ordered)).toMatchObject({ inserted: 6, known: 0 })
    const turns = await test.sql`
      select delivery_id, ordering_key, key_turn, coalesces from integration_webhooks
      where integration_id = ${ordered.id} order by delivery_id`
    expect(turns.map(Object.values)).toEqual([
      ['d-1', 'a', false, false],
      ['d-2', 'b', true, false],
      ['d-3', 'b', false, false],
      ['d-4', 'a', true, null],
      ['of none', null, null, null],
      ['unread', null, null, null],
      ['unread, too', null, null, null],
    ])
    const unread = test.lines.map(({ fields }) => fields).filter(({ event }) => event === 'webhook.unread')
    expect(unread).toEqual([expect.objectContaining({ integration: ordered.id, error: 'TypeError' })])
  })

  it('has the very bytes that the provider gives', async () => {
    const bytes = Buffer.from([0x7b, 0xff, 0x00, 0x7d])
    lists = listing([missed('d-1', { payload: bytes })])
    await reconcile()
    const [row] = await rows()
    const at = { receivedAt: clock.now(), toleranceSeconds: 300 }
    expect(Buffer.from(storedWebhookRequest({ ...(row as NonNullable<typeof row>), ...at }).rawBody)).toEqual(bytes)
  })

  it('twice in a listing is stored once', async () => {
    lists = listing([missed('d-1'), missed('d-1'), ...many(250), missed('d-1')])
    expect(await reconcile()).toEqual({ ...NOTHING, seen: 253, known: 3, inserted: 250 })
    expect(await countRows()).toBe(250)
  })

  it('under an id too long for the column is known again by its digest', async () => {
    lists = listing([missed('d'.repeat(300))])
    expect(await reconcile()).toMatchObject({ inserted: 1 })
    expect(await reconcile()).toMatchObject({ inserted: 0, known: 1 })
  })
})

describe('a delivery that is', () => {
  it.each(['pending', 'processing', 'processed', 'failed'] as const)('%s is known, and left alone', async (status) => {
    const row = await makeWebhook(test, integration.id, { deliveryId: 'd-1', payload: 'as it arrived', status })
    lists = listing([missed('d-1')])
    expect(await reconcile()).toEqual({ ...NOTHING, seen: 1, known: 1 })
    expect(await rows()).toEqual([expect.objectContaining({ payload: 'as it arrived', status: row.status })])
    expect(test.starts.wakes).toEqual([])
  })

  it('known to another integration only is missing here', async () => {
    await makeWebhook(test, (await makeIntegration(test, 'able')).id, { deliveryId: 'd-1' })
    lists = listing([missed('d-1')])
    expect(await reconcile()).toMatchObject({ inserted: 1 })
  })

  it('too large is counted, and not stored', async () => {
    lists = listing([
      missed('fits', { payload: 'x'.repeat(MAX_BYTES) }),
      missed('too large', { payload: 'x'.repeat(MAX_BYTES + 1) }),
    ])
    expect(await reconcile()).toEqual({ ...NOTHING, seen: 2, inserted: 1, tooLarge: 1 })
    expect((await rows()).map((row) => row.delivery_id)).toEqual(['fits'])
  })

  it('of a type that the integration does not want is passed over, and its content not asked for', async () => {
    await setIntegration(test, integration.id, { metadata: { webhook_events: ['thing'] } })
    const load = vi.fn(async () => ({ payload: {}, headers: {} }))
    const [{ payload: _payload, headers: _headers, ...unwanted }, unknown] = [
      missed('a', { eventType: 'other' }),
      missed('c', { eventType: null }),
    ]
    lists = listing([{ ...unwanted, load } as unknown as MissedWebhook, missed('b'), unknown])
    expect(await reconcile()).toMatchObject({ seen: 3, known: 0, inserted: 2 })
    expect(load).not.toHaveBeenCalled()
    expect((await rows()).map(({ delivery_id }) => delivery_id)).toEqual(['b', 'c'])
  })

  it('outside the window is passed over', async () => {
    lists = listing([
      missed('too old', { occurredAt: ago(LOOKBACK_SECONDS + 1) }),
      missed('first', { occurredAt: ago(LOOKBACK_SECONDS) }),
      missed('last', { occurredAt: ago(301) }),
      missed('still on its way', { occurredAt: ago(300) }),
    ])
    expect(await reconcile()).toMatchObject({ seen: 2, inserted: 2 })
    expect((await rows()).map((row) => row.delivery_id)).toEqual(['first', 'last'])
  })

  it('arriving at this very moment is stored once: the other connection’s row counts', async () => {
    const [listed, arrived] = [occasion(), occasion()]
    lists = async function* () {
      yield missed('d-1')
      // Looked up when the listing ends; stored by then by a connection that has not committed.
      listed.happen()
      await arrived.happened
    }
    const other = await test.sql.reserve()
    try {
      await other`begin`
      await other`insert into integration_webhooks (integration_id, delivery_id, payload, headers)
        values (${integration.id}, 'd-1', 'as it arrived', '{}')`
      const run = reconcile()
      await listed.happened
      arrived.happen()
      await waitsForLock()
      await other`commit`
      expect(await run).toEqual({ ...NOTHING, seen: 1, known: 1 })
      expect((await rows()).map((row) => row.payload)).toEqual(['as it arrived'])
      // Its arrival wakes the inbox.
      expect(test.starts.wakes).toEqual([])
    } finally {
      other.release()
    }
  })
})

describe('the window', () => {
  it('goes from as far back as the provider knows until 5 minutes ago, then on from the last end', async () => {
    const { asked } = windowsOf()
    await reconcile()
    clock.advance({ hours: 1 })
    await reconcile()
    clock.advance({ days: 5 })
    await reconcile()
    expect(asked()).toEqual([
      [LOOKBACK_SECONDS, 300],
      [3_600 + 300 + 600, 300],
      [LOOKBACK_SECONDS, 300],
    ])
  })

  it('is another integration’s own', async () => {
    const { asked } = windowsOf()
    await reconcile()
    await reconcile({}, await makeIntegration(test, 'able'))
    expect(asked().map(([since]) => since)).toEqual([LOOKBACK_SECONDS, LOOKBACK_SECONDS])
  })

  it('begins where the caller wants it; the gap that this leaves is asked about by the next run', async () => {
    const { asked } = windowsOf()
    await reconcile()
    clock.advance({ days: 1 })
    await reconcile({ since: ago(1_000).toISOString() })
    await reconcile()
    expect(asked().map(([since]) => since)).toEqual([LOOKBACK_SECONDS, 1_000, DAY_SECONDS + 900])
  })

  it('begins a length of time back, by the clock', async () => {
    const { asked } = windowsOf()
    await reconcile({ since: '90m' })
    expect(asked().map(([since]) => since)).toEqual([5_400])
  })

  it('that the caller begins earlier leaves no gap', async () => {
    const { asked } = windowsOf()
    await reconcile()
    clock.advance({ days: 1 })
    await reconcile({ since: ago(2 * DAY_SECONDS).toISOString() })
    await reconcile()
    expect(asked().map(([since]) => since)).toEqual([LOOKBACK_SECONDS, 2 * DAY_SECONDS, 900])
  })

  it('goes back as far as the first one after a run whose clock was fast, and then on from its own end', async () => {
    const { asked } = windowsOf()
    await reconcile()
    clock.set(ago(3_600))
    await reconcile()
    clock.advance({ minutes: 10 })
    await reconcile()
    expect(asked()).toEqual([
      [LOOKBACK_SECONDS, 300],
      [LOOKBACK_SECONDS, 300],
      [600 + 300 + 600, 300],
    ])
  })
})

describe('a run', () => {
  it('writes one log row: its window and its counts', async () => {
    await makeWebhook(test, integration.id, { deliveryId: 'd-1' })
    lists = listing([...many(3), missed('large', { payload: 'x'.repeat(MAX_BYTES + 1) })])
    await reconcile()
    expect(await logs()).toEqual([
      expect.objectContaining({
        direction: 'inbound',
        status: 'success',
        error: null,
        durationMs: expect.any(Number),
        metadata: {
          since: ago(LOOKBACK_SECONDS).toISOString(),
          until: ago(300).toISOString(),
          mark: ago(300).toISOString(),
          seen: 4,
          known: 1,
          inserted: 2,
          too_large: 1,
          capped: false,
        },
      }),
    ])
  })

  it('that is dry counts, and writes nothing', async () => {
    await makeWebhook(test, integration.id, { deliveryId: 'd-1' })
    const told = vi.fn()
    listen(test, 'WebhookReceived', told)
    lists = listing([...many(250), missed('d-2'), missed('large', { payload: 'x'.repeat(MAX_BYTES + 1) })])
    expect(await reconcile({ dryRun: true })).toEqual({
      seen: 252,
      known: 2,
      inserted: 249,
      tooLarge: 1,
      capped: false,
    })
    expect([await countRows(), await logs(), told.mock.calls, test.starts.wakes]).toEqual([1, [], [], []])
  })

  it.each([
    ['exactly as many as one run stores', MAX_INSERTS, 0, false],
    ['one more', MAX_INSERTS + 1, 0, true],
    ['exactly as many, and known ones after them', MAX_INSERTS, 500, false],
  ])('of %s', async (_, missing, known, capped) => {
    lists = listing(many(known, 'known'))
    await reconcile()
    lists = listing([...many(missing), ...many(known, 'known')])
    const seen = missing + known
    expect(await reconcile()).toEqual({ ...NOTHING, seen, known, inserted: MAX_INSERTS, capped })
    expect(await countRows()).toBe(MAX_INSERTS + known)
    expect((await logs()).at(-1)?.status).toBe(capped ? 'partial' : 'success')
  })

  it('that is capped leaves the mark: the next one asks about the same time, and stores the rest', async () => {
    await reconcile()
    clock.advance({ hours: 1 })
    lists = listing(many(MAX_INSERTS + 300))
    expect(await reconcile()).toMatchObject({ inserted: MAX_INSERTS, capped: true })
    const { asked } = windowsOf()
    await reconcile({ dryRun: true })
    expect(asked()).toEqual([[4_500, 300]])
    lists = listing(many(MAX_INSERTS + 300))
    expect(await reconcile()).toMatchObject({ inserted: 300, known: MAX_INSERTS, capped: false })
  })

  it('that is capped lists no further', async () => {
    const yielded = vi.fn()
    const ended = vi.fn()
    lists = async function* () {
      try {
        for (const delivery of many(5_000)) {
          yielded()
          yield delivery
        }
      } finally {
        ended()
      }
    }
    expect(await reconcile()).toMatchObject({ capped: true })
    expect(yielded.mock.calls.length).toBeLessThan(MAX_INSERTS + 250)
    expect(ended).toHaveBeenCalledOnce()
  })

  it('that is dry is capped alike', async () => {
    lists = listing(many(MAX_INSERTS + 1))
    expect(await reconcile({ dryRun: true })).toMatchObject({ inserted: MAX_INSERTS, capped: true })
  })

  it('that fails leaves the mark, keeps what it has stored, and is logged without a secret', async () => {
    await reconcile()
    clock.advance({ hours: 1 })
    lists = async function* () {
      yield* many(200)
      yield missed('never stored')
      throw new Error(`refused ${TOKEN}`)
    }
    await expect(reconcile()).rejects.toMatchObject({
      message: expect.not.stringContaining(TOKEN),
      nonRetryable: false,
      cause: undefined,
    })
    expect(await countRows()).toBe(200)
    expect((await logs()).at(-1)).toMatchObject({
      status: 'failed',
      error: 'Error: refused [REDACTED]',
      metadata: { inserted: 200, mark: null },
    })
    const { asked } = windowsOf()
    await reconcile()
    expect(asked()).toEqual([[4_500, 300]])
  })

  it('that lists what is no delivery fails for good', async () => {
    lists = listing([missed('d-1', { occurredAt: new Date('soon') })])
    await expect(reconcile()).rejects.toMatchObject({ type: 'invalid_argument', nonRetryable: true })
    expect((await logs()).at(-1)).toMatchObject({ status: 'failed', error: expect.stringContaining('occurredAt') })
  })

  it('that the provider blames on us fails for good', async () => {
    const blamed = await makeIntegration(test, 'blaming')
    lists = () => {
      throw new Error('you may not')
    }
    await expect(reconcile({}, blamed)).rejects.toMatchObject({ nonRetryable: true })
  })

  it('of an integration that is deleted meanwhile fails for good, and leaves nothing', async () => {
    lists = async function* () {
      yield missed('d-1')
      await test.sql`delete from integrations where id = ${integration.id}`
    }
    await expect(reconcile()).rejects.toMatchObject({ type: 'integration_not_found', nonRetryable: true })
    expect([await countRows(), await logs(), test.starts.wakes]).toEqual([0, [], []])
  })

  it('that is cancelled ends at once, and is neither failed nor marked', async () => {
    const asked = occasion<AbortSignal>()
    lists = async function* (_integration, { signal }) {
      asked.happen(signal)
      await new Promise((resolve) => signal.addEventListener('abort', resolve))
      yield missed('d-1')
    }
    let cancel = () => {}
    const run = runActivity(
      activities.reconcileIntegration,
      { integrationId: integration.id },
      { onStart: (it) => (cancel = it) },
    )
    const signal = await asked.happened
    expect(signal.aborted).toBe(false)
    cancel()
    // As the error by which Temporal knows a cancellation, not as a failure.
    await expect(run).rejects.toMatchObject({ name: 'CancelledFailure' })
    expect([await countRows(), await logs()]).toEqual([0, []])
  })

  it('beside another one of the same integration stores each delivery once', async () => {
    lists = listing(many(300))
    const results = await Promise.all([reconcile(), reconcile()])
    expect(results.map(({ seen }) => seen)).toEqual([300, 300])
    expect(results.reduce((sum, { inserted }) => sum + inserted, 0)).toBe(300)
    expect(await countRows()).toBe(300)
  })
})

describe('who is reconciled', () => {
  beforeEach(async () => {
    await test.sql`delete from integrations`
  })

  const list = (input: ReconcileWebhooksInput = {}) =>
    runActivity(commandStep('listReconcilable', activities.listReconcilable), input)

  it('is every active integration whose provider can, by ascending id', async () => {
    const ids: number[] = []
    for (const provider of ['able', 'unable', 'blaming', 'able', 'able', 'able'])
      ids.push((await makeIntegration(test, provider)).id)
    await setIntegration(test, ids[3] as number, { isActive: false })
    await setIntegration(test, ids[4] as number, { isActive: false, healthStatus: 'disabled' })
    await setIntegration(test, ids[5] as number, { provider: 'gone' })
    expect(await list()).toEqual({ integrationIds: [ids[0], ids[2]] })
  })

  it('is the one that is asked for', async () => {
    const { id } = await makeIntegration(test, 'able')
    await makeIntegration(test, 'able')
    expect(await list({ integrationId: id })).toEqual({ integrationIds: [id] })
  })

  it.each<[string, () => Promise<ReconcileWebhooksInput>, string]>([
    ['is none', async () => ({ integrationId: 999_999 }), 'integration_not_found'],
    ['is of a provider that can’t', async () => ofProvider('unable', {}), 'unsupported_by_provider'],
    [
      'is of a provider that is not registered',
      async () => ofProvider('able', { provider: 'gone' }),
      'unknown_provider',
    ],
    ['is switched off', async () => ofProvider('able', { isActive: false }), 'integration_inactive'],
  ])('fails for good when the one asked for %s', async (_, make, type) => {
    const input = await make()
    await expect(list(input)).rejects.toMatchObject({ type, nonRetryable: true })
    const { integrationId = 0 } = input
    await expect(runActivity(activities.reconcileIntegration, { integrationId })).rejects.toMatchObject({
      type,
      nonRetryable: true,
    })
    await expect(reconcileNow(test.framework, input)).rejects.toMatchObject({ code: type })
  })

  it.each(['yesterday', '2026-03-10', '2026-03-10T12:00:00', ''])(
    'fails for good when asked since "%s"',
    async (since) => {
      await expect(list({ since })).rejects.toMatchObject({
        type: 'invalid_argument',
        nonRetryable: true,
        message: expect.stringContaining('a moment in ISO 8601'),
      })
    },
  )

  it('fails for good when asked since a time that is too late', async () => {
    const { id: integrationId } = await makeIntegration(test, 'able')
    const tooLate = { integrationId, since: ago(300).toISOString() }
    const forGood = { type: 'invalid_argument', nonRetryable: true }
    await expect(list(tooLate)).rejects.toMatchObject(forGood)
    await expect(runActivity(activities.reconcileIntegration, tooLate)).rejects.toMatchObject(forGood)
    await expect(reconcileNow(test.framework, tooLate)).rejects.toMatchObject({ argument: 'since' })
    const inTime = { integrationId, since: new Date(ago(300).getTime() - 1).toISOString() }
    expect(await runActivity(activities.reconcileIntegration, inTime)).toEqual(NOTHING)
  })

  async function ofProvider(provider: string, values: Partial<{ provider: string; isActive: boolean }>) {
    const { id } = await makeIntegration(test, provider)
    if (Object.keys(values).length > 0) await setIntegration(test, id, values)
    return { integrationId: id }
  }
})

describe('an integration that names no webhook to list', () => {
  it('is skipped with the reason and without a mark: once it names one, the run goes back as far as the API', async () => {
    integration = await makeIntegration(test, 'keyed')
    const { id } = integration
    const reason = `no webhook to list; set metadata hook: integrations update ${id} --metadata hook=ID`
    const { spy, asked } = windowsOf()
    expect(await reconcile()).toEqual({ ...NOTHING, skipped: reason })
    expect(spy).not.toHaveBeenCalled()
    expect(await logs()).toEqual([expect.objectContaining({ status: 'skipped', summary: reason, metadata: null })])
    expect(test.lines).toContainEqual(
      expect.objectContaining({
        fields: expect.objectContaining({ event: 'webhook.reconcile_skipped', integration: id, reason }),
      }),
    )
    expect(await reconcile({ dryRun: true })).toEqual({ ...NOTHING, skipped: reason })
    expect(await logs()).toHaveLength(1)
    await setIntegration(test, id, { metadata: { hook: 7 } })
    expect(await reconcile()).toEqual(NOTHING)
    expect(asked()).toEqual([[LOOKBACK_SECONDS, 300]])
  })

  it('is asked by the webhook that we registered', async () => {
    integration = await makeIntegration(test, 'keyed', { metadata: { hook: '' } })
    await test.sql`
      insert into integration_webhook_subscriptions (integration_id, is_wanted, subscription_id)
      values (${integration.id}, true, '12')`
    const spy = vi.fn<Lists>(listing([]))
    lists = spy
    expect(await reconcile()).toEqual(NOTHING)
    expect(spy).toHaveBeenCalledWith(expect.anything(), expect.objectContaining({ subscriptionId: '12' }))
  })
})

describe('a reconciliation by hand', () => {
  it('is the workflow’s, with its result', async () => {
    const result = { integrations: 1, ...NOTHING, capped: 0, failed: 0, skipped: 0, reasons: [] }
    const runReconciliation = vi.fn(async () => result)
    const framework = { ...test.framework, workflows: { ...test.framework.workflows, runReconciliation } }
    const input = { integrationId: integration.id, since: '2026-03-10T11:00:00+01:00', dryRun: true }
    expect(await reconcileNow(framework, input)).toBe(result)
    expect(runReconciliation.mock.calls).toEqual([[input]])
  })
})

/** Until a statement waits for another connection's transaction. */
async function waitsForLock(): Promise<void> {
  await vi.waitFor(async () => {
    const [row] = await test.sql`
      select count(*) as n from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
    expect(Number(row?.n)).toBe(1)
  }, SOON)
}

describe('a delivery whose content costs a call of its own', () => {
  const loads = vi.fn<(deliveryId: string) => ReturnType<ListedWebhook['load']>>()
  beforeEach(() => {
    loads.mockReset().mockImplementation(async (id) => ({ payload: { id }, headers: { 'x-loaded': 'yes' } }))
  })

  function listed(...deliveryIds: string[]): Lists {
    return async function* () {
      for (const deliveryId of deliveryIds)
        yield { deliveryId, eventType: 'thing', occurredAt: ago(600), load: () => loads(deliveryId) }
    }
  }

  it('is loaded only if it has not arrived, once, and stored with what was loaded', async () => {
    await makeWebhook(test, integration.id, { deliveryId: 'b' })
    lists = listed('a', 'b', 'a', 'c')
    expect(await reconcile()).toEqual({ ...NOTHING, seen: 4, known: 2, inserted: 2 })
    expect(loads.mock.calls.flat()).toEqual(['a', 'c'])
    const found = (await rows()).filter(({ delivery_id: id }) => id !== 'b')
    expect(found.map(({ delivery_id: id, payload }) => [id, payload]).sort()).toEqual([
      ['a', '{"id":"a"}'],
      ['c', '{"id":"c"}'],
    ])
    expect(found[0]?.headers).toEqual({ 'x-loaded': ['yes'], ':source': ['reconcile'] })
  })

  it('that the provider has forgotten meanwhile is none, and one that is too large is counted', async () => {
    loads.mockImplementation(async (id) =>
      id === 'gone'
        ? null
        : { payload: id === 'large' ? 'x'.repeat(MAX_BYTES + 1) : 'x'.repeat(MAX_BYTES), headers: {} },
    )
    lists = listed('gone', 'large', 'fits')
    expect(await reconcile()).toEqual({ ...NOTHING, seen: 3, inserted: 1, tooLarge: 1 })
    expect((await logs())[0]?.status).toBe('success')
  })

  it('is not loaded when there is no room for it in this run', async () => {
    lists = listed(...Array.from({ length: MAX_INSERTS + 3 }, (_, n) => `d-${n}`))
    expect(await reconcile()).toMatchObject({ inserted: MAX_INSERTS, capped: true })
    expect(loads).toHaveBeenCalledTimes(MAX_INSERTS)
  })

  it('that can’t be loaded fails the run; what was loaded before it is stored, and known to the next', async () => {
    loads.mockResolvedValueOnce({ payload: 'of a', headers: {} }).mockRejectedValueOnce(new Error('the detail is down'))
    lists = listed('a', 'b', 'c')
    await expect(reconcile()).rejects.toThrow('the detail is down')
    expect((await logs())[0]).toMatchObject({
      status: 'failed',
      error: expect.stringContaining('the detail is down'),
      metadata: { seen: 3, known: 0, inserted: 1, mark: null },
    })
    expect((await rows()).map(({ delivery_id: id, payload }) => [id, payload])).toEqual([['a', 'of a']])
    expect(test.starts.wakes).toEqual(['arrived'])

    expect(await reconcile()).toEqual({ ...NOTHING, seen: 3, known: 1, inserted: 2 })
    expect(loads.mock.calls.flat()).toEqual(['a', 'b', 'b', 'c'])
    expect((await rows()).map(({ delivery_id: id }) => id)).toEqual(['a', 'b', 'c'])
  })

  it('with content that is none is told by the member', async () => {
    loads.mockResolvedValue({ payload: {}, headers: null as never })
    lists = listed('a')
    await expect(reconcile()).rejects.toThrow('headers of a missed webhook')
  })
})
