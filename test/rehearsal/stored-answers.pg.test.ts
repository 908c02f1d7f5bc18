/** What a handler is answered from the request log, and what can't be rehearsed. */
import { createHash } from 'node:crypto'
import { sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/postgres-js'
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { GitHubClient, GitHubProvider, GitHubWebhookReceived } from '../../src/adapters/github/index.ts'
import { integrationKey } from '../../src/cache/integration-keys.ts'
import { connect } from '../../src/db/client.ts'
import type { LogRow, RequestRow, SyncItemRow, WebhookRow } from '../../src/db/schema/tables.ts'
import { HttpError } from '../../src/framework/errors.ts'
import { currentArrival } from '../../src/providers/arrival.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { differences } from '../../src/rehearsal/difference-rules.ts'
import { handledSince } from '../../src/rehearsal/history.ts'
import type { Piece } from '../../src/rehearsal/rehearsal-jobs.ts'
import { StoredAnswers } from '../../src/rehearsal/stored-answers.ts'
import { comment, issue, numbers } from '../adapters/github/played-repository.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { syncProvider, ThingSynced, webhookProvider } from '../support/providers.ts'
import { makeIntegration, makeItem, makeRun, makeWebhook } from '../support/rows.ts'

type Handler = (integration: Integration) => unknown

let database: TestDatabase
let test: TestIntegrations
let handle: Handler
let integration: Integration

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, {
    providers: {
      demo: { ...syncProvider(() => {}), ...webhookProvider({ handleWebhook: (of) => handle(of) }) },
      far: webhookProvider(),
      guarded: webhookProvider({
        webhookHandlers: () => ({
          changed: { handle: (of) => handle(of), staleGuard: () => ({ key: 'a', version: 1 }) },
        }),
      }),
      github: new GitHubProvider(),
    },
    handledBy: {
      far: { webhooks: { url: 'https://host.example/door', secrets: ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'] } },
    },
  })
  test.integrations.on(ThingSynced, (event) => handle(event.integration))
  test.integrations.on(GitHubWebhookReceived, (event) => handle(event.integration))
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  integration = await makeIntegration(test, 'demo')
})

/** A handled webhook with the calls of its attempt. */
async function handled(
  calls: readonly Partial<RequestRow>[],
  values: Partial<WebhookRow> = {},
  of = integration,
): Promise<WebhookRow> {
  const row = await makeWebhook(test, of.id, {
    headers: { 'content-type': ['application/json'] },
    status: 'processed',
    attempts: 1,
    processedAt: new Date(),
    ...values,
  })
  await logged(row, { status: row.status === 'failed' ? 'failed' : 'success' })
  for (const call of calls) await called(`webhook:${row.id}`, call, of)
  return row
}

async function logged(row: WebhookRow, values: Partial<LogRow>): Promise<void> {
  const { db, tables } = test.framework
  await db.insert(tables.logs).values({
    integrationId: row.integrationId,
    operation: 'webhook',
    direction: 'inbound',
    status: 'success',
    externalId: row.deliveryId,
    origin: `webhook:${row.id}`,
    ...values,
  })
}

async function called(origin: string, call: Partial<RequestRow>, of = integration): Promise<number> {
  const { db, tables } = test.framework
  const [row] = await db
    .insert(tables.requests)
    .values({
      integrationId: of.id,
      endpoint: 'things',
      method: 'GET',
      statusCode: 200,
      durationMs: 3,
      origin,
      ...call,
    })
    .returning({ id: tables.requests.id })
  return (row as { id: number }).id
}

/** @returns the only piece */
async function rehearsed(code: Handler, of = integration): Promise<Piece> {
  handle = code
  await test.framework.db.execute(sql`drop schema if exists durable_rehearsal cascade`)
  const { pieces } = await test.integrations.admin.rehearsal.play(
    { since: new Date(Date.now() - 600_000).toISOString(), limit: 10, integrationId: of.id },
    { refused: () => [], signal: new AbortController().signal },
  )
  expect(pieces).toHaveLength(1)
  return pieces[0] as Piece
}

const things: Handler = (of) => of.request('things', 'GET', ({ fetch }) => fetch('https://provider.example/things'))
const FAILED = { failureClass: 'upstream', error: 'Error: it broke' } as const

