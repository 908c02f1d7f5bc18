/** Keyed writes: a key is spent before the call goes out, and given back only if nothing can have happened. */
import { setTimeout } from 'node:timers/promises'
import { drizzle } from 'drizzle-orm/postgres-js'
import type { Sql } from 'postgres'
import postgres from 'postgres'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { z } from 'zod'
import { reserve } from '../../src/calls/idempotency.ts'
import { RateLimit } from '../../src/calls/rate-limit-rules.ts'
import { connect } from '../../src/db/client.ts'
import type { IdempotencyConflict } from '../../src/framework/errors.ts'
import { CircuitOpenException, HttpError } from '../../src/framework/errors.ts'
import type { ClassifiesFailures, CustomizesRetry, SupportsIdempotency } from '../../src/providers/contracts.ts'
import type { Call, Integration, RequestOptions } from '../../src/providers/integration.ts'
import type { MappedModel } from '../../src/providers/mapped-model.ts'
import { ManualClock } from '../../src/testing/manual-clock.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { occasion, testIntegrations } from '../support/integrations.ts'
import { makeIntegration, setIntegration } from '../support/rows.ts'
import { SOON } from '../support/soon.ts'

const WINDOW_SECONDS = 86_400
/** Knows keys itself. */
const KNOWING: SupportsIdempotency & CustomizesRetry = {
  supportsIdempotency: true,
  idempotencyWindowSeconds: WINDOW_SECONDS,
  retryDelayMs: () => 0,
}
const BLAMING: ClassifiesFailures = { classifyFailure: () => 'client' }
const PROVIDERS = { plain: {}, knowing: KNOWING, blaming: BLAMING }

let database: TestDatabase
let test: TestIntegrations
let integration: Integration
let knowing: Integration

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, { providers: PROVIDERS })
})
afterAll(async () => {
  await test?.close()
  await database?.drop()
})
beforeEach(async () => {
  integration = await makeIntegration(test, 'plain')
  knowing = await makeIntegration(test, 'knowing')
})

function write<T>(call: Call<T>, options: RequestOptions = {}, on = integration): Promise<T> {
  return on.request('things', 'POST', call, { idempotencyKey: 'key', ...options })
}

const answers = (body: string, status = 200, type = 'application/json') =>
  vi.fn(() => new Response(body === '' ? null : body, { status, headers: { 'Content-Type': type } }))

async function conflictOf(work: Promise<unknown>): Promise<IdempotencyConflict> {
  const outcome = await work.then(
    (value) => ({ value }),
    (error: unknown) => error,
  )
  expect(outcome).toMatchObject({ code: 'idempotency_conflict' })
  return outcome as IdempotencyConflict
}

async function ledger(of = integration): Promise<string[]> {
  const rows = await test.sql<{ key: string }[]>`
    select key from integration_idempotency_keys where integration_id = ${of.id} order by id`
  return rows.map(({ key }) => key)
}

describe('a key', () => {
  it.each([
    ['blank', ''],
    ['blank', ' \t\n'],
    ['longer than 191 characters', 'k'.repeat(192)],
    ['longer than 191 characters, each of two code units', '😀'.repeat(192)],
    ['with U+0000', 'a\u0000b'],
  ])('that is %s is refused: nothing is sent or stored', async (_, key) => {
    const call = answers('{}')
    await expect(write(call, { idempotencyKey: key })).rejects.toMatchObject({ code: 'invalid_argument' })
    expect(call).not.toHaveBeenCalled()
    expect(await ledger()).toEqual([])
    expect(await integration.idempotencyRecord(key)).toBeNull()
    expect(await integration.forgetIdempotencyKey(key)).toBe(false)
  })

  it.each([['k'.repeat(191)], ['😀'.repeat(191)], ["'; drop table x; --"], [' inner blank ']])(
    '%s is stored as it is',
    async (key) => {
      await write(answers('{}'), { idempotencyKey: key })
      expect(await ledger()).toEqual([key])
      await conflictOf(write(answers('{}'), { idempotencyKey: key }))
    },
  )

  it.each([[null], [undefined]])('%s is none: the call is made as often as asked', async (key) => {
    const call = answers('{}')
    const options = key === undefined ? {} : { idempotencyKey: key }
    await integration.request('things', 'POST', call, options)
    await integration.request('things', 'POST', call, options)
    expect(call).toHaveBeenCalledTimes(2)
    expect(await ledger()).toEqual([])
  })

  it('is another one on another integration', async () => {
    const other = await makeIntegration(test, 'plain')
    await write(answers('{}'))
    await write(answers('{}'), {}, other)
    expect([await ledger(), await ledger(other)]).toEqual([['key'], ['key']])
  })

  it('is in the call‘s hands, and in its row', async () => {
    const seen: unknown[] = []
    await write(({ idempotencyKey }) => seen.push(idempotencyKey))
    expect(seen).toEqual(['key'])
    const rows =
      await test.sql`select idempotency_key from integration_requests where integration_id = ${integration.id}`
    expect(rows).toEqual([{ idempotency_key: 'key' }])
  })

  it('is spent, for everybody to see, before the call goes out', async () => {
    let seen: string[] = []
    await write(async () => {
      seen = await ledger()
      return null
    })
    expect(seen).toEqual(['key'])
  })
})

