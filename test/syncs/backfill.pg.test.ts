/** Who may be backfilled, and which windows. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { HasBackfill } from '../../src/providers/contracts.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { syncProvider } from '../support/providers.ts'
import { makeIntegration, setIntegration } from '../support/rows.ts'

const FROM = '2031-01-01T00:00:00.000Z'
const TO = '2031-02-01T00:00:00.000Z'
const withWindow: HasBackfill = { ...syncProvider(() => {}), syncWindow: async () => {} }

let database: TestDatabase
let test: TestIntegrations
let id: number

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, { providers: { acme: withWindow, plain: syncProvider(() => {}) } })
})

afterAll(async () => {
  await test?.close()
  await database?.drop()
})

beforeEach(async () => {
  id = (await makeIntegration(test, 'acme')).id
  test.starts.backfills.length = 0
})

interface Asked {
  readonly from?: string
  /** Also what a caller without types may give. */
  readonly to?: string | number
}

const backfill = ({ from = FROM, to = TO }: Asked = {}, integrationId = id) =>
  test.integrations.syncs.backfill({ integrationId, from, to: to as string })

describe('a backfill', () => {
  it('is started with its window in UTC', async () => {
    expect(await backfill({ from: '2031-01-01T02:00:00+02:00' })).toBe('started')
    expect(test.starts.backfills).toEqual([{ integrationId: id, from: FROM, to: TO }])
  })

  it('may be 3,660 days long', async () => {
    const to = new Date(Date.parse(FROM) + 3_660 * 86_400_000).toISOString()
    expect(await backfill({ to })).toBe('started')
  })

  it.each<[string, Asked, string, string]>([
    ['with a beginning without a zone', { from: '2031-01-01T00:00:00' }, 'from', '2031-01-01T00:00:00'],
    ['with a beginning that is only a date', { from: '2031-01-01' }, 'from', '2031-01-01'],
    ['with an end on a day that there is not', { to: '2031-02-30T00:00:00Z' }, 'to', '2031-02-30'],
    ['with an end that is no text', { to: 5 }, 'to', '5'],
    ['with an end at its beginning', { to: FROM }, 'to', FROM],
    ['with an end before its beginning', { from: TO, to: FROM }, 'to', FROM],
    ['of more than 3,660 days', { to: '2041-06-01T00:00:00Z' }, 'to', '3660 days'],
  ])('is refused %s, and the error names what was given', async (_, window, argument, named) => {
    await expect(backfill(window)).rejects.toMatchObject({
      code: 'invalid_argument',
      argument,
      message: expect.stringContaining(named),
    })
    expect(test.starts.backfills).toEqual([])
  })

  it('needs a provider with syncWindow()', async () => {
    const plain = await makeIntegration(test, 'plain')
    await expect(backfill({}, plain.id)).rejects.toMatchObject({
      code: 'unsupported_by_provider',
      contract: 'HasBackfill',
    })
  })

  it('needs an integration that is there, of a registered provider', async () => {
    await expect(backfill({}, 999_999)).rejects.toMatchObject({ code: 'integration_not_found' })
    await setIntegration(test, id, { provider: 'gone' })
    await expect(backfill()).rejects.toMatchObject({ code: 'unknown_provider' })
  })

  it.each([
    ['switched off', { isActive: false }],
    ['disabled by its health', { healthStatus: 'disabled' as const }],
  ])('is refused while the integration is %s', async (state, values) => {
    await setIntegration(test, id, values)
    await expect(backfill()).rejects.toMatchObject({
      code: 'integration_inactive',
      integrationId: id,
      message: expect.stringContaining(state),
    })
  })

  it('says when one lives already', async () => {
    Object.assign(test.framework.workflows, { startBackfill: async () => 'already running' })
    expect(await backfill()).toBe('already running')
  })
})
