/** Any id → the life of its record. Rule: docs/behaviour/explain.md. */
import type { SQL } from 'drizzle-orm'
import { sql } from 'drizzle-orm'
import type { PgTable } from 'drizzle-orm/pg-core'
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import type { ExplainedRecord, ExplainOptions, Explanation } from '../../src/explain/explain.ts'
import type { RecordRef } from '../../src/explain/life-lines.ts'
import { MAX_MATCHES } from '../../src/explain/matches.ts'
import { isIntegrationsError } from '../../src/framework/errors.ts'
import type { HasStreams, SyncStream } from '../../src/providers/contracts.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { noteSchedulePause } from '../../src/syncs/standing-queries.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { webhookProvider } from '../support/providers.ts'
import { makeIncident, makeIntegration, makeItem, makeRun, makeWebhook } from '../support/rows.ts'

const stream: SyncStream = { sync: async () => {}, reduceCheckpoints: () => null }
const split: HasStreams = { defaultRateLimit: () => null, streams: { people: stream, deals: stream } }

let database: TestDatabase
let test: TestIntegrations
let ours: Integration
let theirs: Integration

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, {
    providers: { acme: webhookProvider(), other: webhookProvider(), split },
    config: { cache_prefix: 'acme-prod' },
  })
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  await test.sql`delete from integrations`
  await test.sql`delete from integration_audit`
  ours = await makeIntegration(test, 'acme', { name: 'ours', owner: { type: 'team', id: 7 } })
  theirs = await makeIntegration(test, 'other', { name: 'theirs', owner: { type: 'team', id: 8 } })
})

const OURS: ExplainOptions = { limits: { owner: { type: 'team', id: 7 } } }
const THEIRS: ExplainOptions = { limits: { provider: 'other' } }

async function found(reference: string, options?: ExplainOptions): Promise<ExplainedRecord> {
  const explanation = await test.integrations.admin.explain(reference, options)
  if (explanation.outcome === 'found') return explanation
  throw new Error(`${reference} is ambiguous: ${explanation.matches.map(({ reference: one }) => one).join(', ')}`)
}

const refOf = async (reference: string, options?: ExplainOptions): Promise<RecordRef> =>
  (await found(reference, options)).ref

/** The code of the error, or what was found. */
async function outcomeOf(reference: unknown, options?: ExplainOptions): Promise<string> {
  try {
    const explanation: Explanation = await test.integrations.admin.explain(reference as string, options)
    return explanation.outcome
  } catch (error) {
    if (isIntegrationsError(error)) return error.code
    throw error
  }
}

async function makeRequest(values: Record<string, unknown> = {}, integrationId = ours.id): Promise<number> {
  const { db, tables } = test.framework
  const [row] = await db
    .insert(tables.requests)
    .values({ integrationId, endpoint: '/orders', method: 'GET', statusCode: 200, ...values })
    .returning({ id: tables.requests.id })
  return (row as { id: number }).id
}

async function makeLog(values: Record<string, unknown> = {}): Promise<number> {
  const { db, tables } = test.framework
  const [row] = await db
    .insert(tables.logs)
    .values({ integrationId: ours.id, operation: 'export', direction: 'outbound', status: 'success', ...values })
    .returning({ id: tables.logs.id })
  return (row as { id: number }).id
}

async function makeEvent(values: Record<string, unknown> = {}): Promise<number> {
  const { db, tables } = test.framework
  const [row] = await db
    .insert(tables.events)
    .values({ integrationId: ours.id, name: 'SyncCompleted', payload: {}, ...values })
    .returning({ id: tables.events.id })
  return (row as { id: number }).id
}

const setClosed = (id: number, closedAt: Date) =>
  test.sql`update integration_incidents set status = 'closed', closed_at = ${closedAt} where id = ${id}`

const act = (target: string, action: string, integrationId: number | null = ours.id, by = 'ada') => test.sql`
  insert into integration_audit (actor, action, target, origin, integration_id, provider, owner_type, owner_id)
  select ${by}, ${action}, ${target}, '10.0.0.7', ${integrationId}, i.provider, i.owner_type, i.owner_id
  from (values (1)) one left join integrations i on i.id = ${integrationId}`

