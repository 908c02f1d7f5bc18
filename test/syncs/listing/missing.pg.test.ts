/** Which mapped ids two full listings in a row did not name, and when nobody is told of them. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { LogRow } from '../../../src/db/schema/tables.ts'
import type { HandlesMissing } from '../../../src/providers/contracts.ts'
import { handleMissing, missingItemsOf } from '../../../src/syncs/listing/missing.ts'
import type { TestDatabase } from '../../support/database.ts'
import { createTestDatabase } from '../../support/database.ts'
import type { TestIntegrations } from '../../support/integrations.ts'
import { testIntegrations } from '../../support/integrations.ts'
import { syncProvider } from '../../support/providers.ts'
import { countStatements, logOf, makeIntegration, makeRun, setIntegration } from '../../support/rows.ts'

let database: TestDatabase
let test: TestIntegrations
let id: number
let told: (readonly string[])[]

beforeAll(async () => {
  database = await createTestDatabase()
  const provider: HandlesMissing = {
    ...syncProvider(() => {}),
    async handleMissing(integration, externalIds) {
      expect(integration.id).toBe(id)
      told.push(externalIds)
    },
  }
  test = testIntegrations(database.url, { providers: { acme: provider, plain: syncProvider(() => {}) } })
})

afterAll(async () => {
  await test?.close()
  await database?.drop()
})

beforeEach(async () => {
  id = (await makeIntegration(test, 'acme')).id
  told = []
  test.lines.length = 0
})

async function map(externalIds: readonly string[], internalType = 'note', ago = '1 day'): Promise<void> {
  await test.sql`
    insert into integration_mappings (integration_id, external_id, internal_type, internal_id, created_at)
    select ${id}, x, ${internalType}, x, now() - ${ago}::interval from jsonb_array_elements_text(${JSON.stringify(externalIds)}::text::jsonb) x`
}

async function listed(
  externalIds: readonly string[],
  {
    internalType = null,
    status = 'success',
    ...metadata
  }: { internalType?: string | null; status?: string; full_listing?: null; operation?: string } = {},
): Promise<LogRow> {
  const { operation = 'sync', ...more } = metadata
  const log = await makeRun(
    test,
    id,
    { full_listing: { internal_type: internalType }, listed: externalIds.length, ...more },
    { status, operation },
  )
  await test.sql`
    insert into integration_sync_items (integration_id, sync_log_id, event_class, external_id, status)
    select ${id}, ${log.id}, 'test.thing', x, 'success' from jsonb_array_elements_text(${JSON.stringify(externalIds)}::text::jsonb) x`
  return log
}

/** After this run. Null: nobody was to be told. */
async function handled({ id: syncLogId }: LogRow): Promise<number | null> {
  const target = await missingItemsOf(test.framework, { integrationId: id, syncLogId })
  return target === null ? null : await handleMissing(test.framework, target, new AbortController().signal)
}

const warnings = () => test.lines.filter(({ level }) => level === 'warn').map(({ fields }) => fields)

describe('a mapped id is told as missing', () => {
  beforeEach(() => map(['a', 'b', 'c', 'd']))

  it('when neither of two full listings in a row named it', async () => {
    await listed(['a', 'b', 'c'])
    const run = await listed(['a', 'b'])
    expect(await handled(run)).toBe(1)
    expect(told).toEqual([['d']])
    expect((await logOf(test, run.id)).metadata).toMatchObject({ missing: 1, missing_handled_at: expect.any(String) })
  })

  it('again after each further full listing that lacks it', async () => {
    await listed(['a', 'b', 'c'])
    await handled(await listed(['a', 'b', 'c']))
    await handled(await listed(['a', 'b', 'c']))
    expect(told).toEqual([['d'], ['d']])
  })

  it('not after the first full listing', async () => {
    expect(await handled(await listed(['a', 'b', 'c']))).toBeNull()
  })

  it.each(['partial', 'failed', 'cancelled'])('not when either run ended as %s', async (status) => {
    await listed(['a', 'b', 'c'], { status })
    const clean = await listed(['a', 'b', 'c'])
    expect(await handled(clean)).toBeNull()
    expect(await handled(await listed(['a', 'b', 'c'], { status }))).toBeNull()
  })

  it('also when an ordinary run or a backfill came in between', async () => {
    await listed(['a', 'b', 'c'])
    await listed([], { full_listing: null })
    await listed(['a'], { full_listing: null, status: 'failed' })
    await listed([], { operation: 'backfill' })
    expect(await handled(await listed(['a', 'b', 'c']))).toBe(1)
  })

  it('not after a run that was no full listing', async () => {
    await listed(['a', 'b', 'c'])
    expect(await handled(await listed(['a', 'b', 'c'], { full_listing: null }))).toBeNull()
  })

  it('not when it was mapped after the earlier listing began', async () => {
    await listed(['a', 'b', 'c', 'd'])
    await map(['new'], 'note', '-1 minute')
    expect(await handled(await listed(['a', 'b', 'c', 'd']))).toBe(0)
    expect(told).toEqual([])
  })

  it('not when an item of any class had it', async () => {
    await listed(['a', 'b', 'c'])
    const run = await listed(['a', 'b', 'c', 'd'])
    await test.sql`update integration_sync_items set event_class = 'test.other' where sync_log_id = ${run.id}`
    expect(await handled(run)).toBe(0)
  })

  it('not for the items of another integration', async () => {
    const other = await makeIntegration(test, 'acme')
    await listed(['a', 'b', 'c'])
    const run = await listed(['a', 'b', 'c'])
    await test.sql`
      insert into integration_sync_items (integration_id, sync_log_id, event_class, external_id)
      values (${other.id}, null, 'test.thing', 'd')`
    expect(await handled(run)).toBe(1)
  })

  it('once, when several models are mapped to it', async () => {
    await map(['d'], 'task')
    await listed(['a', 'b', 'c'])
    expect(await handled(await listed(['a', 'b', 'c']))).toBe(1)
    expect(told).toEqual([['d']])
  })

  it('never to a provider that does not ask for it, nor while the integration is switched off', async () => {
    await listed(['a', 'b', 'c'])
    const run = await listed(['a', 'b', 'c'])
    await setIntegration(test, id, { isActive: false })
    expect(await handled(run)).toBeNull()
    await setIntegration(test, id, { isActive: true, provider: 'plain' })
    expect(await handled(run)).toBeNull()
  })
})

