/** Listings and items know that they are inside a sync: a long throttle puts them off. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { currentSync } from '../../src/calls/inside-sync.ts'
import { HttpError } from '../../src/framework/errors.ts'
import type { CustomizesRetry, HasScheduledSync } from '../../src/providers/contracts.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { SyncSession } from '../../src/providers/sync-session.ts'
import { runActivity } from '../support/activities.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { encryptionKey, listen, testIntegrations } from '../support/integrations.ts'
import { syncProvider, ThingSynced } from '../support/providers.ts'
import { itemOf, makeIntegration, makeItem, makeRun } from '../support/rows.ts'

let database: TestDatabase
let test: TestIntegrations

/** Calls may wait for longer than their item, or their listing, has time. */
let patient: TestIntegrations

let ask: (session: SyncSession) => Promise<unknown>
let waitSeconds = 0

function limited(seconds: number) {
  waitSeconds = seconds
  return () => Promise.reject(new HttpError(429, new Headers({ 'retry-after': String(seconds) }), null))
}

const throttled = () => Promise.reject(new HttpError(429, new Headers({ 'retry-after': '90' }), null))

beforeAll(async () => {
  database = await createTestDatabase()
  const provider = syncProvider(async ({ integration }) => {
    await integration.request('things', 'GET', throttled)
  })
  const impatient: HasScheduledSync & CustomizesRetry = {
    ...syncProvider(async (session) => {
      await ask(session)
    }),
    isRetryable: (_error, { longestSeconds }) => (waitSeconds > longestSeconds ? false : null),
    retryDelayMs: () => waitSeconds * 1_000,
  }
  const headers = syncProvider(async (session) => {
    await ask(session)
  })
  const { isRetryable: _, ...naming } = impatient
  const encryptionKeys = encryptionKey('test')
  test = testIntegrations(database.url, { encryptionKeys, providers: { acme: provider, impatient, naming, headers } })
  const config = {
    rate_limiting: { max_wait_seconds: 7_200 },
    sync: { item_timeout: 5, job_timeout: 5 },
  }
  patient = testIntegrations(database.url, { encryptionKeys, providers: { acme: provider }, config })
})

afterAll(async () => {
  await patient.close()
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

it.each<[string, (own: Integration) => Promise<unknown>]>([
  ['a throttle', (own) => own.request('things', 'GET', throttled)],
  [
    'its provider in need of quiet',
    async (own) => {
      await own.request('things', 'POST', throttled).catch(() => {})
      await own.request('things', 'GET', () => 1)
    },
  ],
])(
  'an item is deferred by %s that lasts longer than the item has time, however long calls may wait',
  async (_, ask) => {
    const integration = await makeIntegration(patient, 'acme')
    const run = await makeRun(patient, integration.id)
    const item = await makeItem(patient, run)
    listen(patient, ThingSynced, ({ integration: own }: ThingSynced) => ask(own))
    const input = { syncLogId: run.id, claim: 'claim-1', take: { kind: 'pending', limit: 10 } } as const
    const { waiting } = await runActivity(patient.activities.processSyncItems, input)
    expect(waiting).toEqual([{ id: item.id, seconds: expect.toSatisfy((seconds: number) => seconds > 60) }])
    expect(await itemOf(patient, item.id)).toMatchObject({ attempts: 0, error: null })
  },
)

it('a listing is put off by a throttle that lasts longer than it has time, however long calls may wait', async () => {
  const integration = await makeIntegration(patient, 'acme')
  const run = await makeRun(patient, integration.id, { enumerated: false })
  const input = { integrationId: integration.id, syncLogId: run.id, attempt: 1 }
  const answer = { kind: 'deferred', retryAfterSeconds: 90, isBookmarked: false }
  expect(await runActivity(patient.activities.listSyncItems, input)).toMatchObject(answer)
})

it('a listing that meets a long throttle is put off by it at once, instead of sleeping', async () => {
  const integration = await makeIntegration(test, 'acme')
  const run = await makeRun(test, integration.id, { enumerated: false })
  const input = { integrationId: integration.id, syncLogId: run.id, attempt: 1 }
  const answer = { kind: 'deferred', retryAfterSeconds: 90, isBookmarked: false }
  expect(await runActivity(test.activities.listSyncItems, input)).toMatchObject(answer)
})

it.each([
  ['with no attempt left', 90, 'POST', 'impatient'],
  ['that the provider will not have slept', 7_200, 'GET', 'impatient'],
  ['that the provider names, and does not say whether to retry,', 7_200, 'GET', 'naming'],
])('a long throttle %s puts a listing off for all of it', async (_, seconds, method, provider) => {
  ask = ({ integration }) => integration.request('things', method, limited(seconds))
  const integration = await makeIntegration(test, provider)
  const run = await makeRun(test, integration.id, { enumerated: false })
  const input = { integrationId: integration.id, syncLogId: run.id, attempt: 1 }
  const answer = { kind: 'deferred', retryAfterSeconds: seconds, isBookmarked: false }
  expect(await runActivity(test.activities.listSyncItems, input)).toMatchObject(answer)
})

/** Of `retry.retry_after_max_seconds`, the default. */
const LONGEST_STEP_SECONDS = 600
/** The retry window of an item is 21,600 s. */
const BEYOND_THE_WINDOW_SECONDS = 25_000

it('a Retry-After of hours puts a listing off by the longest one that is obeyed', async () => {
  ask = ({ integration }) => integration.request('things', 'POST', limited(BEYOND_THE_WINDOW_SECONDS))
  const integration = await makeIntegration(test, 'headers')
  const run = await makeRun(test, integration.id, { enumerated: false })
  const input = { integrationId: integration.id, syncLogId: run.id, attempt: 1 }
  expect(await runActivity(test.activities.listSyncItems, input)).toMatchObject({
    kind: 'deferred',
    retryAfterSeconds: LONGEST_STEP_SECONDS,
    isBookmarked: false,
  })
})

it.each([
  ['Retry-After', 'headers'],
  ['the provider’s retryDelayMs()', 'impatient'],
])('an item that %s puts off beyond its retry window is not failed by it: it asks again in steps', async (_, key) => {
  const integration = await makeIntegration(test, key)
  const run = await makeRun(test, integration.id)
  const item = await makeItem(test, run)
  const call = limited(BEYOND_THE_WINDOW_SECONDS)
  listen(test, ThingSynced, ({ integration: own }: ThingSynced) => own.request('things', 'POST', call))
  const result = await runActivity(test.activities.processSyncItems, {
    syncLogId: run.id,
    claim: 'claim-1',
    take: { kind: 'pending', limit: 10 },
  })
  expect(result).toMatchObject({
    deferredSeconds: LONGEST_STEP_SECONDS,
    waiting: [{ id: item.id, seconds: LONGEST_STEP_SECONDS }],
  })
  expect(await itemOf(test, item.id)).toMatchObject({ status: 'processing', attempts: 0, error: null })
})

it('a short throttle with no attempt left is the provider’s own error: it was no wait that ended the call', async () => {
  ask = ({ integration }) => integration.request('things', 'POST', limited(10))
  const integration = await makeIntegration(test, 'impatient')
  const run = await makeRun(test, integration.id, { enumerated: false })
  const input = { integrationId: integration.id, syncLogId: run.id, attempt: 1 }
  await expect(runActivity(test.activities.listSyncItems, input)).rejects.toMatchObject({ type: 'http_error' })
})

it('outside of both nothing is inside a sync', () => {
  expect(currentSync()).toBeNull()
})
