/** Claim, handler, settlement: one batch of stored webhooks as a worker runs it. */
import { Context } from '@temporalio/activity'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import type { WebhookBatchResult } from '../../src/activities/webhooks.ts'
import { BackendUnreachable } from '../../src/core/errors.ts'
import { connect } from '../../src/db/client.ts'
import { claimPendingWebhooks, settleWebhooks } from '../../src/db/queries/webhooks.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { HandlesWebhooks, WebhookHandler } from '../../src/providers/provider.ts'
import { runActivity } from '../support/activities.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { encryptionKey, occasion, testIntegrations } from '../support/integrations.ts'
import { CREDENTIALS, SECRET, TOKEN, webhookProvider } from '../support/providers.ts'
import { logsOf, makeIntegration, makeWebhook, setIntegration, webhookOf } from '../support/rows.ts'
import { SOON } from '../support/soon.ts'

let database: TestDatabase
let test: TestIntegrations
/** The same, where a handler's time limit is to run out: elsewhere a machine that stands still must not reach it. */
let hasty: TestIntegrations
let integration: Integration
/** What the provider does with a webhook, by the test at hand. */
const handle = vi.fn<HandlesWebhooks['handleWebhook']>()
let batches = 0

beforeAll(async () => {
  database = await createTestDatabase()
  const scripted = webhookProvider({ handleWebhook: (...given) => handle(...given) })
  const encryptionKeys = encryptionKey('test')
  const providers = { acme: scripted, silent: {} }
  test = testIntegrations(database.url, { encryptionKeys, providers, config: { webhook: { concurrency: 4 } } })
  hasty = testIntegrations(database.url, { encryptionKeys, providers, config: { webhook: { handler_timeout: 1 } } })
})

afterAll(async () => {
  await hasty.close()
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  handle.mockReset()
  handle.mockReturnValue({ done: true })
  integration = await makeIntegration(test, 'acme')
})

describe('a batch', () => {
  it('takes pending rows by id up to its limit, runs each and settles them', async () => {
    const rows = [await pending(), await pending(), await pending()]
    expect(await batch({ limit: 2 })).toMatchObject({ claimed: 2, processed: 2, failed: 0 })
    expect(await Promise.all(rows.map(statusOf))).toEqual(['processed', 'processed', 'pending'])
    expect(await batch({ limit: 2 })).toMatchObject({ claimed: 1, processed: 1, failed: 0 })
    expect(await batch({ limit: 2 })).toMatchObject({ claimed: 0, processed: 0, failed: 0 })
    expect(handle).toHaveBeenCalledTimes(3)
  })

  it('takes no more than its limit whatever plan Postgres chooses', async () => {
    for (let n = 0; n < 5; n += 1) await pending()
    const apart = connect({ database: database.url })
    const claimed = await apart.db.transaction(async (tx) => {
      for (const plan of ['hashjoin', 'mergejoin', 'hashagg', 'material', 'sort'])
        await tx.execute(`set local enable_${plan} = off`)
      const input = { integrationId: integration.id, claim: 'plan:1', limit: 2 }
      return claimPendingWebhooks(tx as never, test.framework.tables, input)
    })
    await apart.close()
    expect(claimed).toHaveLength(2)
  })

  it('leaves rows of other integrations alone', async () => {
    const other = await makeIntegration(test, 'acme')
    const row = await makeWebhook(test, other.id)
    await batch()
    expect(await statusOf(row)).toBe('pending')
  })

  it('settles a row: processed, by nobody, when, without an error', async () => {
    const row = await pending({ error: 'of an attempt before', attempts: 3 })
    await batch()
    expect(await webhookOf(test, row.id)).toMatchObject({
      status: 'processed',
      attempts: 4,
      error: null,
      claim: null,
      processedAt: expect.any(Date),
    })
  })

  it('writes one inbound log line per attempt', async () => {
    const row = await pending()
    handle.mockReturnValue({ answer: 42 })
    await batch()
    expect(await logsOf(test, integration.id, 'webhook')).toEqual([
      expect.objectContaining({
        direction: 'inbound',
        status: 'success',
        externalId: row.deliveryId,
        resultData: { answer: 42 },
        error: null,
        attempt: null,
        maxAttempts: null,
        parentId: null,
        durationMs: expect.any(Number),
      }),
    ])
  })

  it('hands the stored request to the handler, byte for byte', async () => {
    await pending({ payload: 'YQBi', headers: { ':encoding': ['base64'], 'x-a': ['1'], ':query': ['q=1'] } })
    await batch()
    const [, request] = handle.mock.calls[0] ?? []
    expect(Buffer.from(request?.rawBody ?? [])).toEqual(Buffer.from('a\0b'))
    expect([request?.headers.get('x-a'), request?.query.get('q'), request?.method]).toEqual(['1', '1', 'POST'])
  })

  it('runs no more handlers at once than webhook.concurrency', async () => {
    for (let n = 0; n < 8; n += 1) await pending()
    let running = 0
    let most = 0
    const four = occasion()
    handle.mockImplementation(async () => {
      running += 1
      most = Math.max(most, running)
      if (running === 4) four.happen()
      await four.happened
      running -= 1
    })
    await batch()
    expect(most).toBe(4)
  })

  it('shares no row with another batch at the same moment', async () => {
    for (let n = 0; n < 40; n += 1) await pending()
    const results = await Promise.all([batch({ limit: 25 }), batch({ limit: 25 }), batch({ limit: 25 })])
    expect(sum(results.map(({ claimed }) => claimed))).toBe(40)
    expect(sum(results.map(({ processed }) => processed))).toBe(40)
    expect(handle).toHaveBeenCalledTimes(40)
    const rows =
      await test.sql`select distinct attempts, status from integration_webhooks where integration_id = ${integration.id}`
    expect([...rows]).toEqual([{ attempts: 1, status: 'processed' }])
  })

  it('of several fails only those whose handler throws', async () => {
    const rows = [await pending(), await pending({ payload: 'poison' }), await pending()]
    handle.mockImplementation((_, request) => {
      if (request.text() === 'poison') throw new TypeError('bad payload')
    })
    expect(await batch()).toMatchObject({ claimed: 3, processed: 2, failed: 1 })
    expect(await Promise.all(rows.map(statusOf))).toEqual(['processed', 'failed', 'processed'])
    expect(await webhookOf(test, rows[1]?.id ?? 0)).toMatchObject({
      error: 'TypeError: bad payload',
      processedAt: expect.any(Date),
      attempts: 1,
    })
    const [, failed] = await logsOf(test, integration.id, 'webhook').then((logs) => [
      0,
      logs.find((log) => log.status === 'failed'),
    ])
    expect(failed).toMatchObject({ error: 'TypeError: bad payload', externalId: rows[1]?.deliveryId, resultData: null })
  })
})