describe('full listings of one model', () => {
  it('are compared with its mappings only', async () => {
    await map(['n1', 'n2'], 'note')
    await map(['t1', 't2'], 'task')
    await listed(['n1'], { internalType: 'note' })
    expect(await handled(await listed(['n1'], { internalType: 'note' }))).toBe(1)
    expect(told).toEqual([['n2']])
  })

  it('follow on listings of the same model, whatever came in between', async () => {
    await map(['n1', 'n2'], 'note')
    await listed(['n1'], { internalType: 'note' })
    await listed(['t1'], { internalType: 'task' })
    expect(await handled(await listed(['n1']))).toBeNull()
    expect(await handled(await listed(['n1'], { internalType: 'note' }))).toBe(1)
  })
})

describe('items that pruning takes meanwhile', () => {
  it('end the telling: a listing that is not whole says nothing about what is missing', async () => {
    await map(['a', 'b', 'c', 'd', 'e'])
    const earlier = await listed(['a', 'b', 'c', 'd'])
    const later = await listed(['a', 'b', 'c'])
    const target = await missingItemsOf(test.framework, { integrationId: id, syncLogId: later.id })
    if (target === null) throw new Error('nothing to compare')
    await test.sql`delete from integration_sync_items where sync_log_id = ${earlier.id}`
    expect(await handleMissing(test.framework, target, new AbortController().signal)).toBe(0)
    expect(told).toEqual([])
    expect(warnings()).toMatchObject([
      { event: 'sync.missing_withheld', sync_log: later.id, earlier_sync_log: earlier.id },
    ])
    expect((await logOf(test, later.id)).metadata).not.toHaveProperty('missing_handled_at')
  })
})

describe('nobody is told', () => {
  it('when more than half of the mapped ids are missing; half passes', async () => {
    await map(['a', 'b', 'c', 'd'])
    await listed(['a', 'b'])
    expect(await handled(await listed(['a', 'b']))).toBe(2)
    expect(told).toEqual([['c', 'd']])
    told = []
    await map(['e'])
    await listed(['a', 'b'])
    const run = await listed(['a', 'b'])
    expect(await handled(run)).toBe(0)
    expect(told).toEqual([])
    expect(warnings()).toEqual([
      expect.objectContaining({ event: 'sync.missing_withheld', missing: 3, mapped: 5, sync_log: run.id }),
    ])
    expect((await logOf(test, run.id)).metadata).toMatchObject({ missing_withheld: { missing: 3, mapped: 5 } })
  })

  it('when two listings were empty', async () => {
    await map(['a'])
    await listed([])
    expect(await handled(await listed([]))).toBe(0)
    expect(warnings()).toHaveLength(1)
  })

  it.each(['earlier', 'later'])('when items of the %s listing have been pruned', async (which) => {
    await map(['a', 'b', 'c', 'd'])
    const earlier = await listed(['a', 'b', 'c'])
    const later = await listed(['a', 'b', 'c'])
    await test.sql`
      delete from integration_sync_items
      where sync_log_id = ${which === 'earlier' ? earlier.id : later.id} and external_id = 'a'`
    expect(await handled(later)).toBeNull()
    expect(warnings()).toEqual([expect.objectContaining({ event: 'sync.missing_withheld', sync_log: later.id })])
  })
})

it('tells of many in order, 500 at a time, and compares page by page', async () => {
  const all = Array.from({ length: 6_000 }, (_, n) => `id-${String(n).padStart(5, '0')}`)
  const kept = all.filter((_, n) => n % 10 !== 9)
  await map(all)
  await listed(kept)
  const target = await missingItemsOf(test.framework, { integrationId: id, syncLogId: (await listed(kept)).id })
  if (target === null) throw new Error('nothing to compare')
  const tell = async () => expect(await handleMissing(test.framework, target, new AbortController().signal)).toBe(600)
  // Two pages counted and two told from, one look at each of the two listings, two chunks noted, and the run's log.
  expect(await countStatements(test, tell)).toBe(2 + 2 + 2 + 2 + 1)
  expect(told.map((chunk) => chunk.length)).toEqual([500, 100])
  expect(told.flat()).toEqual(all.filter((_, n) => n % 10 === 9))
})