it('what was handled is found by its moment, not by a walk through all rows', async () => {
  const run = await makeRun(test, integration.id, {}, { status: 'partial' })
  const old = new Date('2020-01-01').toISOString()
  await test.sql`
    insert into integration_webhooks (integration_id, delivery_id, payload, headers, status, processed_at, updated_at)
    select ${integration.id}, n, '{}', '{}', 'processed', ${old}, ${old} from generate_series(1, 2000) n`
  await test.sql`
    insert into integration_sync_items (integration_id, sync_log_id, event_class, external_id, status, completed_at)
    select ${integration.id}, ${run.id}, 'test.thing', n, case when n % 2 = 0 then 'success' else 'failed' end, ${old}
    from generate_series(1, 2000) n`
  await test.sql`analyze integration_webhooks, integration_sync_items`
  const client = connect({ database: database.url, pool: { max: 1 } })
  onTestFinished(() => client.close())
  const asked: { text: string; parameters: unknown[] }[] = []
  const logQuery = (text: string, parameters: unknown[]): void => void asked.push({ text, parameters })
  const since = new Date(Date.now() - 600_000).toISOString()
  await handledSince({ ...test.framework, db: drizzle(client.sql, { logger: { logQuery } }) }, { since, limit: 10 })
  expect(asked).toHaveLength(3)
  for (const { text, parameters } of asked) {
    const plan = await client.sql.unsafe(`explain ${text}`, parameters as never[])
    const lines = plan.map((line) => String(line['QUERY PLAN'])).join('\n')
    expect(lines).toMatch(/Index Cond: .*(updated_at|completed_at) >=/)
  }
  await test.integrations.delete(integration.id)
})