describe('a webhook whose integration can not handle it', () => {
  it('is failed when an operator switched the integration off, the attempt counted', async () => {
    const row = await pending()
    await integration.disable()
    await batch()
    expect(await webhookOf(test, row.id)).toMatchObject({
      status: 'failed',
      attempts: 1,
      error: expect.stringContaining('switched off'),
    })
    expect(handle).not.toHaveBeenCalled()
  })

  it.each([
    ['unregistered', 'gone', 'not registered'],
    ['without webhooks', 'silent', 'does not handle webhooks'],
  ])('is failed when the provider is %s', async (_, provider, error) => {
    const row = await pending()
    await setIntegration(test, integration.id, { provider })
    await batch()
    expect(await webhookOf(test, row.id)).toMatchObject({
      status: 'failed',
      attempts: 1,
      error: expect.stringContaining(error),
    })
  })

  it('stays pending while its health has the integration disabled, until enable() wakes the inbox', async () => {
    const row = await pending()
    await setIntegration(test, integration.id, { isActive: false, healthStatus: 'disabled' })
    expect(await batch()).toMatchObject({ claimed: 0 })
    expect(await webhookOf(test, row.id)).toMatchObject({ status: 'pending', attempts: 0 })
    const wakes = test.starts.wakes.length
    await integration.enable()
    expect(test.starts.wakes.slice(wakes)).toEqual([integration.id])
    expect(await batch()).toMatchObject({ claimed: 1, processed: 1 })
  })

  it('is failed, saying so, when the credentials can not be read', async () => {
    const row = await pending()
    await setIntegration(test, integration.id, { credentials: 'plain' })
    await batch()
    expect(await webhookOf(test, row.id)).toMatchObject({
      status: 'failed',
      error: expect.stringContaining('CredentialsUnreadable'),
    })
  })
})

