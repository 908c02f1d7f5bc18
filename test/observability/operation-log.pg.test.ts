/** Operations as a host logs them. */
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import type { OperationRecord } from '../../src/events/events.ts'
import type { Integration, Operation, OperationInput } from '../../src/providers/integration.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { listen, testIntegrations } from '../support/integrations.ts'
import { TOKEN } from '../support/providers.ts'
import { makeIntegration } from '../support/rows.ts'

let database: TestDatabase
let test: TestIntegrations
let integration: Integration
let told: [string, OperationRecord][]

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, { providers: { plain: {} } })
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  integration = await makeIntegration(test, 'plain')
  told = []
  for (const name of ['OperationStarted', 'OperationCompleted', 'OperationFailed'] as const)
    listen(test, name, ({ log }: { log: OperationRecord }) => told.push([name, log]))
})

const IMPORT: OperationInput = { operation: 'import', direction: 'inbound' }

async function rowOf({ id }: Pick<Operation, 'id'>): Promise<Record<string, unknown> | undefined> {
  const [row] = await test.sql`select * from integration_logs where id = ${id}`
  return row
}

async function logCount(): Promise<number> {
  const [row] = await test.sql`
    select count(*)::int as n from integration_logs where integration_id = ${integration.id}`
  return row?.n
}

describe('an operation', () => {
  it('is a row that is being processed, then one that has succeeded', async () => {
    const given = { ...IMPORT, summary: 'Import of May', externalId: 'file-5', metadata: { file: 'may.csv', rows: 0 } }
    const operation = await integration.startOperation(given)
    const log = {
      id: operation.id,
      integrationId: integration.id,
      operation: 'import',
      direction: 'inbound',
      status: 'processing',
      summary: 'Import of May',
      externalId: 'file-5',
      metadata: { file: 'may.csv', rows: 0 },
      resultData: null,
      error: null,
      attempt: null,
      maxAttempts: null,
      durationMs: null,
      parentId: null,
      createdAt: (await rowOf(operation))?.created_at,
    }
    expect(await rowOf(operation)).toMatchObject({
      operation: 'import',
      direction: 'inbound',
      status: 'processing',
      summary: 'Import of May',
      external_id: 'file-5',
      metadata: { file: 'may.csv', rows: 0 },
      result_data: null,
      duration_ms: null,
      parent_id: null,
    })
    await operation.succeed({ metadata: { rows: 12 }, result: [1, 2] })
    const row = await rowOf(operation)
    expect(row).toMatchObject({
      status: 'success',
      summary: 'Import of May',
      metadata: { file: 'may.csv', rows: 12 },
      result_data: [1, 2],
      error: null,
      duration_ms: expect.any(Number),
    })
    expect(told).toEqual([
      ['OperationStarted', log],
      [
        'OperationCompleted',
        {
          ...log,
          ...{ status: 'success', durationMs: row?.duration_ms },
          ...{ metadata: { file: 'may.csv', rows: 12 }, resultData: [1, 2] },
        },
      ],
    ])
  })

  it.each(['webhook', 'webhook_replay', 'oauth', 'idempotency', 'event', 'notification', 'export'])(
    'may be called %s, whose rows the framework never reads again',
    async (operation) => {
      await (await integration.startOperation({ ...IMPORT, operation })).succeed()
      expect(told.map(([name, log]) => [name, log.operation])).toEqual([
        ['OperationStarted', operation],
        ['OperationCompleted', operation],
      ])
    },
  )

  it('gives its result by the name of its column, too, and one that fails has one as well', async () => {
    const [first, second] = [await integration.startOperation(IMPORT), await integration.startOperation(IMPORT)]
    await first.succeed({ resultData: { rows: 12 } })
    await second.fail(new Error('no'), { resultData: { rows: 3 } })
    expect([await rowOf(first), await rowOf(second)]).toMatchObject([
      { status: 'success', result_data: { rows: 12 } },
      { status: 'failed', result_data: { rows: 3 }, error: 'Error: no' },
    ])
  })

  it('that has ended already is stored with all that is known of it, without secrets', async () => {
    const outer = await integration.startOperation(IMPORT)
    const known = { ...IMPORT, status: 'failed', durationMs: 1_500, parentId: outer.id, resultData: [1] }
    const inner = await integration.startOperation({ ...known, error: `refused: ${TOKEN}` })
    expect(await rowOf(inner)).toMatchObject({
      status: 'failed',
      error: 'refused: [REDACTED]',
      duration_ms: 1_500,
      result_data: [1],
      parent_id: String(outer.id),
    })
    expect(told.at(-1)).toEqual([
      'OperationFailed',
      expect.objectContaining({ durationMs: 1_500, resultData: [1], parentId: outer.id }),
    ])
  })

  it('ends also when it took longer than its log can say', async () => {
    const operation = await integration.startOperation(IMPORT)
    const now = performance.now()
    vi.spyOn(performance, 'now').mockImplementation(() => now + 25 * 86_400_000)
    await operation.succeed()
    expect(await rowOf(operation)).toMatchObject({ status: 'success', duration_ms: 2_147_483_647 })
  })

  it('fails with its error in one line', async () => {
    const operation = await integration.startOperation(IMPORT)
    await operation.fail(Object.assign(new RangeError('too far'), { code: 'far' }), { summary: 'Gave up' })
    const failed = { status: 'failed', error: 'RangeError: too far (far)', summary: 'Gave up' }
    expect(await rowOf(operation)).toMatchObject(failed)
    expect(told[1]).toEqual(['OperationFailed', expect.objectContaining(failed)])
  })

  it('ends once, also when it is asked twice at the same moment', async () => {
    const operation = await integration.startOperation(IMPORT)
    const both = await Promise.allSettled([operation.succeed(), operation.fail(new Error('late'))])
    expect(both.map(({ status }) => status)).toEqual(['fulfilled', 'rejected'])
    await expect(operation.succeed()).rejects.toThrow(TypeError)
    expect(await rowOf(operation)).toMatchObject({ status: 'success', error: null })
    expect(told.map(([name]) => name)).toEqual(['OperationStarted', 'OperationCompleted'])
  })

  it.each([
    ['partial', []],
    ['deferred', []],
    ['ignored', []],
    ['pending', []],
    ['success', ['OperationCompleted']],
    ['failed', ['OperationFailed']],
  ])('that begins as %s tells %j', async (status, names) => {
    const operation = await integration.startOperation({ ...IMPORT, status })
    expect(told.map(([name]) => name)).toEqual(names)
    if (names.length > 0) await expect(operation.succeed()).rejects.toThrow(TypeError)
    else await operation.succeed()
    expect(await rowOf(operation)).toMatchObject({ status: names.length > 0 ? status : 'success' })
  })

  it('whose row was ended by somebody else, or is gone, leaves it so, with a warning and no event', async () => {
    const [erased, gone] = [await integration.startOperation(IMPORT), await integration.startOperation(IMPORT)]
    await test.sql`update integration_logs set status = 'failed', error = 'erased' where id = ${erased.id}`
    await test.sql`delete from integration_logs where id = ${gone.id}`
    told = []
    await erased.succeed({ result: { mail: 'ada@example.com' } })
    await gone.succeed()
    expect(await rowOf(erased)).toMatchObject({ status: 'failed', error: 'erased', result_data: null })
    expect(told).toEqual([])
    expect(test.lines.filter(({ fields }) => [erased.id, gone.id].includes(fields.log as number))).toHaveLength(2)
  })
})

