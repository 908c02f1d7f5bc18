/** Listings and items know that they are inside a sync: a long throttle puts them off. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { HttpError } from '../../src/core/errors.ts'
import { currentSync } from '../../src/operations/inside-sync.ts'
import { runActivity } from '../support/activities.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { listen, testIntegrations } from '../support/integrations.ts'
import { syncProvider, ThingSynced } from '../support/providers.ts'
import { itemOf, makeIntegration, makeItem, makeRun } from '../support/rows.ts'

let database: TestDatabase
let test: TestIntegrations

const throttled = () => Promise.reject(new HttpError(429, new Headers({ 'retry-after': '90' }), null))

beforeAll(async () => {
  database = await createTestDatabase()
  const provider = syncProvider(async ({ integration }) => {
    await integration.request('things', 'GET', throttled)
  })
  test = testIntegrations(database.url, { providers: { acme: provider } })
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

it('an item that meets a long throttle is deferred by it: no attempt is counted', async () => {
  const integration = await makeIntegration(test, 'acme')
  const run = await makeRun(test, integration.id)
  const item = await makeItem(test, run)
  listen(test, ThingSynced, ({ integration: own }: ThingSynced) => own.request('things', 'GET', throttled))
  const result = await runActivity(test.activities.processSyncItems, {
    syncLogId: run.id,
    claim: 'claim-1',
    take: { kind: 'pending', limit: 10 },
  })
  expect(result).toMatchObject({ deferredSeconds: 90, waiting: [{ id: item.id, seconds: 90 }] })
  expect(await itemOf(test, item.id)).toMatchObject({ attempts: 0, error: null })
})

it('a listing that meets a long throttle is put off by it at once, instead of sleeping', async () => {
  const integration = await makeIntegration(test, 'acme')
  const run = await makeRun(test, integration.id, { enumerated: false })
  const input = { integrationId: integration.id, syncLogId: run.id, attempt: 1 }
  const answer = { kind: 'deferred', retryAfterSeconds: 90, isBookmarked: false }
  expect(await runActivity(test.activities.listSyncItems, input)).toEqual(answer)
})

it('outside of both nothing is inside a sync', () => {
  expect(currentSync()).toBeNull()
})