describe('routing', () => {
  const handlers: Record<string, WebhookHandler> = {
    'thing.made': (_, request) => ({ made: request.text() }),
    'thing.sent': { workflow: 'sendThing', taskQueue: 'of-the-host' },
  }
  it.each([
    ['no type', null, { byProvider: true }],
    ['a declared type', 'thing.made', { made: '{}' }],
    ['an undeclared type', 'thing.lost', { status: 'ignored' }],
    ['the type `constructor`', 'constructor', { status: 'ignored' }],
    ['the type `__proto__`', '__proto__', { status: 'ignored' }],
    ['the type `toString`', 'toString', { status: 'ignored' }],
  ])('of %s', async (_, eventType, result) => {
    const to = await withHandlers(handlers)
    const row = await makeWebhook(test, to.id, { eventType })
    await batch({ of: to })
    expect(await statusOf(row)).toBe('processed')
    expect((await logsOf(test, to.id, 'webhook'))[0]?.resultData).toEqual(result)
  })

  it('of an own key called `__proto__` finds its handler', async () => {
    const to = await withHandlers(Object.fromEntries([['__proto__', () => 'own']]))
    await makeWebhook(test, to.id, { eventType: '__proto__' })
    await batch({ of: to })
    expect((await logsOf(test, to.id, 'webhook'))[0]?.resultData).toBe('own')
  })

  it('starts a handler that is a workflow, with ids and no payload', async () => {
    const to = await withHandlers(handlers)
    const row = await makeWebhook(test, to.id, { eventType: 'thing.sent', payload: 'a payload' })
    await batch({ of: to })
    expect(await statusOf(row)).toBe('processed')
    expect(test.starts.handlers.at(-1)).toEqual({
      workflow: 'sendThing',
      taskQueue: 'of-the-host',
      input: { webhookId: row.id, integrationId: to.id, eventType: 'thing.sent' },
      replayAttempt: null,
    })
  })
})

describe('a result', () => {
  it.each([
    ['nothing', undefined, null],
    ['null', null, null],
    ['false', false, false],
    ['a text with U+0000', 'a\0b', 'ab'],
    ['half a surrogate pair', '\ud83d', '\ufffd'],
    ['64 KiB of JSON', 'x'.repeat(65_534), 'x'.repeat(65_534)],
    ['one byte more', 'x'.repeat(65_535), { note: 'result of 65537 bytes not stored' }],
    [
      'a credential',
      { echoed: TOKEN, auth: { access_token: 'short' } },
      { echoed: '[REDACTED]', auth: { access_token: '[REDACTED]' } },
    ],
    ['no JSON', { big: 1n }, { note: expect.stringContaining('no JSON') }],
  ])('that is %s', async (_, returned, stored) => {
    const row = await pending()
    handle.mockReturnValue(returned)
    await batch()
    expect(await statusOf(row)).toBe('processed')
    expect((await logsOf(test, integration.id, 'webhook'))[0]?.resultData).toEqual(stored)
  })
})

describe('an error', () => {
  it.each([
    ['a credential', new Error(`sent ${TOKEN} to it`), 'Error: sent [REDACTED] to it'],
    ['a credential URL-encoded', new Error(`?t=${encodeURIComponent(TOKEN)}`), 'Error: ?t=[REDACTED]'],
    ['a credential in base64', new Error(Buffer.from(SECRET).toString('base64')), 'Error: [REDACTED]'],
    [
      'a credential at the cut',
      new Error(`${'x'.repeat(985)} ${TOKEN}`),
      expect.not.stringContaining(TOKEN.slice(0, 5)),
    ],
    ['a code', Object.assign(new Error('away'), { code: 'ECONNRESET' }), 'Error: away (ECONNRESET)'],
    ['U+0000', new Error('a\0b'), 'Error: ab'],
    ['U+0000 in a thrown text', 'a\0b', 'ab'],
    ['a pair that the cut halves', new Error(`${'x'.repeat(992)}😀`), `Error: ${'x'.repeat(992)}\ufffd`],
    ['nothing', undefined, 'undefined'],
  ])('with %s is stored as one line', async (_, thrown, stored) => {
    const row = await pending()
    handle.mockImplementation(() => {
      throw thrown
    })
    await batch()
    const { status, error } = await webhookOf(test, row.id)
    expect([status, error]).toEqual(['failed', stored])
    expect((await logsOf(test, integration.id, 'webhook'))[0]?.error).toEqual(stored)
    expect(JSON.stringify(test.lines)).not.toContain(TOKEN)
  })

  it('of a handler that outlives webhook.handler_timeout is HandlerTimedOut; its late result is dropped', async () => {
    const row = await pending()
    const late = occasion()
    handle.mockImplementation(async () => {
      await late.happened
      return 'too late'
    })
    expect(await batch({ by: hasty })).toMatchObject({ failed: 1 })
    late.happen()
    expect(await webhookOf(test, row.id)).toMatchObject({
      status: 'failed',
      error: expect.stringMatching(/^HandlerTimedOut: .*1 s.*\(handler_timed_out\)$/),
    })
  })
})