describe('after a call that ended with', () => {
  const failing = (error: unknown): Call<never> => {
    return () => {
      throw error
    }
  }
  const http = (status: number) => failing(new HttpError(status, new Headers(), null))
  const coded = (code: string) => failing(Object.assign(new Error('of the network'), { code }))

  it.each<[string, Call<unknown>, 'given back' | 'spent', RequestOptions?]>([
    ['success', answers('{}'), 'spent'],
    ['400', http(400), 'given back'],
    ['404', http(404), 'given back'],
    ['422', http(422), 'given back'],
    ['501', http(501), 'given back'],
    ['429', http(429), 'given back'],
    ['408', http(408), 'given back'],
    ['409', http(409), 'given back'],
    ['500', http(500), 'spent'],
    ['502', http(502), 'spent'],
    ['503', http(503), 'spent'],
    ['504', http(504), 'spent'],
    ['a refused connection', coded('ECONNREFUSED'), 'given back'],
    ['an unknown host', coded('ENOTFOUND'), 'given back'],
    ['a resolver that is away', coded('EAI_AGAIN'), 'given back'],
    ['an unreachable host', coded('EHOSTUNREACH'), 'given back'],
    ['an unreachable network', coded('ENETUNREACH'), 'given back'],
    ['no connection in time', coded('UND_ERR_CONNECT_TIMEOUT'), 'given back'],
    ['a refused address', ({ fetch }) => fetch('http://127.0.0.1:8080'), 'given back'],
    ['a reset connection', coded('ECONNRESET'), 'spent'],
    ['a broken pipe', coded('EPIPE'), 'spent'],
    ['no answer in time', coded('UND_ERR_HEADERS_TIMEOUT'), 'spent'],
    ["an SDK's own timer", failing(new DOMException('late', 'TimeoutError')), 'spent'],
    [
      'a deadline',
      ({ signal }) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
      'spent',
      { timeoutMs: 20 },
    ],
    ['a bug of the call', failing(new TypeError('a bug')), 'spent'],
  ])('%s, the key is %3$s', async (_, call, expected, options) => {
    const outcome = await write(call, options).catch((error: unknown) => error)
    expect(await ledger()).toEqual(expected === 'spent' ? ['key'] : [])
    const again = answers('{}')
    if (expected === 'spent') await conflictOf(write(again))
    else await write(again)
    expect(again).toHaveBeenCalledTimes(expected === 'spent' ? 0 : 1)
    expect(outcome).not.toMatchObject({ code: 'idempotency_conflict' })
  })

  it('the caller‘s abort, the key is spent', async () => {
    const caller = new AbortController()
    const call: Call<never> = () => {
      caller.abort(new Error('enough'))
      return new Promise(() => {})
    }
    await expect(write(call, { signal: caller.signal })).rejects.toThrow('enough')
    expect(await ledger()).toEqual(['key'])
  })

  it('an answer that does not fit the schema, the key is spent and the answer is kept', async () => {
    const schema = z.object({ id: z.string() })
    await expect(
      integration.requestAs(schema, 'things', 'POST', answers('{"id":1}'), { idempotencyKey: 'key' }),
    ).rejects.toMatchObject({ code: 'schema_drift' })
    expect(await conflictOf(write(answers('{}')))).toMatchObject({ priorState: 'recovered', priorResponse: { id: 1 } })
  })

  it.each<[string, z.ZodType]>([
    ['a transform that throws', z.object({ id: z.number().transform((id) => JSON.parse(`{${id}`) as unknown) })],
    ['an asynchronous check', z.object({ id: z.number().refine(async () => true) })],
  ])('an answer over which the schema throws, the same: %s', async (_, schema) => {
    // Its classifier takes all that it does not know for the caller's fault.
    const blaming = await makeIntegration(test, 'blaming')
    await expect(
      blaming.requestAs(schema, 'things', 'POST', answers('{"id":1}'), { idempotencyKey: 'key' }),
    ).rejects.toMatchObject({ code: 'schema_drift', issues: [{ path: '(root)' }] })
    const [row] = await test.sql`select * from integration_requests where integration_id = ${blaming.id}`
    expect(row).toMatchObject({ status_code: 200, failure_class: 'unknown' })
    const again = await conflictOf(write(answers('{}'), {}, blaming))
    expect(again).toMatchObject({ priorState: 'recovered', priorResponse: { id: 1 } })
  })

  it('a refusal before the first attempt, the key is given back', async () => {
    await integration.overrideCircuit('forced_open')
    const call = answers('{}')
    await expect(write(call)).rejects.toBeInstanceOf(CircuitOpenException)
    expect(call).not.toHaveBeenCalled()
    expect(await ledger()).toEqual([])
  })

  it.each<[string, () => Promise<unknown>, unknown]>([
    [
      'the rate limiter',
      async () => {
        await integration.overrideRateLimit(RateLimit.perHour(1).sliding())
        await integration.request('other', 'GET', () => 'fine')
      },
      { limit: 1, seconds: 3_600, window: 'sliding' },
    ],
    [
      'the suppression',
      () => {
        const quiet = new HttpError(429, new Headers({ 'Retry-After': '300' }), null)
        return integration.request('other', 'GET', failing(quiet), { attempts: 1 }).catch(() => {})
      },
      null,
    ],
  ])('a refusal by %s before the first attempt, the key is given back', async (_, fill, rateLimit) => {
    await fill()
    const call = answers('{}')
    await expect(write(call)).rejects.toMatchObject({ code: 'rate_limit_exceeded', rateLimit })
    expect(call).not.toHaveBeenCalled()
    expect(await ledger()).toEqual([])
  })

  it('the caller‘s abort while it waits for capacity, the key is given back', async () => {
    // It may sleep for an hour, so that its unit is not free before the caller gives up.
    const patient = testIntegrations(database.url, {
      providers: PROVIDERS,
      config: { rate_limiting: { max_wait_seconds: 3_600 } },
    })
    onTestFinished(() => patient.close())
    integration = await makeIntegration(patient, 'plain')
    await integration.overrideRateLimit(RateLimit.perHour(1).sliding())
    await integration.request('other', 'GET', () => 'fine')
    const call = answers('{}')
    await expect(write(call, { signal: AbortSignal.timeout(50) })).rejects.toMatchObject({ name: 'TimeoutError' })
    expect(call).not.toHaveBeenCalled()
    expect(await ledger()).toEqual([])
  })

  it('a refusal after a doubtful attempt, the key is spent', async () => {
    const call = vi.fn(async () => {
      await knowing.overrideCircuit('forced_open')
      throw new HttpError(503, new Headers(), null)
    })
    await expect(write(call, { attempts: 2 }, knowing)).rejects.toMatchObject({ code: 'circuit_open' })
    expect(call).toHaveBeenCalledTimes(1)
    expect(await ledger(knowing)).toEqual(['key'])
  })

  it('a doubtful attempt before a harmless one, the key is spent', async () => {
    const statuses = [503, 400]
    const call = vi.fn(() => new Response(null, { status: statuses.shift() as number }))
    await expect(write(call, { attempts: 2 }, knowing)).rejects.toMatchObject({ status: 400 })
    expect(call).toHaveBeenCalledTimes(2)
    expect(await ledger(knowing)).toEqual(['key'])
  })

  it('credentials that can‘t be read, no key was spent', async () => {
    await setIntegration(test, integration.id, { credentials: 'not ours' })
    const broken = await test.integrations.get(integration.id)
    await expect(write(answers('{}'), {}, broken)).rejects.toMatchObject({ code: 'credentials_unreadable' })
    expect(await ledger()).toEqual([])
  })

  it('a deleted integration: integration_not_found', async () => {
    await test.integrations.delete(integration.id)
    const call = answers('{}')
    await expect(write(call)).rejects.toMatchObject({ code: 'integration_not_found' })
    expect(call).not.toHaveBeenCalled()
  })
})

