/** What we wrote ourselves and what is news, row by row of docs/behaviour/echoes.md, "What may come in between". */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { runItemBatch } from '../../src/activities/item-activities.ts'
import { PumpedWork } from '../../src/claims/claimed-work.ts'
import { closeEndedLoops } from '../../src/echoes/loops.ts'
import type { Json } from '../../src/framework/json.ts'
import type { RecognisesEchoes, WebhookContext } from '../../src/providers/contracts.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { SyncItemEvent } from '../../src/providers/provider-events.ts'
import type { SyncSession } from '../../src/providers/sync-session.ts'
import { pruneRows } from '../../src/retention/pruning.ts'
import { listSyncItems } from '../../src/syncs/items/item-list.ts'
import { ManualClock } from '../../src/testing/manual-clock.ts'
import { runSync } from '../../src/testing/sync-in-process.ts'
import { webhookQueue } from '../../src/webhooks/webhook-queue.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { listen, occasion, testIntegrations } from '../support/integrations.ts'
import { syncProvider, webhookProvider } from '../support/providers.ts'
import {
  itemsOf,
  logsOf,
  makeIntegration,
  makeItem,
  makeRun,
  makeWebhook,
  setIntegration,
  webhookOf,
} from '../support/rows.ts'
import { workOff } from '../support/work-off.ts'

interface Note {
  readonly id: string
  readonly text: string
}

class NoteSynced extends SyncItemEvent<Note> {
  static override readonly type = 'test.note'
}

let database: TestDatabase
let test: TestIntegrations
let integration: Integration
let handles: (note: Note, context: WebhookContext) => unknown
let lists: (session: SyncSession) => Promise<void> | void
/** What the handlers were given, in order. */
let seen: { readonly text: string; readonly isOwn: boolean }[]

const acme: RecognisesEchoes = {
  ...webhookProvider({
    webhookHandlers: () => ({
      note: { handle: (_integration, request, context) => handles(request.json() as never, context) },
      skipped: {
        skipOwn: true,
        handle: (_integration, request, context) => handles(request.json() as never, context),
      },
      guarded: {
        skipOwn: true,
        staleGuard: (payload) => ({ key: 'a', version: (payload as { version: number }).version }),
        handle: (_integration, request, context) => handles(request.json() as never, context),
      },
    }),
  }),
  ...syncProvider((session) => lists(session), { syncItemEvents: () => [NoteSynced] }),
  toldRecord(told) {
    const note =
      told.kind === 'answer' ? told.body : told.kind === 'delivery' ? (told.request.json() ?? null) : told.payload
    if (typeof note !== 'object' || note === null || !('id' in note)) return null
    return { key: `note:${String(note.id)}`, content: (note as unknown as Note).text }
  },
}

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, {
    providers: { acme, plain: webhookProvider() },
    config: { sync: { item_tries: 1 }, observability: { echo_loop_writes: 3, echo_loop_window: 60 } },
  })
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  await test.sql`delete from integrations`
  integration = await makeIntegration(test, 'acme')
  seen = []
  handles = ({ text }, { isOwn }) => void seen.push({ text, isOwn })
  lists = () => {}
})

const note = (text: string, id = 'a'): Note => ({ id, text })

/** Writes a note; the provider answers with it, and with what changes by itself. @param answered what happens before the answer */
function write(text: string, { id = 'a', key = `note:${id}` as string | null, answered = async () => {} } = {}) {
  const call = async (): Promise<Json> => {
    await answered()
    return { ...note(text, id), updated_at: new Date().toISOString() }
  }
  return integration.request('notes', 'PUT', call, { writes: { record: key } })
}

/** A delivery that is handled at once. */
async function arrives(text: string, { id = 'a', eventType = 'note' } = {}) {
  const row = await makeWebhook(test, integration.id, { payload: JSON.stringify(note(text, id)), eventType })
  await workOff(test.framework)
  return (await webhookOf(test, row.id)).isOwn
}