describe('a settlement', () => {
  const outcome = (row: { id: number }, given = {}) => ({
    id: row.id,
    attempts: 1,
    claim: 'run:1',
    status: 'processed' as const,
    error: null,
    result: null,
    durationMs: 1,
    ...given,
  })
  const settle = (...outcomes: ReturnType<typeof outcome>[]) =>
    settleWebhooks(test.framework.db, test.framework.tables, outcomes)

  it.each([
    ['its attempts moved on', { attempts: 2 }],
    ['another claim holds the row', { claim: 'run:2' }],
    ['a lost worker was counted since', { claim: 'run:1:1' }],
    ['the row is settled', { status: 'processed', claim: null }],
    ['the row went back', { status: 'pending', claim: null }],
  ] as const)('changes nothing when %s', async (_, values) => {
    const row = await pending({ status: 'processing', attempts: 1, claim: 'run:1', ...values })
    expect(await settle(outcome(row, { status: 'failed', error: 'late' }))).toEqual(new Set())
    expect(await webhookOf(test, row.id)).toEqual(row)
    expect(await logsOf(test, integration.id, 'webhook')).toEqual([])
  })

  it('takes effect once, with one log line', async () => {
    const row = await pending({ status: 'processing', attempts: 1, claim: 'run:1' })
    expect(await settle(outcome(row))).toEqual(new Set([row.id]))
    expect(await settle(outcome(row))).toEqual(new Set())
    expect(await logsOf(test, integration.id, 'webhook')).toHaveLength(1)
  })

  it('whose answer was lost has taken effect: it is counted, and not called superseded', async () => {
    const row = await pending()
    const { db } = test.framework
    const execute = db.execute.bind(db)
    let settlements = 0
    Object.assign(db, {
      async execute(statement: Parameters<typeof execute>[0]) {
        const answer = await execute(statement)
        settlements += 1
        if (settlements === 1) throw new Error('the answer was lost')
        return answer
      },
    })
    const before = test.lines.length
    try {
      expect(await batch()).toMatchObject({ claimed: 1, processed: 1, failed: 0 })
    } finally {
      Object.assign(db, { execute })
    }
    expect(await webhookOf(test, row.id)).toMatchObject({ status: 'processed', attempts: 1, claim: null })
    expect(await logsOf(test, integration.id, 'webhook')).toHaveLength(1)
    expect(test.lines.slice(before).map(({ message }) => message)).toEqual([
      'a settlement failed; it is tried again',
      'webhook processed',
    ])
  })

  it('that loses is one `superseded` warning, and no count', async () => {
    const row = await pending()
    handle.mockImplementation(async () => {
      await test.sql`update integration_webhooks set claim = 'another:1', attempts = 2 where id = ${row.id}`
    })
    const before = test.lines.length
    expect(await batch()).toMatchObject({ claimed: 1, processed: 0, failed: 0 })
    expect(await webhookOf(test, row.id)).toMatchObject({ status: 'processing', attempts: 2, claim: 'another:1' })
    expect(test.lines.slice(before).map(({ level, fields }) => [level, fields.event])).toEqual([
      ['warn', 'webhook.superseded'],
    ])
  })

  it('waits for a database that fails for a moment: the handler does not run again', async () => {
    const row = await pending()
    await test.sql.unsafe(`
      create sequence settlements;
      create function fail_twice() returns trigger language plpgsql as $$
        begin
          if new.status = 'processed' and nextval('settlements') <= 2 then raise exception 'away for a moment'; end if;
          return new;
        end $$;
      create trigger away before update on integration_webhooks for each row execute function fail_twice();`)
    const before = test.lines.length
    try {
      expect(await batch()).toMatchObject({ processed: 1 })
    } finally {
      await test.sql.unsafe(
        'drop trigger away on integration_webhooks; drop function fail_twice; drop sequence settlements',
      )
    }
    expect(await statusOf(row)).toBe('processed')
    expect(handle).toHaveBeenCalledTimes(1)
    const warnings = test.lines.slice(before).filter(({ message }) => message.startsWith('a settlement failed'))
    expect(warnings).toHaveLength(2)
  })
})

