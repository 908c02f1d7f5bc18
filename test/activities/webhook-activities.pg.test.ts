/** Claim, handler, settlement: stored webhooks as a pump works them off. */
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import type { Pumped } from '../../src/claims/pump-jobs.ts'
import { BackendUnreachable } from '../../src/framework/errors.ts'
import type { HandlesWebhooks, WebhookHandler } from '../../src/providers/contracts.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { encryptionKey, occasion, testIntegrations } from '../support/integrations.ts'
import { ODD_ERRORS } from '../support/odd-errors.ts'
import { CREDENTIALS, SECRET, TOKEN, webhookProvider } from '../support/providers.ts'
import { countStatements, logsOf, makeIntegration, makeWebhook, setIntegration, webhookOf } from '../support/rows.ts'
import { SOON } from '../support/soon.ts'
import { workOff } from '../support/work-off.ts'

let database: TestDatabase
let test: TestIntegrations
/** The same, where a handler's time limit is to run out: elsewhere a machine that stands still must not reach it. */
let hasty: TestIntegrations
let integration: Integration
/** What the provider does with a webhook, by the test at hand. */
const handle = vi.fn<HandlesWebhooks['handleWebhook']>()
let routed = 0

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
  // A pump is of all integrations.
  await test.sql`delete from integration_webhooks`
  integration = await makeIntegration(test, 'acme')
})