describe('operations inside another', () => {
  it('are its children, however deep, and nobody else is', async () => {
    const outer = await integration.startOperation(IMPORT)
    const [before, inner, innermost] = await outer.run(async () => {
      const child = await integration.startOperation({ ...IMPORT, operation: 'page' })
      const grandchild = await child.run(() => integration.startOperation({ ...IMPORT, operation: 'row' }))
      return [await integration.startOperation({ ...IMPORT, operation: 'page' }), child, grandchild]
    })
    const after = await integration.startOperation(IMPORT)
    const parents = await Promise.all([outer, before, inner, innermost, after].map(rowOf))
    expect(parents.map((row) => row?.parent_id)).toEqual([
      null,
      ...[outer.id, outer.id, inner.id].map((id) => id.toString()),
      null,
    ])
    expect(told.find(([, log]) => log.id === inner.id)?.[1].parentId).toBe(outer.id)
  })

  it('stay apart from those of work beside it', async () => {
    const [a, b] = [await integration.startOperation(IMPORT), await integration.startOperation(IMPORT)]
    const children = await Promise.all([a, b].map((each) => each.run(() => integration.startOperation(IMPORT))))
    const rows = await Promise.all(children.map(rowOf))
    expect(rows.map((row) => Number(row?.parent_id))).toEqual([a.id, b.id])
  })
})