describe('a row whose integration can not be read', () => {
  it('has not failed: it waits until the database is back, and then its handler runs, once', async () => {
    // More than run at once, so that the last ones are read after the first handler has run.
    const rows = await Promise.all(Array.from({ length: 8 }, () => pending()))
    let away: Promise<unknown> | undefined
    handle.mockImplementation(async () => {
      away ??= test.sql`alter table integrations rename to integrations_away`.execute()
      await away
      await until(performance.now() + READ_AGAIN_MS)
    })
    const before = test.lines.length
    const running = batch()
    try {
      await vi.waitFor(
        () =>
          expect(test.lines.slice(before).map(({ message }) => message)).toContain(
            'reading what a row needs failed; it is tried again',
          ),
        SOON,
      )
    } finally {
      await test.sql`alter table integrations_away rename to integrations`
    }
    expect(await running).toMatchObject({ claimed: 8, processed: 8, failed: 0 })
    expect(handle).toHaveBeenCalledTimes(8)
    for (const row of rows) expect(await webhookOf(test, row.id)).toMatchObject({ status: 'processed', attempts: 1 })
  })
})

describe('the integration', () => {
  it('is read once for all rows that start within 250 ms: seven statements for a batch of 200', async () => {
    await test.sql`
      insert into integration_webhooks (integration_id, delivery_id, payload, headers)
      select ${integration.id}, 'counted-' || n, '{}', '{}' from generate_series(1, 200) n`
    const startedAt = performance.now()
    const statements = await countStatements(() => batch())
    const tookMs = performance.now() - startedAt
    expect(handle).toHaveBeenCalledTimes(200)
    // What an earlier try holds, the claim, the integration, and 4 settlements of 50.
    expect(statements).toBeGreaterThanOrEqual(7)
    // On a slow machine the integration is read again, and fewer outcomes are there when they are settled.
    expect(statements).toBeLessThanOrEqual(7 + tookMs / 250 + tookMs / 100)
  })

  it('switched off under a batch turns away what starts 250 ms later', async () => {
    const rows = await Promise.all(Array.from({ length: 5 }, () => pending()))
    const started = occasion()
    handle.mockImplementation(async () => {
      started.happen()
      await off
      await until(performance.now() + READ_AGAIN_MS)
    })
    const off = started.happened.then(() => integration.disable())
    expect(await batch()).toMatchObject({ processed: 4, failed: 1 })
    const last = await webhookOf(test, Math.max(...rows.map(({ id }) => id)))
    expect(last).toMatchObject({ status: 'failed', error: 'the integration is switched off' })
  })

  it('is shared by the handlers of a batch, so none can change what the others see', async () => {
    const to = await makeIntegration(test, 'acme', { metadata: { list: [1] }, credentials: { nested: { key: 'a' } } })
    await setIntegration(test, to.id, { syncCursor: { at: [1] } })
    await makeWebhook(test, to.id)
    const failures: unknown[] = []
    handle.mockImplementation(({ metadata, syncCursor, credentialsArray }) => {
      for (const shared of [metadata, metadata.list, syncCursor, credentialsArray().nested])
        try {
          Object.assign(shared as object, { 0: 'changed' })
        } catch (error) {
          failures.push(error)
        }
    })
    await batch({ of: to })
    expect(failures).toEqual([1, 2, 3, 4].map(() => expect.any(TypeError)))
  })
})

describe('what a handler is told', () => {
  it('is which attempt at which webhook it is called for', async () => {
    const row = await pending({ attempts: 2, eventType: 'made' })
    await batch()
    expect(handle.mock.calls[0]?.[2]).toEqual({
      webhookId: row.id,
      deliveryId: row.deliveryId,
      eventType: 'made',
      attempt: 3,
      signal: expect.any(AbortSignal),
    })
  })

  it('is aborted at webhook.handler_timeout, and what it throws then is too late', async () => {
    const row = await pending()
    handle.mockImplementation(
      (_, __, { signal }) =>
        new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => reject(new Error(`stopped: ${signal.reason?.code}`)))
        }),
    )
    await batch({ by: hasty })
    expect((await webhookOf(test, row.id)).error).toMatch(/^HandlerTimedOut: /)
    await expect(handle.mock.results[0]?.value).rejects.toThrow('stopped: handler_timed_out')
  })

  it('is not aborted when the worker stops: what runs is finished', async () => {
    const row = await pending()
    let cancel = (): void => {}
    handle.mockImplementation(async (_, __, { signal }) => {
      cancel()
      await Context.current().cancelled.catch(() => {})
      return { aborted: signal.aborted }
    })
    await batch({
      onStart: (stop) => {
        cancel = stop
      },
    })
    expect(await statusOf(row)).toBe('processed')
    expect((await logsOf(test, integration.id, 'webhook'))[0]?.resultData).toEqual({ aborted: false })
  })
})