describe('a reference', () => {
  it('to a row of each kind is found, and says whose it is', async () => {
    const run = await makeRun(test, ours.id)
    const item = await makeItem(test, run)
    await ours.mapExternalId('o-1', { type: 'order', id: '1' })
    const [mapping] = await test.sql<{ id: string }[]>`select id from integration_mappings`
    const ids = {
      integration: ours.id,
      webhook: (await makeWebhook(test, ours.id)).id,
      item: item.id,
      run: run.id,
      request: await makeRequest(),
      log: await makeLog(),
      incident: (await makeIncident(test, ours.id)).id,
      event: await makeEvent(),
      mapping: Number(mapping?.id),
    }
    for (const [kind, id] of Object.entries(ids)) {
      const explained = await found(`${kind}:${id}`)
      expect(explained).toMatchObject({
        ref: { kind, id, integrationId: ours.id },
        reference: `${kind}:${id}`,
        integration: { id: ours.id, provider: 'acme', name: 'ours' },
        exists: true,
        more: false,
      })
      expect(explained.lines.length).toBeGreaterThan(0)
      expect(explained.origins.length).toBeGreaterThan(0)
      expect(await outcomeOf(`${kind}:999999999`)).toBe('record_not_found')
    }
  })

  it('to a run finds no other operation, and a log may be a run', async () => {
    const log = await makeLog()
    expect(await outcomeOf(`run:${log}`)).toBe('record_not_found')
    const run = await makeRun(test, ours.id)
    expect((await found(`log:${run.id}`)).origins).toEqual((await found(`run:${run.id}`)).origins)
  })

  it('to a workflow leads to what it works at', async () => {
    await makeRun(test, ours.id)
    const run = await makeRun(test, ours.id)
    const backfill = await makeRun(test, ours.id, {}, { operation: 'backfill' })
    const item = await makeItem(test, run)
    const webhook = await makeWebhook(test, ours.id)
    const incident = await makeIncident(test, ours.id)
    for (const [reference, kind, id] of [
      [`acme-prod:sync:${ours.id}`, 'run', run.id],
      [`sync:${ours.id}`, 'run', run.id],
      [`acme-prod:backfill:${ours.id}`, 'run', backfill.id],
      [`acme-prod:sync-item:${item.id}`, 'item', item.id],
      [`sync-item:${item.id}`, 'item', item.id],
      [`acme-prod:webhook:${webhook.id}`, 'webhook', webhook.id],
      [`acme-prod:webhook-handler:${webhook.id}:2`, 'webhook', webhook.id],
      [`acme-prod:incident:${ours.id}`, 'incident', incident.id],
      [`acme-prod:refresh-tokens:${ours.id}`, 'integration', ours.id],
    ] as const)
      expect(await refOf(reference)).toEqual({ kind, id, integrationId: ours.id })
    expect(await outcomeOf(`sync:${theirs.id}`)).toBe('record_not_found')
    expect(await outcomeOf('acme-prod:prune')).toBe('record_not_found')
  })

  it('by a text finds each kind that has one, also by its kind', async () => {
    const webhook = await makeWebhook(test, ours.id, { deliveryId: 'dlv-1' })
    const item = await makeItem(test, await makeRun(test, ours.id), { externalId: 'tk_1' })
    const request = await makeRequest({ providerRequestId: 'req_1' })
    await makeRequest({ idempotencyKey: 'key-1' })
    await test.sql`insert into integration_idempotency_keys (integration_id, key) values (${ours.id}, 'key-2')`
    const row = (kind: string, id: number | string) => ({ kind, id, integrationId: ours.id })
    for (const [text, kind, ref] of [
      ['dlv-1', 'delivery', row('webhook', webhook.id)],
      ['tk_1', 'external', row('external', 'tk_1')],
      ['req_1', 'provider-request', row('request', request)],
      ['key-1', 'key', row('key', 'key-1')],
      ['key-2', 'key', row('key', 'key-2')],
    ] as const) {
      expect(await refOf(text)).toEqual(ref)
      expect(await refOf(`${kind}:${text}`)).toEqual(ref)
      expect(await refOf(`integration:${ours.id}/${kind}:${text}`)).toEqual(ref)
      expect(await outcomeOf(`integration:${theirs.id}/${text}`)).toBe('record_not_found')
    }
    expect((await found('tk_1')).caused).toEqual([row('item', item.id)])
    expect((await found('key-1')).status).toBe('free')
    expect((await found('key-2')).status).toBe('spent')
    expect(await outcomeOf('delivery:tk_1')).toBe('record_not_found')
  })

  it('to a host’s row finds what maps it, of all integrations, and the calls for it', async () => {
    await ours.mapExternalId('a', { type: 'issue', id: '17' })
    await theirs.mapExternalId('b', { type: 'issue', id: '17' })
    const request = await makeRequest({ relatedType: 'issue', relatedId: 17 })
    const unmapped = await makeRequest({ relatedType: 'order', relatedId: 17 })
    const explained = await found('issue:17')
    expect(explained.ref).toEqual({ kind: 'model', id: 'issue:17', integrationId: null })
    expect(explained.related).toEqual([
      { kind: 'external', id: 'a', integrationId: ours.id },
      { kind: 'external', id: 'b', integrationId: theirs.id },
    ])
    expect(explained.caused.map(({ kind }) => kind)).toEqual(['mapping', 'mapping', 'request'])
    expect(explained.caused).toContainEqual({ kind: 'request', id: request, integrationId: ours.id })
    expect((await found(`request:${request}`)).related).toEqual([explained.ref])
    // Nothing maps it: the call says what it was for, and no link leads nowhere.
    expect(await found(`request:${unmapped}`)).toMatchObject({
      related: [],
      lines: [{ text: expect.stringContaining('for order 17') }],
    })
    expect(await outcomeOf('order:17')).toBe('record_not_found')
    expect(await outcomeOf('issue:18')).toBe('record_not_found')
  })

  it('each ref that an explanation gives is found again by its reference', async () => {
    const item = await makeItem(test, await makeRun(test, ours.id), { externalId: 'a:b/c d' })
    await ours.mapExternalId('a:b/c d', { type: 'item', id: '4' })
    const { related } = await found(`item:${item.id}`)
    expect(related.map(({ kind }) => kind)).toEqual(['external', 'mapping', 'model'])
    expect((await found(`integration:${ours.id}/external:a:b/c d`)).ref).toEqual(related[0])
    // `item:4` is an item of ours; a host's model of that name is told by the word before it.
    expect((await found('model:item:4')).ref).toEqual(related[2])
  })
})