describe('an answer from the log', () => {
  it.each<[string, Partial<RequestRow>, unknown]>([
    ['JSON', { responseData: '{"a":[1,"two"]}' }, { a: [1, 'two'] }],
    ['a text', { responseData: 'all is well' }, 'all is well'],
    ['a text in quotes', { responseData: '"well"' }, '"well"'],
    ['nothing', { responseData: null, statusCode: 204 }, null],
    [
      'an answer that the cache kept',
      { responseData: '"as JSON"', expiresAt: new Date(), requestHash: 'x' },
      'as JSON',
    ],
  ])('is %s', async (_, call, answer) => {
    await handled([call])
    const { now, cannot } = await rehearsed(things)
    expect(now?.result).toEqual(answer)
    expect(cannot).toEqual([])
  })

  it('is the failure that it was', async () => {
    await handled([
      { statusCode: 404, responseData: '{"message":"gone"}', failureClass: 'client', error: 'HttpError: 404' },
    ])
    const { now } = await rehearsed(async (of) => {
      const error = await Promise.resolve(things(of)).catch((thrown: unknown) => thrown)
      return error instanceof HttpError ? { status: error.status, body: error.body } : 'another error'
    })
    expect(now?.result).toEqual({ status: 404, body: { message: 'gone' } })
  })

  it.each<[string, z.ZodType]>([
    ['refuses', z.object({ n: z.number() })],
    ['throws over', z.object({ n: z.string().transform((text) => JSON.parse(text) as unknown) })],
  ])('is schema drift where the cache kept it and the schema %s it', async (_, schema) => {
    await handled([{ responseData: '{"n":"{"}', expiresAt: new Date(), requestHash: 'x' }])
    const { now, cannot } = await rehearsed((of) =>
      of
        .requestAs(schema, 'things', 'GET', ({ fetch }) => fetch('https://provider.example/things'))
        .catch((error: { readonly code?: string }) => error.code),
    )
    expect(now?.result).toBe('schema_drift')
    expect(cannot).toEqual([])
  })

  it('is that of the last attempt, without the waits between', async () => {
    const row = await handled([{ statusCode: 500, responseData: 'no', ...FAILED }])
    const [first] = await test.framework.db
      .select()
      .from(test.framework.tables.requests)
      .where(sql`origin = ${`webhook:${row.id}`}`)
    await called(`webhook:${row.id}`, { responseData: 'yes', retryOf: (first as RequestRow).id })
    const piece = await rehearsed(things)
    expect(piece.now?.result).toBe('yes')
    expect(piece.happened.calls).toHaveLength(1)
  })

  it('comes in the order of the log to calls that are the same', async () => {
    await handled([{ responseData: '1' }, { responseData: '2' }])
    const { now } = await rehearsed(async (of) => [await things(of), await things(of)])
    expect(now?.result).toEqual([1, 2])
  })

  it('is that of a later attempt, where the logs tell the attempts apart', async () => {
    const row = await handled([{ responseData: 'of the first', createdAt: new Date(Date.now() - 60_000) }], {
      attempts: 2,
    })
    await test.framework.db.execute(
      sql`update ${test.framework.tables.logs} set status = 'failed', created_at = now() - interval '30 s' where origin = ${`webhook:${row.id}`}`,
    )
    await called(`webhook:${row.id}`, { responseData: 'of the second' })
    await logged(row, { resultData: 'of the second' })
    const piece = await rehearsed(things)
    expect(piece.now?.result).toBe('of the second')
    expect(differences([piece], null)).toEqual([])
  })

  it('is found beside an operation of the handler that is called as the attempt is', async () => {
    const row = await handled([{ responseData: 'before it', createdAt: new Date(Date.now() - 60_000) }])
    await logged(row, { externalId: null, createdAt: new Date(Date.now() - 30_000) })
    const { now, cannot } = await rehearsed(things)
    expect(cannot).toEqual([])
    expect(now?.result).toBe('before it')
  })

  it('reaches a call inside an operation', async () => {
    const row = await handled([])
    const { db, tables } = test.framework
    const [log] = await db
      .insert(tables.logs)
      .values({
        integrationId: integration.id,
        operation: 'import',
        direction: 'inbound',
        status: 'success',
        origin: `webhook:${row.id}`,
      })
      .returning({ id: tables.logs.id })
    await called(`log:${log?.id}`, { responseData: 'inside' })
    const { now, cannot } = await rehearsed(async (of) => {
      const operation = await of.startOperation({ operation: 'import', direction: 'inbound' })
      return operation.run(async () => things(of))
    })
    expect(cannot).toEqual([])
    expect(now?.result).toBe('inside')
  })

  it('is given to an item, too', async () => {
    const run = await makeRun(test, integration.id)
    const item = await makeItem(test, run, { status: 'success', attempts: 1, completedAt: new Date() })
    await called(`item:${item.id}`, { responseData: 'of an item' })
    let answer: unknown
    const piece = await rehearsed(async (of) => {
      answer = await things(of)
    })
    expect(answer).toBe('of an item')
    expect(differences([piece], null)).toEqual([])
  })

  it('of an item is found beside an operation of its listener that is called as a webhook’s attempt is', async () => {
    const run = await makeRun(test, integration.id)
    const item = await makeItem(test, run, { status: 'success', attempts: 1, completedAt: new Date() })
    await called(`item:${item.id}`, { responseData: 'before it', createdAt: new Date(Date.now() - 60_000) })
    const { db, tables } = test.framework
    await db.insert(tables.logs).values({
      integrationId: integration.id,
      operation: 'webhook',
      direction: 'inbound',
      status: 'success',
      origin: `item:${item.id}`,
      createdAt: new Date(Date.now() - 30_000),
    })
    let answer: unknown
    const { cannot } = await rehearsed(async (of) => {
      answer = await things(of)
    })
    expect(cannot).toEqual([])
    expect(answer).toBe('before it')
  })

  describe('of the GitHub adapter', () => {
    const ISSUE = 'repos/octo/widgets/issues/7'
    const githubIntegration = () =>
      makeIntegration(test, 'github', {
        credentials: { token: 'ghp_1', webhook_secret: 'a secret' },
        metadata: { owner: 'octo', repo: 'widgets' },
      })
    const commentOf = (number: number) => ({
      ...comment(number, { node_id: `C_${number}`, url: 'https://github.example.com/c' }),
      created_at: issue(7).created_at,
      updated_at: issue(7).updated_at,
    })
    const listed = (count: number) => ({
      endpoint: `${ISSUE}/comments?page=1`,
      responseData: JSON.stringify(numbers(1, count).map(commentOf)),
    })
    /** @returns what can't be rehearsed of it */
    const cannot = async (calls: readonly Partial<RequestRow>[], code: Handler): Promise<readonly string[]> => {
      const github = await githubIntegration()
      await handled(calls, {}, github)
      const piece = await rehearsed(code, github)
      expect(piece.now?.calls.map(({ recorded }) => recorded)).toEqual(calls.map((_, at) => at))
      return piece.cannot
    }

    it('is read without headers: reads, writes and a list of one page', async () => {
      const told: unknown[] = []
      const calls = [
        { endpoint: ISSUE, responseData: JSON.stringify(issue(7)) },
        listed(2),
        {
          endpoint: ISSUE,
          method: 'PATCH',
          requestData: '{"state":"closed","state_reason":"completed"}',
          responseData: JSON.stringify({ ...issue(7), state: 'closed' }),
        },
      ]
      const reasons = await cannot(calls, async (of) => {
        const github = new GitHubClient(of)
        told.push((await github.issues.get(7))?.state)
        for await (const { id } of github.comments.list(7)) told.push(id)
        told.push((await github.issues.close({ number: 7, stateReason: 'completed' }))?.state)
      })
      expect(reasons).toEqual([])
      expect(told).toEqual(['open', 1, 2, 'closed'])
    })

    it('is not that of a list whose end only a header says', async () => {
      const calls = [{ endpoint: `${ISSUE}/timeline?page=1`, responseData: '[]' }]
      const reasons = await cannot(calls, (of) => new GitHubClient(of).issues.timeline(7, () => {}))
      expect(reasons).toEqual([expect.stringContaining('reads the header "link"')])
    })
  })

  it('is the one that the cache had, unless the code that is here refuses it', async () => {
    const answers = new StoredAnswers()
    answers.begin({ stored: [], cached: async () => '{"a":1}', spent: async () => false, error: null })
    const asked = (schema: z.ZodType) =>
      answers.request(test.framework, {
        integration,
        credentials: () => ({}),
        endpoint: 'things',
        method: 'GET',
        call: () => null,
        options: { cacheFor: 60 },
        schema,
      })
    await expect(asked(z.object({ a: z.number() }))).resolves.toEqual({ a: 1 })
    await expect(asked(z.object({ a: z.string() }))).rejects.toThrow('has no stored answer')
    expect(answers.end().calls).toMatchObject([{ endpoint: 'things', recorded: null }])
  })
})