describe('a handler that is a workflow', () => {
  it('goes back to pending, the attempt not counted, when Temporal can not be told; others of the batch run', async () => {
    const to = await withHandlers({ 'thing.sent': { workflow: 'sendThing' } })
    const rows = [await makeWebhook(test, to.id, { eventType: 'thing.sent' }), await makeWebhook(test, to.id)]
    const { startHandler } = test.framework.workflows
    Object.assign(test.framework.workflows, {
      startHandler: () => Promise.reject(new BackendUnreachable('Temporal', 'nowhere', { remedy: '' })),
    })
    try {
      expect(await batch({ of: to, limit: 5 })).toEqual({
        claimed: 5,
        processed: 1,
        failed: 0,
        slowestMs: expect.any(Number),
      })
    } finally {
      Object.assign(test.framework.workflows, { startHandler })
    }
    expect(await webhookOf(test, rows[0]?.id ?? 0)).toMatchObject({ status: 'pending', attempts: 0, claim: null })
    expect(await logsOf(test, to.id, 'webhook')).toHaveLength(1)
    expect(await batch({ of: to })).toMatchObject({ claimed: 1, processed: 1 })
    expect(await webhookOf(test, rows[0]?.id ?? 0)).toMatchObject({ status: 'processed', attempts: 1 })
  })

  it('fails when its start is refused', async () => {
    const to = await withHandlers({ 'thing.sent': { workflow: 'sendThing' } })
    const row = await makeWebhook(test, to.id, { eventType: 'thing.sent' })
    const { startHandler } = test.framework.workflows
    Object.assign(test.framework.workflows, { startHandler: () => Promise.reject(new TypeError('no such queue')) })
    try {
      await batch({ of: to })
    } finally {
      Object.assign(test.framework.workflows, { startHandler })
    }
    expect(await webhookOf(test, row.id)).toMatchObject({ status: 'failed', error: 'TypeError: no such queue' })
  })
})

describe('a row that was replayed', () => {
  it('is logged as `webhook_replay`, and its handler workflow is a start of its own', async () => {
    const to = await withHandlers({ 'thing.sent': { workflow: 'sendThing' } })
    await makeWebhook(test, to.id, { eventType: 'thing.sent', attempts: 3, replayAttempt: 3 })
    await batch({ of: to })
    expect(await logsOf(test, to.id, 'webhook')).toEqual([])
    expect(await logsOf(test, to.id, 'webhook_replay')).toHaveLength(1)
    expect(test.starts.handlers.at(-1)).toMatchObject({ replayAttempt: 3 })
  })
})