describe('a text that several have', () => {
  it('names all of them, in the order of the kinds', async () => {
    const webhook = await makeWebhook(test, ours.id, { deliveryId: '42' })
    await ours.mapExternalId('42', { type: 'order', id: '1' })
    await makeItem(test, await makeRun(test, theirs.id), { externalId: '42' })
    const request = await makeRequest({ providerRequestId: '42', idempotencyKey: '42' })
    expect(await test.integrations.admin.explain('42')).toEqual({
      outcome: 'ambiguous',
      matches: [
        { ref: { kind: 'webhook', id: webhook.id, integrationId: ours.id }, reference: `webhook:${webhook.id}` },
        ...[ours, theirs].map(({ id }) => ({
          ref: { kind: 'external', id: '42', integrationId: id },
          reference: `integration:${id}/external:42`,
        })),
        { ref: { kind: 'request', id: request, integrationId: ours.id }, reference: `request:${request}` },
        { ref: { kind: 'key', id: '42', integrationId: ours.id }, reference: `integration:${ours.id}/key:42` },
      ],
      more: false,
    })
    for (const { reference, ref } of (await ambiguous('42')).matches) expect(await refOf(reference)).toEqual(ref)
  })

  it('is bounded', async () => {
    for (let n = 0; n <= MAX_MATCHES; n += 1) await makeRequest({ providerRequestId: 'same' })
    const { matches, more } = await ambiguous('same')
    expect(matches).toHaveLength(MAX_MATCHES)
    expect(more).toBe(true)
  })

  it('is one record at the provider, however many rows of one integration have it', async () => {
    for (let n = 0; n < 30; n += 1) await makeItem(test, await makeRun(test, ours.id), { externalId: 'tk' })
    await ours.mapExternalId('tk', { type: 'order', id: '1' })
    await ours.mapExternalId('tk', { type: 'invoice', id: '1' })
    const { caused, more } = await found('tk')
    expect(caused).toHaveLength(2 + 25)
    expect(more).toBe(true)
  })
})

async function ambiguous(reference: string, options?: ExplainOptions) {
  const explanation = await test.integrations.admin.explain(reference, options)
  if (explanation.outcome === 'found') throw new Error(`${reference} is not ambiguous`)
  return explanation
}