describe('an arrival', () => {
  it('that says what we wrote last is own, however often it comes', async () => {
    await write('X')
    expect([await arrives('X'), await arrives('X')]).toEqual([true, true])
    expect(seen).toEqual([
      { text: 'X', isOwn: true },
      { text: 'X', isOwn: true },
    ])
  })

  it('that says something else, or comes of another record, is foreign', async () => {
    await write('X')
    expect(await arrives('X', { id: 'b' })).toBe(false)
    expect(await arrives('Y')).toBe(false)
  })

  it('that says what we once wrote is foreign after another one (ABA)', async () => {
    await write('X')
    expect([await arrives('X'), await arrives('Y'), await arrives('X')]).toEqual([true, false, false])
  })

  it('that was changed before our write, and comes after it, is foreign; so is our echo then', async () => {
    await write('X')
    expect([await arrives('older'), await arrives('X')]).toEqual([false, false])
  })

  it('of the first of two writes is foreign, and so is one that undoes the second', async () => {
    await write('X1')
    await write('X2')
    expect([await arrives('X1'), await arrives('X2')]).toEqual([false, false])
    await write('X3')
    expect(await arrives('X3')).toBe(true)
  })

  it('is judged by the newest of two writes under way, whichever is answered first', async () => {
    const [isUnderWay, isAnswered] = [occasion(), occasion()]
    const answered = () => {
      isUnderWay.happen()
      return isAnswered.happened
    }
    const first = write('X1', { answered })
    await isUnderWay.happened
    await write('X2')
    isAnswered.happen()
    await first
    expect([await arrives('X2'), await arrives('X1')]).toEqual([true, false])
  })

  it('that comes while a write is under way is foreign, and so is what the write has left then', async () => {
    await write('X', { answered: async () => void expect(await arrives('X')).toBe(false) })
    expect(await arrives('X')).toBe(false)
    await write('X', { answered: async () => void (await arrives('Y')) })
    expect(await arrives('X')).toBe(false)
  })

  it('says what a write that failed may have left: it is foreign', async () => {
    await write('X')
    await expect(write('Z', { answered: () => Promise.reject(new Error('lost')) })).rejects.toThrow('lost')
    expect([await arrives('X'), await arrives('Z')]).toEqual([false, false])
  })

  it('says what we wrote also after a repeat that sends nothing, since its key is spent', async () => {
    const put = (text: string) =>
      integration.request('notes', 'PUT', async () => ({ ...note(text) }), {
        writes: { record: 'note:a' },
        idempotencyKey: 'once',
      })
    await put('X')
    await expect(put('X')).rejects.toMatchObject({ code: 'idempotency_conflict' })
    expect(await arrives('X')).toBe(true)
  })

  it('of a new record is own once the answer has told its key', async () => {
    await write('X', { id: 'new', key: null })
    expect(await arrives('X', { id: 'new' })).toBe(true)
  })

  it('of a new record that comes before the answer is foreign from then on', async () => {
    const answered = async () => void (await arrives('Y', { id: 'new' }))
    await write('X', { id: 'new', key: null, answered })
    expect(await arrives('X', { id: 'new' })).toBe(false)
    const rows = await test.sql`select is_new from integration_written_records where is_new`
    expect(rows).toHaveLength(0)
  })

  it('of an older write is foreign after a creation that the provider took as an update', async () => {
    await write('X1')
    await write('X2', { key: null })
    expect([await arrives('X1'), await arrives('X2')]).toEqual([false, false])
    await write('X3')
    expect(await arrives('X3')).toBe(true)
  })

  it('of a write under way is foreign after such a creation', async () => {
    await write('X1', { answered: async () => void (await write('X2', { key: null })) })
    expect(await arrives('X1')).toBe(false)
  })

  it('of another key than the write named is foreign', async () => {
    await write('X', { key: 'note:b' })
    expect([await arrives('X'), await arrives('X', { id: 'b' })]).toEqual([false, false])
  })

  it('whose record the provider does not know is not judged', async () => {
    const row = await makeWebhook(test, integration.id, { payload: '{}', eventType: 'note' })
    await workOff(test.framework)
    expect((await webhookOf(test, row.id)).isOwn).toBeNull()
  })

  it('of another integration is foreign', async () => {
    await write('X')
    integration = await makeIntegration(test, 'acme')
    expect(await arrives('X')).toBe(false)
  })
})