describe('the ledger itself', () => {
  afterEach(async () => {
    await test.sql.unsafe('drop trigger if exists refuse on integration_idempotency_keys')
  })

  async function refuse(what: 'insert' | 'delete'): Promise<void> {
    await test.sql.unsafe(`create or replace function refuse_it() returns trigger language plpgsql as
      $$ begin raise exception 'the ledger is away'; end $$`)
    await test.sql.unsafe(
      `create trigger refuse before ${what} on integration_idempotency_keys for each row execute function refuse_it()`,
    )
  }

  it('that can‘t be written to: the provider is not called', async () => {
    await refuse('insert')
    const call = answers('{}')
    await expect(write(call)).rejects.toThrow('the ledger is away')
    expect(call).not.toHaveBeenCalled()
  })

  it('that can‘t give a key back: the caller gets the call‘s own outcome, and a line says so', async () => {
    await refuse('delete')
    const from = test.lines.length
    await expect(write(answers('{}', 422))).rejects.toMatchObject({ status: 422 })
    expect(await ledger()).toEqual(['key'])
    expect(test.lines.slice(from)).toContainEqual({
      level: 'error',
      fields: {
        event: 'idempotency.key_kept',
        integration: integration.id,
        provider: 'plain',
        idempotency_key_id: expect.any(Number),
        error: expect.stringContaining('the ledger is away'),
      },
      message: expect.stringContaining('stays spent'),
    })
  })

  it('whose session is cut while a key is given back: it is given back by the next one', async () => {
    const cut = Object.assign(new Error('the connection was closed'), { code: 'CONNECTION_CLOSED' })
    const given = vi.spyOn(test.framework.db, 'delete').mockImplementationOnce(() => {
      throw cut
    })
    await expect(write(answers('{}', 422))).rejects.toMatchObject({ status: 422 })
    expect(given).toHaveBeenCalledTimes(2)
    expect(await ledger()).toEqual([])
  })

  it('gives back only what this very call has spent', async () => {
    await expect(
      write(async () => {
        await integration.forgetIdempotencyKey('key')
        await reserve({ framework: test.framework, integration, provider: {}, timeoutMs: 1_000 }, 'key')
        return new Response(null, { status: 422 })
      }),
    ).rejects.toMatchObject({ status: 422 })
    expect(await ledger()).toEqual(['key'])
  })
})