describe('within limits', () => {
  it('what belongs to another is as if it did not exist, by any of its ids', async () => {
    const run = await makeRun(test, ours.id)
    const item = await makeItem(test, run, { externalId: 'tk' })
    const webhook = await makeWebhook(test, ours.id, { deliveryId: 'dlv' })
    const request = await makeRequest({ providerRequestId: 'req', idempotencyKey: 'key' })
    await ours.mapExternalId('tk', { type: 'issue', id: '17' })
    const references = [
      ...[`run:${run.id}`, `item:${item.id}`, `webhook:${webhook.id}`, `request:${request}`, `integration:${ours.id}`],
      ...[`sync:${ours.id}`, `acme-prod:webhook:${webhook.id}`, 'tk', 'dlv', 'req', 'key', 'issue:17', 'external:tk'],
      `integration:${ours.id}/tk`,
    ]
    for (const reference of references) {
      expect([reference, await outcomeOf(reference, OURS)]).toEqual([reference, 'found'])
      expect([reference, await outcomeOf(reference, THEIRS)]).toEqual([reference, 'record_not_found'])
      expect(await messageOf(reference, THEIRS)).toBe(
        (await messageOf('webhook:999999999', THEIRS)).replace('webhook:999999999', reference),
      )
    }
  })

  it('it is no match of a text, and no link of a host’s row', async () => {
    await ours.mapExternalId('42', { type: 'issue', id: '17' })
    await theirs.mapExternalId('42', { type: 'issue', id: '17' })
    await makeRequest({ relatedType: 'issue', relatedId: 17 })
    expect(await refOf('42', THEIRS)).toEqual({ kind: 'external', id: '42', integrationId: theirs.id })
    const { related, caused, lines } = await found('issue:17', THEIRS)
    for (const { integrationId } of [...related, ...caused]) expect(integrationId).toBe(theirs.id)
    expect(lines).toHaveLength(1)
  })

  it('matches beyond the bound hide no match within it', async () => {
    for (let n = 0; n <= MAX_MATCHES + 2; n += 1) await makeRequest({ providerRequestId: 'same' })
    const request = await makeRequest({ providerRequestId: 'same' }, theirs.id)
    expect(await refOf('same', THEIRS)).toMatchObject({ id: request })
  })

  it('an origin of another integration is followed by nobody', async () => {
    const webhook = await makeWebhook(test, ours.id)
    const request = await makeRequest({ origin: `webhook:${webhook.id}` }, theirs.id)
    expect((await found(`request:${request}`, THEIRS)).origins).toHaveLength(1)
    expect((await found(`webhook:${webhook.id}`, OURS)).caused).toEqual([])
  })

  it('a wrong limit is refused', async () => {
    expect(await outcomeOf('x', { limits: { owner: { type: '', id: 7 } } })).toBe('invalid_argument')
  })
})

async function messageOf(reference: string, options?: ExplainOptions): Promise<string> {
  return test.integrations.admin.explain(reference, options).then(
    () => 'found',
    (error: Error) => error.message,
  )
}