describe('what is stored', () => {
  it('holds no credential', async () => {
    const operation = await integration.startOperation({
      ...IMPORT,
      summary: `with ${TOKEN}`,
      metadata: { header: `Bearer ${TOKEN}`, [TOKEN]: 1, refresh_token: 'r' },
    })
    await operation.fail(new Error(`refused ${TOKEN}`), { metadata: { again: [TOKEN] } })
    const other = await integration.startOperation(IMPORT)
    await other.succeed({ result: { url: `https://example.com/?t=${TOKEN}` }, summary: TOKEN })
    const rows = [await rowOf(operation), await rowOf(other)]
    expect(JSON.stringify([rows, told])).not.toContain(TOKEN)
    expect(rows[0]?.metadata).toEqual({
      header: 'Bearer [REDACTED]',
      '[REDACTED]': 1,
      refresh_token: '[REDACTED]',
      again: ['[REDACTED]'],
    })
  })

  it('stays JSON where a secret is the digits of a number', async () => {
    const numeric = await makeIntegration(test, 'plain', { credentials: { pin: '1234567890' } })
    const operation = await numeric.startOperation({ ...IMPORT, metadata: { pin: 1234567890, other: 5 } })
    expect((await rowOf(operation))?.metadata).toEqual({ pin: '[REDACTED]', other: 5 })
  })

  it('is cut: the summary to 255 characters, the error to 1,000', async () => {
    const operation = await integration.startOperation({ ...IMPORT, summary: '😀'.repeat(300) })
    await operation.fail(new Error('x'.repeat(2_000)))
    const row = await rowOf(operation)
    expect(row?.summary).toBe('😀'.repeat(255))
    expect(row?.error).toHaveLength(1_000)
  })

  it('is a note of its size where JSON is larger than 64 KiB', async () => {
    const operation = await integration.startOperation({ ...IMPORT, metadata: 'x'.repeat(65_534) })
    await operation.succeed({ result: 'x'.repeat(65_535) })
    const row = await rowOf(operation)
    expect(row?.metadata).toHaveLength(65_534)
    expect(row?.result_data).toEqual({ note: '65537 bytes not stored' })
  })

  it('is such a note, too, where what stands for its secrets makes it larger', async () => {
    const operation = await integration.startOperation(IMPORT)
    await operation.succeed({ result: Array.from({ length: 3_000 }, () => ({ access_token: 'x' })) })
    expect((await rowOf(operation))?.result_data).toEqual({ note: expect.stringMatching(/^\d+ bytes not stored$/) })
  })
})

describe('refused before anything is stored', () => {
  it.each<[string, Record<string, unknown>, string]>([
    ['a blank operation', { operation: ' ' }, 'operation'],
    ['256 characters', { operation: 'x'.repeat(256) }, 'operation'],
    ...['sync', 'sync_item', 'backfill', 'cursor', 'webhook_reconcile', 'remap', 'erase', 'operator'].map(
      (operation): [string, Record<string, unknown>, string] => [`our own ${operation}`, { operation }, 'operation'],
    ),
    ['another direction', { direction: 'sideways' }, 'direction'],
    ['a blank status', { status: '' }, 'status'],
    ['a long external id', { externalId: 'x'.repeat(256) }, 'externalId'],
    ['a summary that is no text', { summary: 5 }, 'summary'],
    ['metadata that is no JSON', { metadata: { at: new Date() } }, 'metadata'],
    ['a result that is no JSON', { resultData: Number.NaN }, 'resultData'],
    ['an error that is no text', { error: new Error('no') }, 'error'],
    ['a duration that is no whole number', { durationMs: 1.5 }, 'durationMs'],
    ['a negative duration', { durationMs: -1 }, 'durationMs'],
    ['a parent that is no id', { parentId: '7' }, 'parentId'],
  ])('%s', async (_, wrong, argument) => {
    await expect(integration.startOperation({ ...IMPORT, ...wrong })).rejects.toMatchObject({
      code: 'invalid_argument',
      argument,
    })
    expect(await logCount()).toBe(0)
    expect(told).toEqual([])
  })

  it('an outcome that is no JSON; the operation can still end', async () => {
    const operation = await integration.startOperation(IMPORT)
    await expect(operation.succeed({ result: Number.NaN })).rejects.toMatchObject({ argument: 'result' })
    await expect(operation.succeed({ resultData: Number.NaN })).rejects.toMatchObject({ argument: 'resultData' })
    await expect(operation.succeed({ resultData: 1, result: 2 })).rejects.toMatchObject({ argument: 'result' })
    await operation.succeed()
    expect(await rowOf(operation)).toMatchObject({ status: 'success' })
  })
})