describe('a conflict says what the key answered', () => {
  it.each<[string, ReturnType<typeof answers>, string, unknown]>([
    ['JSON', answers('{"id":"pi_1"}'), 'recovered', { id: 'pi_1' }],
    ['a scalar', answers('7'), 'recovered', 7],
    ['a string', answers('"done"'), 'recovered', 'done'],
    ['a string that looks like a number', answers('"7"'), 'recovered', '7'],
    ['an empty string', answers('""'), 'recovered', ''],
    ['an empty body', answers(''), 'empty', null],
    ['a text', answers('created', 201, 'text/plain'), 'unparseable', 'created'],
  ])('%s', async (_, call, priorState, priorResponse) => {
    await write(call)
    const [row] = await test.sql<{ id: string }[]>`
      select id from integration_requests where integration_id = ${integration.id}`
    const prior = { priorState, priorResponse, priorRequestId: Number(row?.id), reservedAt: expect.any(Date) }
    expect(await conflictOf(write(call))).toMatchObject({ integrationId: integration.id, key: 'key', ...prior })
    expect(await integration.idempotencyRecord('key')).toEqual({ key: 'key', ...prior })
    expect(call).toHaveBeenCalledTimes(1)
  })

  const nothing = { priorState: 'unknown', priorResponse: null, priorRequestId: null }

  it('unknown while the call is in flight', async () => {
    const sent = occasion()
    const end = occasion()
    const first = write(async () => {
      sent.happen()
      await end.happened
      return { id: 1 }
    })
    await sent.happened
    const conflict = await conflictOf(write(answers('{}')))
    expect(conflict).toMatchObject(nothing)
    const until = new Date(conflict.reservedAt.getTime() + 1_350_000).toISOString()
    expect(conflict.message).toContain(`its call may be under way until ${until}. If its effect is not known then, ask`)
    end.happen()
    await first
    expect(await conflictOf(write(answers('{}')))).toMatchObject({ priorState: 'recovered', priorResponse: { id: 1 } })
  })

  it('unknown after a doubtful end, and when the row has been pruned', async () => {
    await expect(write(answers('{"error":"late"}', 503))).rejects.toMatchObject({ status: 503 })
    expect(await conflictOf(write(answers('{}')))).toMatchObject(nothing)
    await write(answers('{"id":1}'), { idempotencyKey: 'other' })
    await test.sql`delete from integration_requests where integration_id = ${integration.id}`
    expect(await conflictOf(write(answers('{}'), { idempotencyKey: 'other' }))).toMatchObject(nothing)
  })

  it('of its own reservation, never of one that was forgotten', async () => {
    await write(answers('{"id":"old"}'))
    await integration.forgetIdempotencyKey('key')
    await expect(write(answers('', 503))).rejects.toMatchObject({ status: 503 })
    expect(await conflictOf(write(answers('{}')))).toMatchObject(nothing)
  })

  it('whole, whatever logging.max_response_bytes says, and without credentials', async () => {
    const text = 'x'.repeat(5_000)
    const cutting = testIntegrations(database.url, {
      providers: PROVIDERS,
      config: { logging: { max_response_bytes: 1_024 } },
    })
    try {
      const own = await makeIntegration(cutting, 'plain', { credentials: { token: 'a-secret-of-the-test' } })
      await write(answers(JSON.stringify({ text, echoed: 'a-secret-of-the-test' })), {}, own)
      const { priorState, priorResponse } = await conflictOf(write(answers('{}'), {}, own))
      expect({ priorState, priorResponse }).toEqual({
        priorState: 'recovered',
        priorResponse: { text, echoed: '[REDACTED]' },
      })
    } finally {
      await cutting.close()
    }
  })

  it('null for a key that was never used', async () => {
    expect(await integration.idempotencyRecord('key')).toBeNull()
  })
})

describe('forgetting a key', () => {
  it('lets it be used again, and is logged', async () => {
    await expect(write(answers('', 503))).rejects.toMatchObject({ status: 503 })
    const { reservedAt } = (await integration.idempotencyRecord('key')) ?? {}
    expect(await integration.forgetIdempotencyKey('key')).toBe(true)
    const again = answers('{}')
    await write(again)
    expect(again).toHaveBeenCalledTimes(1)
    const logs = await test.sql`
      select operation, status, direction, metadata from integration_logs where integration_id = ${integration.id}`
    expect(logs).toEqual([
      {
        operation: 'idempotency',
        status: 'success',
        direction: 'outbound',
        metadata: { key: 'key', reserved_at: reservedAt?.toISOString() },
      },
    ])
  })

  it('that was never used: false, and no log', async () => {
    expect(await integration.forgetIdempotencyKey('key')).toBe(false)
    expect(await test.sql`select from integration_logs where integration_id = ${integration.id}`).toHaveLength(0)
  })

  it('frees it though a dead process holds its turn', async () => {
    await reserve({ framework: test.framework, integration: knowing, provider: KNOWING, timeoutMs: 600_000 }, 'key')
    await conflictOf(write(answers('{}'), {}, knowing))
    await knowing.forgetIdempotencyKey('key')
    await write(answers('{}'), {}, knowing)
  })
})