describe('the life of a record', () => {
  it('of a webhook: its attempts, what it caused and who acted, by time', async () => {
    const at = (second: number) => new Date(Date.UTC(2031, 0, 1, 0, 0, second))
    const { id } = await makeWebhook(test, ours.id, {
      deliveryId: 'dlv',
      eventType: 'order.paid',
      status: 'processed',
      attempts: 2,
      createdAt: at(0),
      processedAt: at(9),
    })
    const origin = `webhook:${id}`
    const failed = await makeLog({
      operation: 'webhook',
      status: 'failed',
      error: 'Error: x',
      origin,
      createdAt: at(2),
    })
    const request = await makeRequest({ origin, createdAt: at(8), durationMs: 12 })
    await act(`webhook:${id}`, 'replay')
    await test.sql`update integration_audit set created_at = ${at(5)}`
    const { lines, caused, origins, status } = await found(`webhook:${id}`)
    expect(status).toBe('processed')
    expect(lines.map(({ at: moment, text, by }) => [moment.getUTCSeconds(), text, by])).toEqual([
      [0, 'delivery dlv of type order.paid stored', null],
      [2, 'webhook: failed: Error: x', null],
      [5, 'replay (from 10.0.0.7)', 'ada'],
      [8, 'GET /orders answered 200 after 12 ms', null],
      [9, 'processed in attempt 2', null],
    ])
    expect(caused.map(({ kind, id: one }) => [kind, one])).toEqual([
      ['request', request],
      ['log', failed],
    ])
    expect(origins).toEqual([{ how: 'delivery', text: "the provider's delivery dlv", link: null }])
  })

  it('of a webhook that a newer one of its key replaced says so', async () => {
    const { id } = await makeWebhook(test, ours.id, {
      status: 'processed',
      attempts: 0,
      processedAt: new Date(),
    })
    expect((await found(`webhook:${id}`)).lines.map(({ text }) => text)).toContain(
      'processed without an attempt: a newer one of its ordering key took its place',
    )
  })

  it('of a webhook that reconciliation found says so', async () => {
    const { id } = await makeWebhook(test, ours.id, { headers: { ':source': ['reconcile'] } })
    expect((await found(`webhook:${id}`)).origins[0]?.how).toBe('reconciliation')
  })

  it('of an item: its run, its failed attempts, what made up for it and the act on it', async () => {
    const run = await makeRun(test, ours.id, { dispatched: true })
    const failed = { status: 'failed', completedAt: new Date(), error: 'x', attempts: 3 } as const
    const item = await makeItem(test, run, { externalId: 'tk', ...failed })
    const later = await makeItem(test, run, { externalId: 'tk', status: 'success', completedAt: new Date() })
    await makeLog({ operation: 'sync_item', status: 'failed', attempt: 3, origin: `item:${item.id}`, parentId: run.id })
    await act(`sync-item:${item.id}`, 'retry')
    const explained = await found(`item:${item.id}`)
    expect(explained.origins.map(({ how, link }) => [how, link?.kind ?? null])).toEqual([
      ['work', 'run'],
      ['schedule', null],
    ])
    expect(explained.related).toContainEqual({ kind: 'item', id: later.id, integrationId: ours.id })
    const texts = explained.lines.map(({ text }) => text)
    expect(texts).toContain('sync_item, attempt 3: failed')
    expect(texts).toContain('failed after 3 attempts: x')
    expect(texts).toContain('retry (from 10.0.0.7)')
  })

  it('of a request: the first attempt knows the later ones, and they know it', async () => {
    const run = await makeRun(test, ours.id)
    const item = await makeItem(test, run)
    const origin = `item:${item.id}`
    const first = await makeRequest({ failureClass: 'upstream', error: 'HTTP 503', origin })
    const second = await makeRequest({ retryOf: first, origin })
    expect((await found(`request:${first}`)).caused).toEqual([{ kind: 'request', id: second, integrationId: ours.id }])
    expect((await found(`request:${second}`)).origins.map(({ how, link }) => [how, link?.kind, link?.id])).toEqual([
      ['retry', 'request', first],
      ['work', 'item', item.id],
      ['work', 'run', run.id],
      ['request', undefined, undefined],
    ])
  })

  it('of an incident: the failed calls before it, what people did, and its events', async () => {
    const openedAt = new Date()
    const request = await makeRequest({ failureClass: 'upstream', createdAt: new Date(openedAt.getTime() - 1_000) })
    const { id } = await makeIncident(test, ours.id, { openedAt })
    const event = await makeEvent({ name: 'IncidentOpened', origin: `incident:${id}` })
    await test.integrations.admin.incidents.acknowledge(id, { by: 'ada', note: 'mine' })
    const { related, caused, lines } = await found(`incident:${id}`)
    expect(related).toEqual([{ kind: 'request', id: request, integrationId: ours.id }])
    expect(caused).toEqual([{ kind: 'event', id: event, integrationId: ours.id }])
    const texts = lines.map(({ text, by }) => `${by ?? ''}|${text}`)
    expect(texts).toEqual(expect.arrayContaining(['|acknowledged by ada', '|ada wrote: mine', 'ada|acknowledge']))
  })

  it('of an incident: the newest errors of its time, of each kind', async () => {
    const openedAt = new Date(Date.now() - 3_600_000)
    const at = (minutes: number) => new Date(openedAt.getTime() + minutes * 60_000)
    const { id } = await makeIncident(test, ours.id, { openedAt, source: 'sync', reason: 'sync_stale' })
    const call = await makeRequest({ failureClass: 'client', statusCode: 403, error: 'Forbidden', createdAt: at(1) })
    const unclassed = await makeRequest({ error: 'Error: old', createdAt: at(2) })
    await makeRequest({ failureClass: 'client', createdAt: at(-90) })
    await makeRequest({ createdAt: at(2) })
    const run = await makeRun(test, ours.id, {}, { status: 'failed', error: 'HttpError: 502', createdAt: at(3) })
    const failed = { status: 'failed', error: 'TypeError: no table', attempts: 5 } as const
    const item = await makeItem(test, run, { ...failed, completedAt: at(4), externalId: 'o-1' })
    await makeItem(test, run, { ...failed, completedAt: at(-2 * 24 * 60) })
    const waits = await makeItem(test, run, {
      ...{ status: 'processing', attempts: 2, nextAttemptAt: at(90), lastError: 'Error: not yet' },
    })
    const webhook = await makeWebhook(test, ours.id, {
      ...{ status: 'failed', attempts: 3, error: 'Error: handler', eventType: 'paid', processedAt: at(5) },
    })
    // Of another integration.
    await makeRequest({ failureClass: 'upstream', createdAt: at(1) }, theirs.id)
    await makeWebhook(test, theirs.id, { status: 'failed', error: 'theirs', processedAt: at(5) })

    const { lines, related } = await found(`incident:${id}`)
    const linked = lines.filter(({ link }) => link !== null)
    expect(linked.map(({ text, link }) => [link?.kind, link?.id, text])).toEqual([
      ['request', call, 'GET /orders failed (client): Forbidden'],
      ['request', unclassed, 'GET /orders failed (unknown): Error: old'],
      ['run', run.id, `run ${run.id}: sync: failed: HttpError: 502`],
      ['item', item.id, `item ${item.id} (external id "o-1") failed after 5 attempts: TypeError: no table`],
      ['webhook', webhook.id, `webhook ${webhook.id} of type paid failed in attempt 3: Error: handler`],
      ['item', waits.id, `item ${waits.id} waits after attempt 2: Error: not yet`],
    ])
    expect(related).toHaveLength(linked.length)

    // What came later, and how it stands now, is no part of one that is closed.
    await setClosed(id, at(3))
    const closed = (await found(`incident:${id}`)).lines.filter(({ link }) => link !== null)
    expect(closed.map(({ link }) => [link?.kind, link?.id])).toEqual([
      ['request', call],
      ['request', unclassed],
      ['run', run.id],
    ])
  })

  it('of an incident: a webhook that is not kept registered, and a record that loops', async () => {
    const { db, tables } = test.framework
    const { id } = await makeIncident(test, ours.id, { source: 'webhooks', reason: 'webhook_subscription_failed' })
    const failing = { failures: 4, failingSince: new Date(), lastError: 'HttpError: 404' }
    await db.insert(tables.webhookSubscriptions).values({ integrationId: ours.id, isWanted: true, ...failing })
    await db.insert(tables.writtenRecords).values({ integrationId: ours.id, key: 'issue:42', loopingSince: new Date() })
    const texts = (await found(`incident:${id}`)).lines.map(({ text }) => text)
    expect(texts).toContain('its webhook can not be kept registered since then, 4 looks failed: HttpError: 404')
    expect(texts).toContain('record "issue:42" is written again and again since then')
  })

  it('of an integration and of its run under way: pauses that last, by whom and since when', async () => {
    const texts = async (reference: string) => (await found(reference)).lines.map(({ text }) => text)
    const run = await makeRun(test, ours.id)
    await act(`integration:${ours.id}`, 'pause --stream deals')
    expect(await texts(`run:${run.id}`)).not.toContain('paused since then, by ada')
    await act(`integration:${ours.id}`, 'pause')
    const { lines } = await found(`integration:${ours.id}`)
    const paused = lines.filter(({ text }) => text.endsWith('paused since then, by ada'))
    expect(paused.map(({ text }) => text)).toEqual(['its syncs are paused since then, by ada'])
    expect(await texts(`run:${run.id}`)).toContain('paused since then, by ada')
    await act(`integration:${ours.id}`, 'resume')
    expect((await texts(`integration:${ours.id}`)).join()).not.toContain('paused since then')
    expect((await texts(`run:${run.id}`)).join()).not.toContain('paused since then')
  })

  it('of an integration with streams: those that are held, also where a pause of all has ended for another', async () => {
    const { id } = await makeIntegration(test, 'split')
    const paused = async () =>
      (await found(`integration:${id}`)).lines.map(({ text }) => text).filter((text) => text.includes('paused'))
    await act(`integration:${id}`, 'pause --stream deals', id)
    expect(await paused()).toEqual(['its stream deals is paused since then, by ada'])
    await act(`integration:${id}`, 'pause', id)
    expect(await paused()).toEqual(['its syncs are paused since then, by ada'])
    await act(`integration:${id}`, 'resume --stream people', id)
    await makeRun(test, id, {}, { stream: 'people' })
    expect(await paused()).toEqual(['its stream deals is paused since then, by ada'])
  })

  it('of an integration: the pause of the Schedule that begins its syncs', async () => {
    const pause = vi.spyOn(test.framework.temporal, 'dispatchPause')
    onTestFinished(async () => {
      pause.mockResolvedValue(null)
      await noteSchedulePause(test.framework)
      pause.mockRestore()
    })
    pause.mockResolvedValue({ id: 'acme-prod:dispatch-syncs', note: null })
    await noteSchedulePause(test.framework)
    expect((await found(`integration:${ours.id}`)).lines.map(({ text }) => text)).toContain(
      'no sync of any integration begins by itself since then: the Schedule acme-prod:dispatch-syncs is paused in Temporal',
    )
  })

  it('of an event: each consumer, and what it caused', async () => {
    const at = '2031-06-01T12:00:00.000Z'
    const outcomes = { 'listener:x': { status: 'waiting', attempts: 2, at, dueAt: at, error: 'Error: no' }, broken: 7 }
    const id = await makeEvent({ outcomes })
    const request = await makeRequest({ origin: `event:${id}` })
    const { lines, caused, status } = await found(`evt_${id}`)
    // As the list of events says it.
    expect(status).toBe('retrying')
    expect(caused).toEqual([{ kind: 'request', id: request, integrationId: ours.id }])
    expect(lines.map(({ text }) => text)).toContain('listener:x: waiting in attempt 2: Error: no')
    const quiet = await makeEvent({ outcomes: { 'target:1a': { status: 'silenced', attempts: 0, at } } })
    expect((await found(`event:${quiet}`)).lines.map(({ text }) => text)).toContain('target:1a: silenced')
  })

  it('of a run: the most common error of its items, also of those that wait', async () => {
    const run = await makeRun(test, ours.id)
    const lastError = 'new row violates check constraint "closed"'
    const nextAttemptAt = new Date(Date.now() + 60_000)
    const waits = await makeItem(test, run, { status: 'processing', attempts: 1, nextAttemptAt, lastError })
    await makeItem(test, run, { status: 'processing', attempts: 1, nextAttemptAt, lastError })
    await makeItem(test, run, { status: 'failed', error: lastError, externalId: 'made up for' })
    await makeItem(test, run, { status: 'failed', error: 'Error: another' })
    await makeItem(test, await makeRun(test, ours.id), { status: 'success', externalId: 'made up for' })
    const texts = (await found(`run:${run.id}`)).lines.map(({ text }) => text)
    expect(texts).toContain(`most common error of its items (2 waiting, 1 failed): ${lastError}`)
    expect(texts).toContain(`item ${waits.id} waiting: ${lastError}`)
    expect(await found(`item:${waits.id}`)).toMatchObject({ status: 'waiting' })
  })

  it('of a run: the newest of its items, failed ones always among them', async () => {
    const run = await makeRun(test, ours.id, { listed: 60 }, { status: 'partial', durationMs: 5_000 })
    const failed = await makeItem(test, run, { status: 'failed', error: 'x' })
    const succeeded = await test.sql<{ id: string }[]>`
      insert into integration_sync_items (integration_id, sync_log_id, event_class, payload, status)
      select ${ours.id}, ${run.id}, 'test.thing', '{}', 'success' from generate_series(1, 60) returning id`
    const { caused, more, lines } = await found(`run:${run.id}`)
    const newest = succeeded.map(({ id }) => Number(id)).sort((a, b) => b - a)
    expect(caused).toEqual(
      [failed.id, ...newest.slice(0, 25)].map((id) => ({ kind: 'item', id, integrationId: ours.id })),
    )
    expect(more).toBe(true)
    expect(lines.at(-1)).toMatchObject({ text: 'sync run ended: partial, 60 items listed' })
  })

  it('of an idempotency key: its origin is that of the oldest call with it, shown or not', async () => {
    const webhook = await makeWebhook(test, ours.id)
    await makeRequest({ idempotencyKey: 'k-1', origin: `webhook:${webhook.id}` })
    const later = { idempotencyKey: 'k-1', origin: 'log:1' }
    for (let n = 0; n < 26; n += 1) await makeRequest(later)
    const { origins, caused, more } = await found('key:k-1')
    expect(origins[0]?.link).toEqual({ kind: 'webhook', id: webhook.id, integrationId: ours.id })
    expect([caused.length, more]).toEqual([25, true])
  })

  it('of a record that is gone: the acts on it', async () => {
    const { id } = ours
    await act('webhook:999999', 'replay')
    await test.integrations.delete(id)
    for (const reference of ['webhook:999999', `integration:${id}`]) {
      expect(await found(reference, OURS)).toMatchObject({ exists: false, integration: null, origins: [] })
      expect(await outcomeOf(reference, THEIRS)).toBe('record_not_found')
    }
    expect((await found('webhook:999999')).lines).toMatchObject([{ by: 'ada', text: 'replay (from 10.0.0.7)' }])
  })

  it('knows no act on a row of the same id of another integration', async () => {
    const { id } = await makeWebhook(test, ours.id)
    await act(`webhook:${id}`, 'replay', theirs.id, 'eve')
    expect((await found(`webhook:${id}`)).lines.map(({ by }) => by)).not.toContain('eve')
  })
})