it.each([true, false, null])('handles a delivery as it was judged then: %s', async (isOwn) => {
  const found: (boolean | null)[] = []
  await handled([], { isOwn })
  await rehearsed(() => {
    found.push(currentArrival()?.isOwn ?? null)
  })
  expect(found).toEqual([isOwn])
})

it('handles a delivery that was followed by newer ones of its key', async () => {
  const guarded = await makeIntegration(test, 'guarded')
  await handled([], { eventType: 'changed' }, guarded)
  const hash = createHash('sha256').update('a').digest('hex')
  await test.framework.cache.set(integrationKey(guarded.id, `webhook-version:${hash}`), 2, 600)
  const { now, cannot } = await rehearsed(() => 'handled again', guarded)
  expect(cannot).toEqual([])
  expect(now?.result).toBe('handled again')
})

describe("what can't be rehearsed", () => {
  it.each<[string, Partial<RequestRow>, string]>([
    ['a cut answer', { responseData: '{"a": ...[cut, 99999 bytes]' }, 'its answer is cut in the log'],
    ['a redacted answer', { responseData: '{"token":"[REDACTED]"}' }, 'its answer is redacted in the log'],
    ['an answer that is not logged', { responseData: '[not logged, 12 bytes]' }, 'its answer is not logged'],
    ['an answer that could not be redacted', { responseData: '[not redacted, 12 bytes]' }, 'could not be redacted'],
    ['an answer that is no JSON', { responseData: '[not serialisable]' }, 'its answer is no JSON'],
    ['a binary answer', { responseData: `[binary, 2 bytes, sha256 ${'0'.repeat(64)}]` }, 'its answer is binary'],
    ['no answer', { statusCode: null, ...FAILED }, 'it got no answer'],
    ['a success whose status is not known', { statusCode: null, responseData: '{}' }, 'no status of its answer'],
  ])('is %s', async (_, call, reason) => {
    await handled([call])
    const piece = await rehearsed((of) => Promise.resolve(things(of)).catch(() => 'whatever it makes of it'))
    expect(piece.cannot).toEqual([expect.stringContaining(reason)])
    // What the handler made of our own error is no difference.
    expect(differences([piece], null)).toEqual([])
  })

  it.each<[string, Handler, string]>([
    [
      'a call that asks twice',
      (of) =>
        of.request('things', 'GET', async ({ fetch }) => {
          await fetch('https://provider.example/a')
          return fetch('https://provider.example/b')
        }),
      'asks more than once',
    ],
    [
      'a call that does not ask by context.fetch',
      (of) => of.request('things', 'GET', async () => ({ a: 1 })),
      'does not ask by context.fetch',
    ],
    [
      'a call that makes something else of its answer',
      (of) =>
        of.request('things', 'GET', async ({ fetch }) => {
          const { items } = (await (await fetch('https://provider.example/')).json()) as { items?: unknown }
          return items
        }),
      'makes something else of its answer',
    ],
    [
      'a call that reads a header of its answer',
      (of) =>
        of.request('things', 'GET', async ({ fetch }) => {
          const answer = await fetch('https://provider.example/')
          answer.headers.get('Link')
          return answer
        }),
      'reads the header "Link"',
    ],
    [
      'an older answer in the place of a failure',
      (of) => of.at('https://provider.example/x').withCache(60, { serveStale: true }).get(),
      'has no stored answer',
    ],
  ])('is %s', async (what, code, reason) => {
    await handled([{ responseData: '{"a":1}' }])
    const piece = await rehearsed((of) => Promise.resolve(code(of)).catch((error: Error) => error.message))
    // A call that the log does not have at all is a difference.
    if (what.startsWith('an older')) expect(differences([piece], null).map((one) => one.what)).toContain('call added')
    else expect(piece.cannot).toEqual([expect.stringContaining(reason)])
  })

  it.each<[string, Partial<WebhookRow>, string]>([
    ['an erased delivery', { payload: '', headers: {} }, 'its payload has been erased or pruned'],
    ['a delivery of several attempts without logs', { attempts: 3 }, 'it took 3 attempts'],
  ])('is %s', async (_, values, reason) => {
    await handled([{ responseData: '{}' }], values)
    const { cannot, now } = await rehearsed(things)
    expect(cannot).toEqual([expect.stringContaining(reason)])
    expect(now).toBeNull()
  })

  it.each<[string, Partial<WebhookRow>, Partial<LogRow>, string]>([
    ['was coalesced', { attempts: 0 }, { resultData: { status: 'coalesced' } }, 'it was coalesced'],
    [
      'has lost too many workers',
      { status: 'failed', error: 'worker lost', attempts: 5 },
      { status: 'failed', error: 'worker lost' },
      'it was given up without an attempt that ended: worker lost',
    ],
  ])('is a delivery that %s', async (_, values, log, reason) => {
    await logged(await handled([], values), log)
    const { cannot, now } = await rehearsed(() => 'handled')
    expect(cannot).toEqual([expect.stringContaining(reason)])
    expect(now).toBeNull()
  })

  it('is not a delivery whose handler said so itself', async () => {
    const row = await handled([], { status: 'failed', error: 'worker lost' })
    await logged(row, { status: 'failed', error: 'Error: worker lost' })
    const piece = await rehearsed(() => {
      throw new Error('worker lost')
    })
    expect(piece.cannot).toEqual([])
    expect(differences([piece], null)).toEqual([])
  })

  it.each(['cancelled', 'abandoned', 'worker lost'])('is an item that ended as %s', async (error) => {
    const run = await makeRun(test, integration.id)
    await makeItem(test, run, { status: 'failed', error, attempts: 1, completedAt: new Date() })
    const { cannot, now } = await rehearsed(things)
    expect(cannot).toEqual([`it was given up without an attempt that ended: ${error}`])
    expect(now).toBeNull()
  })

  it.each<[string, Partial<SyncItemRow>, string]>([
    ['an erased item', { payload: null }, 'its payload has been erased'],
    ['an item of a stream that skips what has not changed', { recordHash: 'x' }, 'how its record has changed'],
  ])('is %s', async (_, values, reason) => {
    const run = await makeRun(test, integration.id)
    await makeItem(test, run, { status: 'success', attempts: 1, completedAt: new Date(), ...values })
    expect((await rehearsed(things)).cannot).toEqual([expect.stringContaining(reason)])
  })

  it('is a call whose key other work had spent', async () => {
    await handled([])
    await called('item:999', { idempotencyKey: 'order-7', method: 'POST', responseData: '{}' })
    await test.framework.db.execute(
      sql`update ${test.framework.tables.requests} set created_at = now() - interval '1 minute' where idempotency_key = 'order-7'`,
    )
    const piece = await rehearsed((of) =>
      of
        .request('things', 'POST', ({ fetch }) => fetch('https://provider.example/'), { idempotencyKey: 'order-7' })
        .catch(() => null),
    )
    expect(piece.cannot).toEqual([expect.stringContaining('had been spent by other work')])
    expect(differences([piece], null)).toEqual([])
  })

  it('is what is handled elsewhere', async () => {
    const far = await makeIntegration(test, 'far')
    await handled([], {}, far)
    expect((await rehearsed(things, far)).cannot).toEqual(['it is handled elsewhere (handledBy)'])
  })

  it('is what an integration that was switched off meanwhile has handled', async () => {
    await handled([])
    await test.integrations.disable(integration.id)
    expect((await rehearsed(things)).cannot).toEqual(['the integration is switched off by now'])
  })
})