describe('a provider that knows keys itself', () => {
  it('gets a key of unknown effect again, until there is an answer', async () => {
    await expect(write(answers('', 503), {}, knowing)).rejects.toMatchObject({ status: 503 })
    await expect(write(answers('', 504), {}, knowing)).rejects.toMatchObject({ status: 504 })
    const keys: unknown[] = []
    await write(({ idempotencyKey }) => ({ keys: keys.push(idempotencyKey) }), {}, knowing)
    expect(keys).toEqual(['key'])
    expect(await conflictOf(write(answers('{}'), {}, knowing))).toMatchObject({ priorState: 'recovered' })
  })

  it('a repeat that is turned away gives nothing back: the first call may have had an effect', async () => {
    await expect(write(answers('', 503), {}, knowing)).rejects.toMatchObject({ status: 503 })
    await expect(write(answers('', 422), {}, knowing)).rejects.toMatchObject({ status: 422 })
    expect(await ledger(knowing)).toEqual(['key'])
  })

  it('lets one caller through at a time', async () => {
    const sent = occasion()
    const end = occasion()
    const first = write(
      async () => {
        sent.happen()
        await end.happened
        return new Response(null, { status: 503 })
      },
      {},
      knowing,
    )
    await sent.happened
    const repeat = answers('{}')
    const conflict = await conflictOf(write(repeat, {}, knowing))
    expect(conflict).toMatchObject({ priorState: 'unknown' })
    const [turn] = await test.sql<{ ends: Date }[]>`
      select turn_ends_at as ends from integration_idempotency_keys where integration_id = ${knowing.id}`
    // To free the key now would let the write happen twice.
    expect(conflict.message).toMatch(
      new RegExp(
        `: another call with it may be under way until ${turn?.ends.toISOString()}. Call again with the same key`,
      ),
    )
    expect(conflict.message).not.toContain('forgetIdempotencyKey')
    expect(repeat).not.toHaveBeenCalled()
    end.happen()
    await expect(first).rejects.toMatchObject({ status: 503 })
    await write(repeat, {}, knowing)
  })

  it('asks no provider again where another repeat was answered before the turn was taken', async () => {
    await expect(write(answers('', 503), {}, knowing)).rejects.toMatchObject({ status: 503 })
    const call = answers('{}')
    const repeat = await test.sql.begin(async (sql) => {
      await sql`select from integration_idempotency_keys where integration_id = ${knowing.id} for update`
      const waiting = conflictOf(write(call, {}, knowing))
      await vi.waitFor(async () => {
        const blocked = await test.sql`
          select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
        expect(blocked).toHaveLength(1)
      }, SOON)
      await sql`update integration_requests set status_code = 200, response_data = '{"by":"another"}'
        where integration_id = ${knowing.id}`
      return { waiting }
    })
    expect(await repeat.waiting).toMatchObject({ priorResponse: { by: 'another' } })
    expect(call).not.toHaveBeenCalled()
    // Nor does it keep the turn.
    expect(
      await test.sql`select turn_ends_at from integration_idempotency_keys where integration_id = ${knowing.id}`,
    ).toEqual([{ turn_ends_at: null }])
  })

  it.each([
    ['plain', {}],
    ['knowing', KNOWING],
  ])(
    'a session that is cut while the key is spent leaves it in the hands of its caller (%s)',
    async (name, provider) => {
      const own = await makeIntegration(test, name)
      const { db } = test.framework
      const cut = vi.spyOn(db, 'with').mockImplementationOnce(((...parts: never[]) => ({
        select: () => ({
          from: async (spent: never) => {
            await db
              .with(...parts)
              .select()
              .from(spent)
            throw Object.assign(new Error('the connection was closed'), { code: 'CONNECTION_CLOSED' })
          },
        }),
      })) as never)
      onTestFinished(() => cut.mockRestore())
      const call = { framework: test.framework, integration: own, provider, timeoutMs: 30_000 }
      const reservation = await reserve(call, 'key')
      expect(await ledger(own)).toEqual(['key'])
      await conflictOf(write(answers('{}'), {}, own))
      await reservation.end({ kind: 'failed', error: new Error(), failureClass: 'client', withoutEffect: true })
      expect(await ledger(own)).toEqual([])
    },
  )

  it.each([
    ['at the end of its window', 0, 'conflict'],
    ['a minute before', -60, 'let through'],
  ])('%s a key of unknown effect is: %3$s', async (_, offset, expected) => {
    await expect(write(answers('', 503), {}, knowing)).rejects.toMatchObject({ status: 503 })
    await test.sql`update integration_idempotency_keys
      set created_at = clock_timestamp() - make_interval(secs => ${WINDOW_SECONDS + offset})
      where integration_id = ${knowing.id}`
    // Of a call that has tried lately another attempt may come.
    await test.sql`update integration_requests set created_at = created_at - interval '1 day' where integration_id = ${knowing.id}`
    const repeat = answers('{}')
    const way = /: whether it took effect is not known\. Ask the provider; forgetIdempotencyKey\(\) frees it\.$/
    if (expected === 'conflict') expect((await conflictOf(write(repeat, {}, knowing))).message).toMatch(way)
    else await write(repeat, {}, knowing)
    expect(repeat).toHaveBeenCalledTimes(expected === 'conflict' ? 0 : 1)
  })

  it.each([
    ['goes on', () => {}, 'answered', 2],
    [
      'sends nothing for a caller that has given up',
      (caller: AbortController) => caller.abort(new Error('no')),
      'no',
      1,
    ],
  ])('a wait for its row is no part of an attempt’s time: the call %s', async (_, meanwhile, ends, made) => {
    const caller = new AbortController()
    const held = occasion()
    const call = vi.fn(async () => {
      if (call.mock.calls.length > 1) {
        // The turn lasts as long as this attempt, however long it took to renew it.
        await setTimeout(700)
        await conflictOf(write(answers('{}'), {}, knowing))
        return 'answered'
      }
      void test.sql.begin(async (sql) => {
        await sql`select from integration_idempotency_keys where integration_id = ${knowing.id} for update`
        held.happen()
        await setTimeout(1_500)
        meanwhile(caller)
      })
      await held.happened
      // A younger turn is not renewed.
      await setTimeout(300)
      return new Response('', { status: 429 })
    })
    const options = { attempts: 2, timeoutMs: 1_000, signal: caller.signal }
    const ended = await write<unknown>(call, options, knowing).catch(({ message }: Error) => message)
    expect(ended).toBe(ends)
    expect(call).toHaveBeenCalledTimes(made)
    const [row] = await test.sql`select consecutive_failures from integrations where id = ${knowing.id}`
    expect(row).toEqual({ consecutive_failures: 0 })
    const rows = await test.sql`select failure_class from integration_requests where integration_id = ${knowing.id}`
    expect(rows).toHaveLength(made)
  })

  describe('by a clock that the test moves', () => {
    let clock: ManualClock
    let clocked: TestIntegrations
    let own: Integration
    beforeEach(async () => {
      clock = new ManualClock('2026-01-01T00:00:00Z')
      clocked = testIntegrations(database.url, { providers: PROVIDERS, clock })
      own = await makeIntegration(clocked, 'knowing')
    })
    afterEach(() => clocked.close())
    const WITHOUT_EFFECT = {
      kind: 'failed',
      error: new Error(),
      failureClass: 'throttle',
      withoutEffect: true,
    } as const

    it('the turn of a caller that died ends with the call‘s timeout', async () => {
      await reserve({ framework: clocked.framework, integration: own, provider: KNOWING, timeoutMs: 30_000 }, 'key')
      const repeat = answers('{}')
      clock.advance(30)
      await conflictOf(write(repeat, {}, own))
      clock.advance(2)
      await write(repeat, {}, own)
      expect(repeat).toHaveBeenCalledTimes(1)
    })

    it('an answer from before does not count for a key that is used again in the same moment', async () => {
      await write(answers('{"id":"old"}'), {}, own)
      await own.forgetIdempotencyKey('key')
      const repeat = answers('', 503)
      await expect(write(repeat, {}, own)).rejects.toMatchObject({ status: 503 })
      expect(await own.idempotencyRecord('key')).toMatchObject({ priorState: 'unknown', priorResponse: null })
      await write(repeat.mockImplementation(answers('{"id":"new"}')), {}, own)
      expect(await own.idempotencyRecord('key')).toMatchObject({ priorResponse: { id: 'new' } })
    })

    it.each([
      ['alone', 1],
      ['in a joined statement', 0],
    ])('an answer counts though the clock was set back before it was stored, %s', async (_, consecutiveFailures) => {
      await setIntegration(clocked, own.id, { consecutiveFailures })
      const call = answers('{"id":1}')
      await write(
        () => {
          clock.set('2025-12-31T23:00:00Z')
          return call()
        },
        {},
        own,
      )
      expect(await conflictOf(write(answers('{}'), {}, own))).toMatchObject({ priorResponse: { id: 1 } })
    })

    it('the window counts from the reservation, not from the last repeat', async () => {
      await expect(write(answers('', 503), {}, own)).rejects.toMatchObject({ status: 503 })
      clock.advance(WINDOW_SECONDS - 1)
      await expect(write(answers('', 503), {}, own)).rejects.toMatchObject({ status: 503 })
      clock.advance(1)
      expect(await conflictOf(write(answers('{}'), {}, own))).toMatchObject({
        priorState: 'unknown',
        reservedAt: new Date('2026-01-01T00:00:00Z'),
      })
    })

    it('the window counts from the reservation, though an earlier answer was stored while the clock was ahead', async () => {
      clock.advance(10 * 3_600)
      await expect(write(answers('', 400), {}, own)).rejects.toMatchObject({ status: 400 })
      clock.set('2026-01-01T00:00:00Z')
      await expect(write(answers('', 503), {}, own)).rejects.toMatchObject({ status: 503 })
      clock.advance(WINDOW_SECONDS)
      expect(await conflictOf(write(answers('{}'), {}, own))).toMatchObject({
        priorState: 'unknown',
        reservedAt: new Date('2026-01-01T00:00:00Z'),
      })
    })

    it('an answer from while the clock was ahead counts for its own reservation only', async () => {
      clock.advance(10 * 3_600)
      await write(answers('{"id":"old"}'), {}, own)
      clock.set('2026-01-01T00:00:00Z')
      expect(await conflictOf(write(answers('{}'), {}, own))).toMatchObject({ priorResponse: { id: 'old' } })
      await own.forgetIdempotencyKey('key')
      await expect(write(answers('', 503), {}, own)).rejects.toMatchObject({ status: 503 })
      expect(await own.idempotencyRecord('key')).toMatchObject({ priorState: 'unknown', priorResponse: null })
    })

    it('a repeat that waits beyond the end of the window is not sent', async () => {
      await expect(write(answers('', 503), {}, own)).rejects.toMatchObject({ status: 503 })
      clock.advance(WINDOW_SECONDS - 5)
      const call = { framework: clocked.framework, integration: own, provider: KNOWING, timeoutMs: 30_000 }
      const reservation = await reserve(call, 'key')
      clock.advance(4)
      await reservation.mayCall()
      clock.advance(1)
      await conflictOf(reservation.mayCall())
      await reservation.end(WITHOUT_EFFECT)
      expect(await ledger(own)).toEqual(['key'])
    })

    it('a key whose call is under way at the end of the window is not to be freed yet', async () => {
      const call = { framework: clocked.framework, integration: own, provider: KNOWING, timeoutMs: 30_000 }
      await reserve(call, 'key')
      clock.advance(WINDOW_SECONDS - 5)
      // Takes the turn over.
      const reservation = await reserve(call, 'key')
      clock.advance(10)
      const { message } = await conflictOf(write(answers('{}'), {}, own))
      expect(message).toContain('its call may be under way until 2026-01-02')
      await reservation.end(WITHOUT_EFFECT)
    })

    it.each([
      [503, 'is the last one', 1],
      [429, 'is followed by another, since it had no effect', 2],
    ])('an attempt of the first call that ends with %i at the end of the window %s', async (status, _, made) => {
      const call = vi.fn(() => {
        clock.advance(WINDOW_SECONDS)
        return new Response('{}', { status: call.mock.calls.length === 1 ? status : 200 })
      })
      const ended = write(call, { attempts: 3 }, own)
      if (made === 1) await conflictOf(ended)
      else await ended
      expect(call).toHaveBeenCalledTimes(made)
    })

    /** The reservation of a call that has waited for capacity longer than its turn lasts. */
    async function lateReservation() {
      const call = { framework: clocked.framework, integration: own, provider: KNOWING, timeoutMs: 1_000 }
      const reservation = await reserve(call, 'key')
      vi.spyOn(performance, 'now').mockReturnValue(performance.now() + 60_000)
      clock.advance(60)
      return reservation
    }

    it('a caller whose turn ran out while it waited takes it again', async () => {
      const reservation = await lateReservation()
      await reservation.mayCall()
      await conflictOf(write(answers('{}'), {}, own))
    })

    it('and sends nothing if somebody else has been let through meanwhile', async () => {
      const reservation = await lateReservation()
      await write(answers('{"by":"another"}'), {}, own)
      expect(await conflictOf(reservation.mayCall())).toMatchObject({
        priorState: 'recovered',
        priorResponse: { by: 'another' },
      })
      // The answer of the other one goes with the key.
      await reservation.end({ kind: 'failed', error: new Error(), failureClass: 'client', withoutEffect: true })
      expect(await ledger(own)).toEqual(['key'])
    })

    it.each([
      ['was answered', 200],
      ['may have had an effect', 503],
    ])('one that gives up its wait leaves the key with another caller whose call %s', async (_, status) => {
      const reservation = await lateReservation()
      await write(answers('{}', status), {}, own).catch(() => {})
      await reservation.end(WITHOUT_EFFECT)
      expect(await ledger(own)).toEqual(['key'])
    })

    it('one that takes its turn again after another caller‘s leaves the key, too', async () => {
      const reservation = await lateReservation()
      await expect(write(answers('', 503), {}, own)).rejects.toMatchObject({ status: 503 })
      await reservation.mayCall()
      await reservation.end(WITHOUT_EFFECT)
      expect(await ledger(own)).toEqual(['key'])
    })

    it('but sends nothing once the window is over: the other caller may have had an effect', async () => {
      const reservation = await lateReservation()
      await expect(write(answers('', 503), {}, own)).rejects.toMatchObject({ status: 503 })
      clock.advance(WINDOW_SECONDS)
      await conflictOf(reservation.mayCall())
    })

    it('one that gives up its wait gives the key back if there was no other caller', async () => {
      const reservation = await lateReservation()
      await reservation.end(WITHOUT_EFFECT)
      expect(await ledger(own)).toEqual([])
    })

    it('one whose key an operator may not forget yet keeps its turn', async () => {
      const reservation = await lateReservation()
      const [key] = await test.sql<{ id: string }[]>`
        select id from integration_idempotency_keys where integration_id = ${own.id}`
      const forgetting = clocked.integrations.admin.idempotencyKeys.forget(Number(key?.id), { by: 'ada' })
      await expect(forgetting).rejects.toMatchObject({ code: 'idempotency_key_in_use' })
      await reservation.end(WITHOUT_EFFECT)
      expect(await ledger(own)).toEqual([])
    })

    it('nor if Postgres can‘t say whose turn it is', async () => {
      const refused = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED', syscall: 'connect' })
      const reservation = await lateReservation()
      vi.spyOn(clocked.framework.db, 'update').mockImplementation(() => {
        throw refused
      })
      await conflictOf(reservation.mayCall())
      expect(clocked.lines).toContainEqual(
        expect.objectContaining({ level: 'warn', message: expect.stringMatching('who holds') }),
      )
    })
  })
})

it.each(['plain', 'knowing'])('of 100 concurrent calls with one key exactly one is made (%s)', async (provider) => {
  const own = await makeIntegration(test, provider)
  const end = occasion()
  const call = vi.fn(async () => {
    await end.happened
    return { id: 1 }
  })
  const calls = Array.from({ length: 100 }, () =>
    write(call, {}, own).then(
      () => 'made',
      ({ code }) => code as string,
    ),
  )
  let settled = 0
  for (const each of calls)
    void each.then(() => {
      settled += 1
      if (settled === 99) end.happen()
    })
  const outcomes = await Promise.all(calls)
  expect(outcomes.toSorted()).toEqual([...Array(99).fill('idempotency_conflict'), 'made'])
  expect(call).toHaveBeenCalledTimes(1)
})

describe('inside a transaction', () => {
  let host: Sql
  beforeAll(async () => {
    host = postgres(database.url, { max: 2, fetch_types: false, onnotice: () => {} })
  })
  afterAll(() => host.end())

  async function expectRefused(work: (call: () => Promise<unknown>) => Promise<unknown>): Promise<void> {
    const call = answers('{}')
    await expect(work(() => write(call))).rejects.toMatchObject({ code: 'idempotency_inside_transaction', key: 'key' })
    expect(call).not.toHaveBeenCalled()
    expect(await ledger()).toEqual([])
  }

  it('of integrations.transaction() a keyed write is refused', async () => {
    await expectRefused((call) => test.integrations.transaction(() => call()))
    await expectRefused((call) => test.integrations.transaction((tx) => tx.transaction(() => call())))
    // Its inner one has ended, it has not.
    await expectRefused((call) =>
      test.integrations.transaction(async (tx) => {
        await tx.transaction(async () => {})
        return call()
      }),
    )
  })

  it('of a tracked database it is refused, however often that is tracked', async () => {
    const db = drizzle(host)
    const begin = db.transaction
    expect(test.integrations.trackTransactions(db)).toBe(db)
    const once = db.transaction
    expect(once).not.toBe(begin)
    expect(test.integrations.trackTransactions(db).transaction).toBe(once)
    await expectRefused((call) => db.transaction(() => call()))
    await expectRefused((call) =>
      db.transaction((tx) => tx.transaction(() => call()), { isolationLevel: 'serializable' }),
    )
  })

  it('a tracked transaction gives what its work gives, and is rolled back when that throws', async () => {
    const db = test.integrations.trackTransactions(drizzle(host))
    await host.unsafe('create table if not exists of_the_host (n int)')
    expect(
      await db.transaction(async (tx) => (await tx.execute('insert into of_the_host values (1) returning n'))[0]),
    ).toEqual({ n: 1 })
    await expect(
      db.transaction(async (tx) => {
        await tx.execute('insert into of_the_host values (2)')
        throw new Error('enough')
      }),
    ).rejects.toThrow('enough')
    expect(await host`select n from of_the_host`).toEqual([{ n: 1 }])
  })

  it('a database of another driver can be tracked, and one with a schema', () => {
    // For the compiler: PGlite's, node-postgres' and MySQL's differ in all but this.
    const anyDatabase = {
      transaction: async (work: (tx: { n: number }) => Promise<string>, _config?: { x: 1 }) => work({ n: 1 }),
    }
    expect(test.integrations.trackTransactions(anyDatabase)).toBe(anyDatabase)
    expect(test.integrations.trackTransactions(drizzle(host, { schema: {} }))).toBeDefined()
  })

  it('of an untracked database nobody knows, and its rollback does not take the reservation along', async () => {
    const db = drizzle(host)
    await expect(
      db.transaction(async () => {
        await write(answers('{"id":1}'))
        throw new Error('rolled back')
      }),
    ).rejects.toThrow('rolled back')
    expect(await ledger()).toEqual(['key'])
    expect(await conflictOf(write(answers('{}')))).toMatchObject({ priorState: 'recovered' })
  })

  it('calls without a key are made', async () => {
    const call = answers('{}')
    await test.integrations.transaction(() => integration.request('things', 'POST', call))
    expect(call).toHaveBeenCalledTimes(1)
  })

  it.each(['committed', 'rolled back'])('work left behind by one that was %s is not refused', async (end) => {
    const over = occasion()
    let left: Promise<unknown> = Promise.resolve()
    await test.integrations
      .transaction(async () => {
        left = over.happened.then(() => write(answers('{}')))
        if (end === 'rolled back') throw new Error('enough')
      })
      .catch(() => {})
    over.happen()
    await left
    expect(await ledger()).toEqual(['key'])
  })

  it('work beside it is not refused', async () => {
    const open = occasion()
    const end = occasion()
    const transaction = test.integrations.transaction(async () => {
      open.happen()
      await end.happened
    })
    await open.happened
    await write(answers('{}'))
    end.happen()
    await transaction
  })

  it('of an upsert, a keyed write of the attributes or of the model is refused, and nothing is written', async () => {
    const rows: unknown[] = []
    const model: MappedModel<{ id: string }, { id: string }> = {
      type: 'thing',
      of: (given) => ({ type: 'thing', id: typeof given === 'object' ? given.id : String(given) }),
      find: async () => null,
      findMany: async () => [],
      create: async (_, attributes) => {
        rows.push(attributes)
        return attributes
      },
      update: async (_, id) => ({ id }),
      scan: async () => [],
    }
    await expectRefused((call) =>
      integration.upsertByExternalId('7', model, async () => {
        await call()
        return { id: '1' }
      }),
    )
    expect(rows).toEqual([])
    await expectRefused((call) =>
      integration.upsertByExternalId('7', { ...model, create: async () => (await call()) as never }, { id: '1' }),
    )
    expect(await integration.resolveMapping('7', model)).toBeNull()
  })

  it('the framework‘s own transactions are none of the host‘s', async () => {
    const own = connect({ database: database.url })
    try {
      await own.db.transaction(async () => void (await write(answers('{}'))))
    } finally {
      await own.close()
    }
    expect(await ledger()).toEqual(['key'])
  })
})