describe('hostile input', () => {
  it.each([
    ["' or '1'='1"],
    ['webhook:1; drop table integrations'],
    ["integration:1/'); delete from integrations; --"],
    ['%'],
    ['_'],
    ['(a+)+$'],
    ['.*'],
    ['\\'],
    ['$1'],
    ['\u0001\u001b[31m\u007f'],
    ['\u202eevil'],
    ['x'.repeat(600)],
    ['😀'.repeat(250)],
    [':'.repeat(600)],
    ['webhook:9223372036854775807'],
    ['model:order:99999999999999999999'],
    ['order:999999999999999'],
    ['__proto__'],
    ['constructor:1'],
    ['NaN'],
  ])('%j is looked up as any text', async (reference) => {
    expect(await outcomeOf(reference)).toBe('record_not_found')
  })

  it.each([[''], ['a\u0000'], ['\ud800'], ['x'.repeat(601)], ['x'.repeat(5_000_000)], [null], [undefined], [7], [{}]])(
    'is refused: %#',
    async (reference) => {
      expect(await outcomeOf(reference)).toBe('invalid_argument')
    },
  )

  it('the error says what is allowed, and what was given, on one line', async () => {
    const message = await messageOf('no\nsuch')
    expect(message).toMatch(/^There is no record "no\\nsuch"\. Allowed are webhook:4711, item:…/)
    expect((await messageOf('x'.repeat(5_000))).length).toBeLessThan(1_000)
  })

  it('long texts of rows are cut, and are one line each', async () => {
    const id = await makeRequest({ failureClass: 'client', error: `a\nb ${'x'.repeat(5_000)}`, endpoint: '/a\n\nb' })
    for (const { text } of (await found(`request:${id}`)).lines) {
      expect(text.length).toBeLessThan(1_000)
      expect(text).not.toContain('\n')
    }
  })
})