describe('a pump', () => {
  it('takes pending rows of all integrations until none is left, runs each and settles them', async () => {
    const other = await makeIntegration(test, 'acme')
    const rows = [await pending(), await pending(), await makeWebhook(test, other.id), await pending()]
    expect(await pump()).toMatchObject({ end: 'empty', processed: 4, failed: 0 })
    expect(await Promise.all(rows.map(statusOf))).toEqual(['processed', 'processed', 'processed', 'processed'])
    expect(await pump()).toMatchObject({ end: 'empty', processed: 0, failed: 0 })
    expect(handle).toHaveBeenCalledTimes(4)
  })

  it('takes of an integration that it does not know what can run at once, and the rest later', async () => {
    for (let n = 0; n < 9; n += 1) await pending()
    const held: number[] = []
    const looked = occasion()
    handle.mockImplementation(async () => {
      if (handle.mock.calls.length > 1) return looked.happened
      await looks(test, 3)
      const [row] = await test.sql`select count(*)::int as n from integration_webhooks where status = 'processing'`
      held.push(Number(row?.n))
      looked.happen()
    })
    expect(await pump()).toMatchObject({ processed: 9 })
    expect(held).toEqual([4])
  })

  it.each([
    ['may start 29 s after the claim', {}, 29_000, false],
    ['goes back 30 s after it', {}, 30_000, true],
    ['may start while its whole time is over before recovery', { handler_timeout: 59 }, 400, false],
    ['goes back when recovery might run it a second time', { handler_timeout: 59 }, 500, true],
  ])('of rows one after the other: the second one %s', async (_, limits, laterMs, goesBack) => {
    const processing_timeout = 'handler_timeout' in limits ? 60 : 1_800
    const slow = testIntegrations(database.url, {
      encryptionKeys: encryptionKey('test'),
      providers: { acme: webhookProvider({ handleWebhook: (...given) => handle(...given) }) },
      config: { webhook: { concurrency: 1, processing_timeout, ...limits } },
    })
    onTestFinished(() => slow.close())
    integration = await makeIntegration(slow, 'acme')
    // While a quick one is settled, more than can run at once are claimed.
    const { db } = slow.framework
    const execute = db.execute.bind(db)
    const next = occasion()
    const settle = vi.spyOn(db, 'execute').mockImplementationOnce((async (statement: Parameters<typeof execute>[0]) => {
      await next.happened
      return execute(statement)
    }) as never)
    const [quick, first, second] = [await pending(), await pending(), await pending()]
    // Stands still but for the handler: what a busy machine takes of the margin is not what is asked.
    let nowMs = performance.now()
    vi.spyOn(performance, 'now').mockImplementation(() => nowMs)
    const wentBack: boolean[] = []
    handle.mockImplementation(async (_integration, __, { webhookId }) => {
      if (webhookId === first.id) {
        next.happen()
        await vi.waitFor(
          async () => expect(await Promise.all([quick, second].map(statusOf))).toEqual(['processed', 'processing']),
          SOON,
        )
        // Nothing is settled meanwhile: what a pump writes hands rows back.
        settle.mockClear()
        nowMs += laterMs
        await looks(slow, 3)
        wentBack.push(settle.mock.calls.length > 0)
      }
    })
    expect(await pump({ by: slow })).toMatchObject({ processed: 3 })
    expect(wentBack).toEqual([goesBack])
    // That it went back counts for no attempt.
    expect(await webhookOf(test, second.id)).toMatchObject({ status: 'processed', attempts: 1 })
  })

  it('settles a row: processed, by nobody, when, without an error', async () => {
    const row = await pending({ error: 'of an attempt before', attempts: 3 })
    await pump()
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
    await pump()
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
    await pump()
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
    await pump()
    expect(most).toBe(4)
  })

  it('shares no row with another one at the same moment', async () => {
    for (let n = 0; n < 40; n += 1) await pending()
    const results = await Promise.all([pump(), pump(), pump()])
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
    expect(await pump()).toMatchObject({ processed: 2, failed: 1 })
    expect(await Promise.all(rows.map(statusOf))).toEqual(['processed', 'failed', 'processed'])
    expect(await webhookOf(test, rows[1]?.id ?? 0)).toMatchObject({
      error: 'bad payload',
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
    await pump()
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
    await pump()
    expect(await webhookOf(test, row.id)).toMatchObject({
      status: 'failed',
      attempts: 1,
      error: expect.stringContaining(error),
    })
  })

  it('stays pending while its health has the integration disabled, until enable() wakes the inbox', async () => {
    const row = await pending()
    await setIntegration(test, integration.id, { isActive: false, healthStatus: 'disabled' })
    expect(await pump()).toMatchObject({ processed: 0, failed: 0 })
    expect(await webhookOf(test, row.id)).toMatchObject({ status: 'pending', attempts: 0 })
    const wakes = test.starts.wakes.length
    await integration.enable()
    expect(test.starts.wakes.slice(wakes)).toEqual(['arrived'])
    expect(await pump()).toMatchObject({ processed: 1 })
  })

  it('is failed, saying so, when the credentials can not be read', async () => {
    const row = await pending()
    await setIntegration(test, integration.id, { credentials: 'plain' })
    await pump()
    expect(await webhookOf(test, row.id)).toMatchObject({
      status: 'failed',
      error: expect.stringContaining('credentials of integration'),
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
    await pump()
    expect(await statusOf(row)).toBe('processed')
    expect((await logsOf(test, to.id, 'webhook'))[0]?.resultData).toEqual(result)
  })

  it('of an own key called `__proto__` finds its handler', async () => {
    const to = await withHandlers(Object.fromEntries([['__proto__', () => 'own']]))
    await makeWebhook(test, to.id, { eventType: '__proto__' })
    await pump()
    expect((await logsOf(test, to.id, 'webhook'))[0]?.resultData).toBe('own')
  })

  it('starts a handler that is a workflow, with ids and no payload', async () => {
    const to = await withHandlers(handlers)
    const row = await makeWebhook(test, to.id, { eventType: 'thing.sent', payload: 'a payload' })
    await pump()
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
    ['nested deeply', JSON.parse('['.repeat(3_500) + ']'.repeat(3_500)), { note: expect.stringContaining('deeply') }],
    ['no JSON', { big: 1n }, { note: expect.stringContaining('no JSON') }],
  ])('that is %s', async (_, returned, stored) => {
    const row = await pending()
    handle.mockReturnValue(returned)
    await pump()
    expect(await statusOf(row)).toBe('processed')
    expect((await logsOf(test, integration.id, 'webhook'))[0]?.resultData).toEqual(stored)
  })
})

describe('an error', () => {
  it.each([
    ['a credential', new Error(`sent ${TOKEN} to it`), 'sent [REDACTED] to it'],
    ['a credential URL-encoded', new Error(`?t=${encodeURIComponent(TOKEN)}`), '?t=[REDACTED]'],
    ['a credential in base64', new Error(Buffer.from(SECRET).toString('base64')), '[REDACTED]'],
    [
      'a credential at the cut',
      new Error(`${'x'.repeat(985)} ${TOKEN}`),
      expect.not.stringContaining(TOKEN.slice(0, 5)),
      expect.not.stringContaining(TOKEN.slice(0, 5)),
    ],
    ['a code', Object.assign(new Error('away'), { code: 'ECONNRESET' }), 'away', 'Error: away (ECONNRESET)'],
    ['U+0000', new Error('a\0b'), 'ab'],
    ['U+0000 in a thrown text', 'a\0b', 'ab', 'ab'],
    ['a pair that the cut halves', new Error(`${'x'.repeat(999)}😀`), `${'x'.repeat(999)}\ufffd`, expect.any(String)],
    ['nothing', undefined, 'undefined', 'undefined'],
    ['a class and no message', new TypeError(), 'TypeError', 'TypeError: '],
  ])('with %s is stored as its message, and logged with its class', async (_, thrown, stored, logged?: string) => {
    const row = await pending()
    handle.mockImplementation(() => {
      throw thrown
    })
    await pump()
    const { status, error } = await webhookOf(test, row.id)
    expect([status, error]).toEqual(['failed', stored])
    expect((await logsOf(test, integration.id, 'webhook'))[0]?.error).toEqual(logged ?? `Error: ${stored}`)
    expect(JSON.stringify(test.lines)).not.toContain(TOKEN)
  })

  it.each(ODD_ERRORS)('that is %s is a failure like any other', async (_, { make, name, message, line }) => {
    const row = await pending()
    // A mock that throws asks what it throws for its class.
    handle.mockImplementation(() => Promise.reject(make()))
    await pump()
    expect(await webhookOf(test, row.id)).toMatchObject({ status: 'failed', attempts: 1, error: message || name })
    expect((await logsOf(test, integration.id, 'webhook'))[0]?.error).toBe(line)
    expect(test.lines.map(({ fields }) => fields.event)).not.toContain('inbox.row_broke')
  })

  it('of a handler that outlives webhook.handler_timeout is HandlerTimedOut; its late result is dropped', async () => {
    const row = await pending()
    const late = occasion()
    handle.mockImplementation(async () => {
      await late.happened
      return 'too late'
    })
    expect(await pump({ by: hasty })).toMatchObject({ failed: 1 })
    late.happen()
    expect(await webhookOf(test, row.id)).toMatchObject({
      status: 'failed',
      error: 'HandlerTimedOut: The handler did not end within 1 s (webhook.handler_timeout).',
    })
  })
})

describe('a settlement', () => {
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
      expect(await pump()).toMatchObject({ processed: 1, failed: 0 })
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
    expect(await pump()).toMatchObject({ processed: 0, failed: 0 })
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
      expect(await pump()).toMatchObject({ processed: 1 })
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

describe('rows whose integration can not be read', () => {
  it('have not failed: they wait until the database is back, and then their handlers run, once each', async () => {
    // More than run at once: the last ones are claimed after the first handlers have run.
    const rows = await Promise.all(Array.from({ length: 8 }, () => pending()))
    let away: Promise<unknown> | undefined
    handle.mockImplementation(async () => {
      away ??= test.sql`alter table integrations rename to integrations_away`.execute()
      await away
      await until(performance.now() + READ_AGAIN_MS)
    })
    const before = test.lines.length
    const running = pump()
    try {
      await vi.waitFor(
        () =>
          expect(test.lines.slice(before).map(({ message }) => message)).toContain('a look failed; it is tried again'),
        SOON,
      )
    } finally {
      await test.sql`alter table integrations_away rename to integrations`
    }
    expect(await running).toMatchObject({ processed: 8, failed: 0 })
    expect(handle).toHaveBeenCalledTimes(8)
    for (const row of rows) expect(await webhookOf(test, row.id)).toMatchObject({ status: 'processed', attempts: 1 })
  })
})

describe('the integration', () => {
  it('is read once for all rows, for as long as it is as it was: 200 rows are few statements', async () => {
    await test.sql`
      insert into integration_webhooks (integration_id, delivery_id, payload, headers)
      select ${integration.id}, 'counted-' || n, '{}', '{}' from generate_series(1, 200) n`
    const statements = await countStatements(test, () => pump())
    expect(handle).toHaveBeenCalledTimes(200)
    // Claims, the integration, settlements: some four rows at once at first, and up to 200 later. One each would be 400 and more.
    expect(statements).toBeGreaterThanOrEqual(5)
    expect(statements).toBeLessThan(150)
  })

  it('switched off meanwhile turns away what starts 250 ms later', async () => {
    const rows = await Promise.all(Array.from({ length: 5 }, () => pending()))
    const started = occasion()
    handle.mockImplementation(async () => {
      started.happen()
      await off
      await until(performance.now() + READ_AGAIN_MS)
    })
    const off = started.happened.then(() => integration.disable())
    expect(await pump()).toMatchObject({ processed: 4, failed: 1 })
    const last = await webhookOf(test, Math.max(...rows.map(({ id }) => id)))
    expect(last).toMatchObject({ status: 'failed', error: 'the integration is switched off' })
  })

  it('is shared by handlers, so none can change what the others see', async () => {
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
    await pump()
    expect(failures).toEqual([1, 2, 3, 4].map(() => expect.any(TypeError)))
  })
})

describe('what a handler is told', () => {
  it('is which attempt at which webhook it is called for', async () => {
    const row = await pending({ attempts: 2, eventType: 'made' })
    await pump()
    expect(handle.mock.calls[0]?.[2]).toEqual({
      webhookId: row.id,
      deliveryId: row.deliveryId,
      eventType: 'made',
      attempt: 3,
      signal: expect.any(AbortSignal),
      isOwn: false,
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
    await pump({ by: hasty })
    expect((await webhookOf(test, row.id)).error).toMatch(/^HandlerTimedOut: The handler did not end within/)
    await expect(handle.mock.results[0]?.value).rejects.toThrow('stopped: handler_timed_out')
  })

  it('is not aborted when the worker stops: what runs is finished', async () => {
    const row = await pending()
    const stop = new AbortController()
    handle.mockImplementation((_, __, { signal }) => {
      stop.abort()
      return { aborted: signal.aborted }
    })
    expect(await pump({ signal: stop.signal })).toMatchObject({ end: 'stopped', processed: 1, failed: 0 })
    expect(await statusOf(row)).toBe('processed')
    expect((await logsOf(test, integration.id, 'webhook'))[0]?.resultData).toEqual({ aborted: false })
  })
})

describe('a handler that is a workflow', () => {
  it('goes back to pending, the attempt not counted, when Temporal can not be told; others of it run after a rest', async () => {
    const to = await withHandlers({ 'thing.sent': { workflow: 'sendThing' } })
    const row = await makeWebhook(test, to.id, { eventType: 'thing.sent' })
    const { startHandler } = test.framework.workflows
    const refused = vi
      .fn(startHandler)
      .mockRejectedValueOnce(new BackendUnreachable('Temporal', 'nowhere', { remedy: '' }))
    Object.assign(test.framework.workflows, { startHandler: refused })
    const startedAt = performance.now()
    const pumping = pump()
    try {
      await vi.waitFor(() => expect(refused).toHaveBeenCalledTimes(1), SOON)
      await vi.waitFor(
        async () =>
          expect(await webhookOf(test, row.id)).toMatchObject({ status: 'pending', attempts: 0, claim: null }),
        SOON,
      )
      const other = await makeWebhook(test, integration.id)
      // Rows of other integrations wait for nothing.
      await vi.waitFor(async () => expect(await statusOf(other)).toBe('processed'), SOON)
      expect(refused).toHaveBeenCalledTimes(1)
      expect(await pumping).toMatchObject({ end: 'empty', processed: 2, failed: 0 })
    } finally {
      Object.assign(test.framework.workflows, { startHandler })
    }
    expect(performance.now() - startedAt).toBeGreaterThan(1_900)
    expect(await webhookOf(test, row.id)).toMatchObject({ status: 'processed', attempts: 1 })
    expect(await logsOf(test, to.id, 'webhook')).toHaveLength(1)
  })

  it('fails when its start is refused', async () => {
    const to = await withHandlers({ 'thing.sent': { workflow: 'sendThing' } })
    const row = await makeWebhook(test, to.id, { eventType: 'thing.sent' })
    const { startHandler } = test.framework.workflows
    Object.assign(test.framework.workflows, { startHandler: () => Promise.reject(new TypeError('no such queue')) })
    try {
      await pump()
    } finally {
      Object.assign(test.framework.workflows, { startHandler })
    }
    expect(await webhookOf(test, row.id)).toMatchObject({ status: 'failed', error: 'no such queue' })
  })
})

describe('a row that was replayed', () => {
  it('is logged as `webhook_replay`, and its handler workflow is a start of its own', async () => {
    const to = await withHandlers({ 'thing.sent': { workflow: 'sendThing' } })
    await makeWebhook(test, to.id, { eventType: 'thing.sent', attempts: 3, replayAttempt: 3 })
    await pump()
    expect(await logsOf(test, to.id, 'webhook')).toEqual([])
    expect(await logsOf(test, to.id, 'webhook_replay')).toHaveLength(1)
    expect(test.starts.handlers.at(-1)).toMatchObject({ replayAttempt: 3 })
  })
})

describe('a pump whose worker stops', () => {
  it('finishes what runs and gives the rest back: pending, the attempt not counted', async () => {
    const rows = []
    // Two rounds of four, and what is claimed once they were quick.
    for (let n = 0; n < 30; n += 1) rows.push(await pending({ attempts: 2 }))
    const stop = new AbortController()
    let ran = 0
    handle.mockImplementation(() => {
      ran += 1
      if (ran === 10) stop.abort()
    })
    expect(await pump({ signal: stop.signal })).toMatchObject({ end: 'stopped', processed: ran, failed: 0 })
    expect(ran).toBeLessThan(30)
    const after = await Promise.all(rows.map(({ id }) => webhookOf(test, id)))
    expect(after.filter(({ status }) => status === 'processed')).toHaveLength(ran)
    const back = after.filter(({ status }) => status === 'pending')
    expect(back).toHaveLength(30 - ran)
    for (const row of back) expect(row).toMatchObject({ attempts: 2, claim: null, lostWorkers: 0 })
  })
})

it('never writes a credential into a log line', () => {
  const written = JSON.stringify(test.lines)
  for (const secret of Object.values(CREDENTIALS)) expect(written).not.toContain(secret)
})

function pump({ by = test, signal }: { by?: TestIntegrations; signal?: AbortSignal } = {}): Promise<Pumped> {
  return workOff(by.framework, signal && { signal })
}

/** Waits until a pump has asked the database for rows so often. */
async function looks(by: TestIntegrations, times: number): Promise<void> {
  const select = vi.spyOn(by.framework.db, 'select')
  try {
    await vi.waitFor(() => expect(select.mock.calls.length).toBeGreaterThan(times), SOON)
  } finally {
    select.mockRestore()
  }
}

/** An integration of a provider of its own. */
async function withHandlers(map: Record<string, WebhookHandler>): Promise<Integration> {
  routed += 1
  const key = `routed-${routed}`
  test.integrations.register(
    key,
    webhookProvider({ handleWebhook: () => ({ byProvider: true }), webhookHandlers: () => map }),
  )
  return makeIntegration(test, key)
}

/** What a pump knows of an integration is read again after this time, with a little room. */
const READ_AGAIN_MS = 260

async function until(moment: number): Promise<void> {
  await vi.waitFor(() => expect(performance.now()).toBeGreaterThan(moment), SOON)
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