describe('a second try of the same batch', () => {
  const claim = 'run-x:7'

  it('takes up its own rows first: attempts + 1, the loss in the claim', async () => {
    const row = await held(1, claim)
    const seen = occasion<{ attempts: number; claim: string | null }>()
    handle.mockImplementation(async () => seen.happen(await webhookOf(test, row.id)))
    expect(await batch({ claim })).toMatchObject({ claimed: 0, processed: 1 })
    expect(await seen.happened).toMatchObject({ attempts: 2, claim: `${claim}:1` })
    expect(await webhookOf(test, row.id)).toMatchObject({ status: 'processed', attempts: 2, claim: null })
  })

  it('runs rows of a first loss beside each other', async () => {
    await held(1, claim)
    await held(1, claim)
    const both = occasion()
    let running = 0
    handle.mockImplementation(async () => {
      running += 1
      if (running === 2) both.happen()
      await both.happened
    })
    expect(await batch({ claim })).toMatchObject({ processed: 2, failed: 0 })
  })

  it('runs one at a time what has lost more than one worker', async () => {
    await held(2, `${claim}:1`)
    await held(2, `${claim}:1`)
    let running = 0
    handle.mockImplementation(async () => {
      running += 1
      expect(running).toBe(1)
      await test.sql`select 1`
      running -= 1
    })
    expect(await batch({ claim })).toMatchObject({ processed: 2, failed: 0 })
  })

  it.each([
    [1, 'processed'],
    [2, 'processed'],
    [3, 'processed'],
    [4, 'failed'],
  ])('after %i losses before: %s', async (losses, status) => {
    const row = await held(losses + 1, `${claim}:${losses}`)
    await batch({ claim })
    const settled = await webhookOf(test, row.id)
    expect(settled).toMatchObject({ status, attempts: losses + 2 })
    expect(settled.error).toBe(status === 'failed' ? 'worker lost 5 times' : null)
    expect(handle).toHaveBeenCalledTimes(status === 'failed' ? 0 : 1)
    expect(await logsOf(test, integration.id, 'webhook')).toHaveLength(1)
  })

  it.each([
    ['another run', 'run-y:7'],
    ['a batch whose number begins alike', 'run-x:70'],
    ['a later batch', 'run-x:8'],
  ])('leaves rows of %s alone', async (_, other) => {
    const row = await held(1, other)
    await batch({ claim })
    expect(await webhookOf(test, row.id)).toMatchObject({ status: 'processing', attempts: 1, claim: other })
  })

  async function held(attempts: number, by: string) {
    return pending({ status: 'processing', attempts, claim: by })
  }
})

describe('a batch that is cancelled', () => {
  it('finishes what runs and gives the rest back: pending, the attempt not counted, and the lane comes again', async () => {
    const rows = []
    for (let n = 0; n < 6; n += 1) rows.push(await pending({ attempts: 2 }))
    let cancel = (): void => {}
    let running = 0
    handle.mockImplementation(async () => {
      running += 1
      if (running === 4) cancel()
      await Context.current().cancelled.catch(() => {})
    })
    const result = await batch({
      limit: 50,
      onStart: (stop) => {
        cancel = stop
      },
    })
    expect(result).toMatchObject({ claimed: 50, processed: 4 })
    expect(await Promise.all(rows.map(statusOf))).toEqual([
      ...['processed', 'processed', 'processed', 'processed'],
      ...['pending', 'pending'],
    ])
    expect(await webhookOf(test, rows[5]?.id ?? 0)).toMatchObject({ attempts: 2, claim: null })
  })
})

it('never writes a credential into a log line', () => {
  const written = JSON.stringify(test.lines)
  for (const secret of Object.values(CREDENTIALS)) expect(written).not.toContain(secret)
})

function batch({
  by = test,
  of = integration,
  claim,
  limit = 200,
  onStart,
}: {
  by?: TestIntegrations
  of?: Integration
  claim?: string
  limit?: number
  onStart?: (cancel: () => void) => void
} = {}): Promise<WebhookBatchResult> {
  batches += 1
  const input = { integrationId: of.id, claim: claim ?? `run:${batches}`, limit }
  return runActivity(by.activities.processPendingWebhooks, input, { ...(onStart && { onStart }) })
}

/** An integration of a provider of its own. */
async function withHandlers(map: Record<string, WebhookHandler>): Promise<Integration> {
  batches += 1
  const key = `routed-${batches}`
  test.integrations.register(
    key,
    webhookProvider({ handleWebhook: () => ({ byProvider: true }), webhookHandlers: () => map }),
  )
  return makeIntegration(test, key)
}

/** What a batch knows of an integration is read again after this time, with a little room. */
const READ_AGAIN_MS = 260

async function until(moment: number): Promise<void> {
  await vi.waitFor(() => expect(performance.now()).toBeGreaterThan(moment), SOON)
}

/** Statements that Drizzle sends meanwhile. */
async function countStatements(work: () => Promise<unknown>): Promise<number> {
  const { session } = test.framework.db._
  const prepareQuery = session.prepareQuery.bind(session)
  let statements = 0
  session.prepareQuery = (...given) => {
    statements += 1
    return prepareQuery(...given)
  }
  try {
    await work()
  } finally {
    session.prepareQuery = prepareQuery
  }
  return statements
}

function pending(values = {}) {
  return makeWebhook(test, integration.id, values)
}

async function statusOf(row: { id: number }): Promise<string> {
  return (await webhookOf(test, row.id)).status
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0)
}