it('is asked of indexes alone', async () => {
  const { db, tables } = test.framework
  const webhook = await makeWebhook(test, ours.id, { deliveryId: 'dlv' })
  // With sequential scans off, a plan has one only where no index serves.
  const plan = await db.transaction(async (tx) => {
    await tx.execute(sql`set local enable_seqscan = off`)
    const inEach = (table: PgTable, isIt: SQL) => sql`
      select from ${tables.integrations} i cross join lateral (
        select from ${table} t where t.integration_id = i.id and ${isIt} limit 1) one order by i.id limit 11`
    const questions = [
      sql`select from ${tables.requests} where origin = ${`webhook:${webhook.id}`} order by id desc limit 26`,
      sql`select from ${tables.requests} where provider_request_id = 'x'`,
      sql`select from ${tables.requests} where retry_of = 17`,
      sql`select from ${tables.logs} where origin = 'webhook:1' order by id desc limit 26`,
      sql`select from ${tables.mappings} where origin = 'webhook:1' order by id desc limit 26`,
      sql`select from ${tables.events} where origin = 'webhook:1' and integration_id = 1`,
      inEach(tables.webhooks, sql`t.delivery_id = 'x'`),
      inEach(tables.mappings, sql`t.external_id = 'x'`),
      inEach(tables.syncItems, sql`t.external_id = 'x'`),
      inEach(tables.idempotencyKeys, sql`t.key = 'x'`),
      inEach(tables.requests, sql`t.idempotency_key = 'x'`),
      sql`select from ${tables.audit} where target = 'webhook:1'`,
    ]
    const plans: string[] = []
    for (const question of questions) plans.push(JSON.stringify(await tx.execute(sql`explain (costs off) ${question}`)))
    return plans
  })
  for (const one of plan) expect(one).not.toContain('Seq Scan')
})