describe('a handler', () => {
  it('that failed is given what was foreign as foreign again, though it has written that itself', async () => {
    const row = await makeWebhook(test, integration.id, { payload: JSON.stringify(note('Y')), eventType: 'skipped' })
    handles = async ({ text }, { isOwn }) => {
      seen.push({ text, isOwn })
      if (seen.length > 1) return
      await write(text)
      throw new Error('the rest of the work failed')
    }
    await workOff(test.framework)
    expect(await webhookOf(test, row.id)).toMatchObject({ status: 'failed', isOwn: false })
    await test.sql`update integration_webhooks set status = 'pending' where id = ${row.id}`
    await workOff(test.framework)
    expect(await webhookOf(test, row.id)).toMatchObject({ status: 'processed', isOwn: false })
    expect(seen).toHaveLength(2)
  })

  it('that a stopping worker interrupts is given what was foreign as foreign again', async () => {
    const row = await makeWebhook(test, integration.id, { payload: JSON.stringify(note('Y')), eventType: 'skipped' })
    const stopping = new AbortController()
    handles = async ({ text }, { isOwn }) => {
      seen.push({ text, isOwn })
      if (seen.length > 1) return
      await write(text)
      stopping.abort(new Error('the worker stops'))
      await new Promise(() => {})
    }
    const { db, logger } = test.framework
    const pump = new PumpedWork({ db, logger, signal: stopping.signal }, webhookQueue(test.framework), 'pump:stopped:1')
    const claimed = await pump.claim({ after: 0, integrations: 1, rows: 1, room: 1, rooms: {} })
    for (const { row: held } of claimed.rows) {
      expect(await pump.run(held, stopping.signal)).toBe(null)
      await pump.handBack([held])
    }
    expect(await webhookOf(test, row.id)).toMatchObject({ status: 'pending', attempts: 0, isOwn: false })
    await workOff(test.framework)
    expect(await webhookOf(test, row.id)).toMatchObject({ status: 'processed', attempts: 1, isOwn: false })
    expect(seen).toEqual([
      { text: 'Y', isOwn: false },
      { text: 'Y', isOwn: false },
    ])
  })

  it('whose worker died is given it as foreign: how far it came is not known', async () => {
    await write('Y')
    const row = await makeWebhook(test, integration.id, {
      payload: JSON.stringify(note('Y')),
      eventType: 'skipped',
      attempts: 1,
    })
    await workOff(test.framework)
    expect(await webhookOf(test, row.id)).toMatchObject({ status: 'processed', isOwn: false })
  })

  it('that writes the record back knows the echo of that', async () => {
    handles = async ({ text }, { isOwn }) => {
      seen.push({ text, isOwn })
      if (!isOwn) await write(`${text}!`)
    }
    expect([await arrives('Y'), await arrives('Y!')]).toEqual([false, true])
  })

  it('during which other work writes the record: the echo is foreign, since the handler may have undone it', async () => {
    let other: Promise<unknown> = Promise.resolve()
    const hasBegun = occasion()
    const outside = hasBegun.happened.then(() => write('X'))
    handles = async () => {
      hasBegun.happen()
      other = outside
      await other
    }
    await arrives('Y')
    handles = ({ text }, { isOwn }) => void seen.push({ text, isOwn })
    expect(await arrives('X')).toBe(false)
  })

  it('with skipOwn is not called for what is own; the result says so', async () => {
    await write('X')
    expect(await arrives('X', { eventType: 'skipped' })).toBe(true)
    expect(await arrives('Y', { eventType: 'skipped' })).toBe(false)
    expect(seen).toEqual([{ text: 'Y', isOwn: false }])
    const logs = await logsOf(test, integration.id, 'webhook')
    expect(logs.map(({ status, resultData }) => [status, resultData])).toEqual([
      ['success', { status: 'own' }],
      ['success', null],
    ])
  })

  it('with skipOwn and a stale guard is given a foreign change from before an echo that was skipped', async () => {
    const changed = (text: string, version: number) =>
      makeWebhook(test, integration.id, {
        eventType: 'guarded',
        payload: JSON.stringify({ ...note(text), version }),
      })
    await write('X')
    const foreign = await changed('older', 1)
    const echo = await changed('X', 2)
    await workOff(test.framework)
    expect(seen).toEqual([{ text: 'older', isOwn: false }])
    expect((await webhookOf(test, foreign.id)).isOwn).toBe(false)
    expect((await webhookOf(test, echo.id)).status).toBe('processed')
    await changed('Y', 3)
    await workOff(test.framework)
    await changed('late', 2)
    await workOff(test.framework)
    expect(seen.map(({ text }) => text)).toEqual(['older', 'Y'])
  })

  it('is given an echo that took the place of a foreign change as foreign', async () => {
    const waiting = (text: string, id = 'a', keyTurn = false) =>
      makeWebhook(test, integration.id, {
        eventType: 'skipped',
        payload: JSON.stringify(note(text, id)),
        orderingKey: 'key',
        keyTurn,
        coalesces: true,
      })
    await write('X')
    await waiting('first', 'b', true)
    await waiting('foreign')
    const echo = await waiting('X')
    await workOff(test.framework)
    expect(seen).toEqual([
      { text: 'first', isOwn: false },
      { text: 'X', isOwn: false },
    ])
    expect((await webhookOf(test, echo.id)).isOwn).toBe(false)
  })
})

