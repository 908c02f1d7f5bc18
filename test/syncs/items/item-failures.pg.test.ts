/** What is written down of items that fail, for those who are told later. Rule: docs/behaviour/events.md, "Durable events". */
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import type { IntegrationEvents } from '../../../src/events/events.ts'
import type { HasOAuth2, HasScheduledSync } from '../../../src/providers/contracts.ts'
import type { Integration } from '../../../src/providers/integration.ts'
import { deliverDueEvents } from '../../../src/testing/jobs-in-process.ts'
import { scriptedOAuth } from '../../oauth/scripted-oauth.ts'
import { runActivity } from '../../support/activities.ts'
import type { TestDatabase } from '../../support/database.ts'
import { createTestDatabase } from '../../support/database.ts'
import type { TestIntegrations } from '../../support/integrations.ts'
import { listen, testIntegrations } from '../../support/integrations.ts'
import { ODD_ERRORS } from '../../support/odd-errors.ts'
import { syncProvider, ThingSynced } from '../../support/providers.ts'
import { itemOf, makeIntegration, makeItem, makeRun } from '../../support/rows.ts'

const OLD = 'access-before-the-refresh'
const NEW = 'access-after-the-refresh'

let database: TestDatabase
let test: TestIntegrations
let integration: Integration
let claims = 0

beforeAll(async () => {
  database = await createTestDatabase()
  const acme: HasScheduledSync & HasOAuth2 = {
    ...syncProvider(() => {}),
    ...scriptedOAuth(() => ({ access_token: NEW })),
  }
  test = testIntegrations(database.url, { providers: { acme }, config: { sync: { item_tries: 1 } } })
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  await test.sql`delete from integrations`
  const credentials = {
    access_token: OLD,
    refresh_token: 'refresh-of-the-tests',
    token_expires_at: '2000-01-01T00:00:00Z',
  }
  integration = await makeIntegration(test, 'acme', { credentials })
})

describe('a failed item', () => {
  it.each(ODD_ERRORS)(
    'whose listener throws %s is settled, and told later',
    async (_, { make, name, message, line }) => {
      const heard: IntegrationEvents['SyncItemFailed'][] = []
      toldLater((event) => heard.push(event))
      listen(test, ThingSynced, () => {
        throw make()
      })
      const row = await runItem({ failed: 1 })
      expect(await itemOf(test, row.id)).toMatchObject({ status: 'failed', error: line })
      expect(await storedErrors()).toEqual([{ name, message }])
      expect(await deliverDueEvents(test.framework)).toMatchObject({ processed: 1 })
      const item = {
        id: row.id,
        status: 'failed',
        error: line,
        completedAt: expect.any(Date),
        createdAt: row.createdAt,
      }
      expect(heard).toMatchObject([{ item, error: { name, message } }])
    },
  )

  it('whose error quotes a token that its own handle has replaced leaves that token nowhere', async () => {
    toldLater(() => {})
    listen(test, ThingSynced, async ({ integration: own }: ThingSynced) => {
      const { access_token: before } = own.credentialsArray()
      await own.refreshTokenIfNeeded()
      const { access_token: now } = own.credentialsArray()
      expect([before, now]).toEqual([OLD, NEW])
      makeReadsOld()
      throw new Error(`${before} was refused, ${now} was not tried`)
    })
    const row = await runItem({ failed: 1 })
    const message = '[REDACTED] was refused, [REDACTED] was not tried'
    expect(await storedErrors()).toEqual([{ name: 'Error', message }])
    expect(await itemOf(test, row.id)).toMatchObject({ status: 'failed', error: `Error: ${message}` })
    expect((await integration.refresh()).credentialsArray()).toMatchObject({ access_token: NEW })
  })
})

function toldLater(listener: (event: IntegrationEvents['SyncItemFailed']) => unknown): void {
  listen(test, 'SyncItemFailed', listener, { queued: true, name: 'later' })
}

async function runItem(expected: object) {
  const run = await makeRun(test, integration.id)
  const row = await makeItem(test, run)
  claims += 1
  const batch = { syncLogId: run.id, claim: `run:${claims}`, take: { kind: 'pending', limit: 10 } as const }
  expect(await runActivity(test.activities.processSyncItems, batch)).toMatchObject(expected)
  return row
}

async function storedErrors(): Promise<unknown[]> {
  const rows = await test.sql`select payload -> 'error' as error from integration_events where name = 'SyncItemFailed'`
  return rows.map(({ error }) => error)
}

/** As if a listener had run for a second: who asks for the integration now gets a handle that is made again. */
function makeReadsOld(): void {
  const now = performance.now.bind(performance)
  const late = vi.spyOn(performance, 'now').mockImplementation(() => now() + 1_000)
  onTestFinished(() => late.mockRestore())
}