describe('a sync item', () => {
  it('is judged, marked, and passed over by listeners with skipOwn', async () => {
    const told: string[] = []
    const one = ({ payload, isOwn }: NoteSynced) => void told.push(`${payload.text} ${isOwn}`)
    const other = ({ payload }: NoteSynced) => void told.push(`skipping ${payload.text}`)
    listen(test, NoteSynced, one)
    listen(test, NoteSynced, other, { skipOwn: true })
    await write('X')
    lists = async (session) => {
      await session.dispatch(new NoteSynced(integration, note('X')), null, 'a')
      await session.dispatch(new NoteSynced(integration, note('Y', 'b')), null, 'b')
    }
    const run = await runSync(test.framework, new ManualClock(new Date()), { integrationId: integration.id })
    expect(told.toSorted()).toEqual(['X true', 'Y false', 'skipping Y'])
    const items = await itemsOf(test, run)
    expect(items.map(({ status, isOwn }) => [status, isOwn])).toEqual([
      ['success', true],
      ['success', false],
    ])
    const listed: (boolean | null)[] = []
    for await (const { isOwn } of listSyncItems(test.framework, { integrationId: integration.id })) listed.push(isOwn)
    expect(listed).toEqual([false, true])
  })

  it.each([
    ['and another run goes on with it', 'dead:1', true],
    ['and its activity is tried again', 'mine:1', false],
    ['twice, and a worker that stops hands it back', 'mine:1', true],
  ])('whose worker died is foreign, %s', async (_, claim, isGivenBack) => {
    const told: string[] = []
    const skipping = ({ payload }: NoteSynced) => void told.push(payload.text)
    listen(test, NoteSynced, skipping, { skipOwn: true })
    await write('X')
    const run = await makeRun(test, integration.id, { adopted_by: 'mine' })
    const payload = { v: NoteSynced.version, data: { ...note('X') } }
    const held = { status: 'processing', attempts: 1, claim, eventClass: NoteSynced.type, payload } as const
    const item = await makeItem(test, run, held)
    const batch = (signal = new AbortController().signal) =>
      runItemBatch(
        test.framework,
        { syncLogId: run.id, claim: 'mine:1', take: { kind: 'pending', limit: 10 } },
        { cancelled: signal },
      )
    if (claim === 'dead:1') await test.activities.takeOverSyncRun({ integrationId: integration.id, syncLogId: run.id })
    else if (isGivenBack) await batch(AbortSignal.abort())
    if (isGivenBack)
      expect(await itemsOf(test, run.id)).toMatchObject([{ id: item.id, status: 'pending', attempts: 0 }])
    await batch()
    expect(await itemsOf(test, run.id)).toMatchObject([{ id: item.id, status: 'success', isOwn: false }])
    expect(told).toEqual(['X'])
  })
})

describe('the option', () => {
  it('writes is refused with a provider that has no toldRecord()', async () => {
    const plain = await makeIntegration(test, 'plain')
    const call = plain.request('notes', 'PUT', () => ({}), { writes: { record: 'a' } })
    await expect(call).rejects.toMatchObject({
      code: 'invalid_argument',
      reason: expect.stringContaining('the provider "plain" has none'),
    })
  })

  it('writes with ifTold is left out there: the call is made, and nothing is noted', async () => {
    const plain = await makeIntegration(test, 'plain')
    const writes = { record: 'a', ifTold: true } as const
    expect(await plain.request('notes', 'PUT', () => ({ n: 1 }), { writes })).toEqual({ n: 1 })
    expect(await test.sql`select from integration_written_records where integration_id = ${plain.id}`).toHaveLength(0)
  })

  it('skipOwn is refused for an event of the framework', () => {
    expect(() => test.integrations.on('SyncCompleted', () => {}, { skipOwn: true })).toThrow(/skipOwn/)
  })
})

describe('a loop', () => {
  const incidents = () => test.sql`select status, source, reason, peak_severity from integration_incidents order by id`
  const rewrites = async (times: number) => {
    handles = ({ text }) => write(`${text}!`)
    for (let nth = 1; nth <= times; nth += 1) await arrives(`of the automation ${nth}`)
  }

  it('of writes that each answer a change of the same record opens an incident, and closes it when it has ended', async () => {
    const told: string[] = []
    listen(test, 'IncidentOpened', () => told.push('opened'))
    listen(test, 'IncidentClosed', () => told.push('closed'))
    // The first one answers nothing that came after a write of ours.
    await rewrites(3)
    expect(await incidents()).toHaveLength(0)
    await rewrites(1)
    expect(await incidents()).toEqual([
      { status: 'open', source: 'echo', reason: 'echo_loop', peak_severity: 'degraded' },
    ])
    await rewrites(3)
    expect(told).toEqual(['opened'])

    // Another trouble heals meanwhile: the loop keeps the incident open.
    await setIntegration(test, integration.id, { healthStatus: 'degraded' })
    await integration.request('notes', 'GET', () => ({}))
    await closeEndedLoops(test.framework)
    expect(await incidents()).toMatchObject([{ status: 'open' }])

    await test.sql`update integration_written_records set answers = array(select a - interval '61 s' from unnest(answers) a)`
    expect(await closeEndedLoops(test.framework)).toBe(1)
    expect(await incidents()).toMatchObject([{ status: 'closed' }])
    expect(told).toEqual(['opened', 'closed'])
  })

  it('is none where writes come by themselves, though each has its echo', async () => {
    for (let nth = 1; nth <= 10; nth += 1) {
      await write(`our own ${nth}`)
      await arrives(`our own ${nth}`)
    }
    expect(await incidents()).toHaveLength(0)
  })

  it('is one where a handler answers our own echoes', async () => {
    await write('X')
    handles = ({ text }) => write(`${text}!`)
    for (const text of ['X', 'X!', 'X!!']) expect(await arrives(text)).toBe(true)
    expect(await incidents()).toMatchObject([{ status: 'open', reason: 'echo_loop' }])
  })

  it('is none where its writes are further apart than the window', async () => {
    await rewrites(3)
    await test.sql`update integration_written_records set answers = array(select a - interval '61 s' from unnest(answers) a)`
    await rewrites(2)
    expect(await incidents()).toHaveLength(0)
  })
})

describe('the notes', () => {
  it('go with their integration, and with the keys that are pruned', async () => {
    await write('X')
    await write('X', { id: 'b' })
    await test.sql`update integration_written_records set updated_at = now() - interval '400 days' where key = 'note:b'`
    await pruneRows(
      test.framework,
      { step: 'idempotency_keys', runId: 'of-the-test' },
      { signal: new AbortController().signal },
    )
    expect(await test.sql`select key from integration_written_records`).toEqual([{ key: 'note:a' }])
    await test.sql`delete from integrations where id = ${integration.id}`
    expect(await test.sql`select key from integration_written_records`).toHaveLength(0)
  })
})
