/** The whole host on the testing kit: no server, no network. One file, so that one database is made. */
import type { Integration } from 'durable-integrations'
import { GitHubIssueSynced } from 'durable-integrations/github'
import type { TestIntegrations } from 'durable-integrations/testing'
import { gitHubSigner, scriptedTransport, sequence, signedWebhook } from 'durable-integrations/testing'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { activity, issues } from '../tables.ts'
import { hostUnderTest, issue, SECRET, widgets } from './kit.ts'

const OPENED = { action: 'opened', repository: { full_name: 'octo/widgets' }, sender: { type: 'Bot' } }
const LIST = 'GET repos/octo/widgets/issues'

// What the wire answers, in order; calls that a test fakes do not get that far. From a cursor on comments are asked for, too.
const transport = scriptedTransport([{ body: [issue(1), issue(2)] }, { body: [] }, { body: [] }])

let kit: TestIntegrations
let integration: Integration

beforeAll(async () => {
  kit = await hostUnderTest(transport)
})
afterAll(() => kit.close())
beforeEach(async () => {
  await kit.sql`truncate issues, activity`
  integration = await widgets(kit)
})

const delivery = (deliveryId: string, secret = SECRET): Request =>
  signedWebhook(gitHubSigner, OPENED, { secret, event: 'issues', deliveryId })

describe('a delivery of GitHub', () => {
  it('is handled once, however often it comes', async () => {
    const id = '72d3162e-cc78-11e3-81ab-4c9367dc0958'
    const answers = [await kit.deliver(delivery(id), integration), await kit.deliver(delivery(id), integration)]
    expect(await Promise.all(answers.map((answer) => answer.json()))).toEqual([
      { status: 'queued' },
      { status: 'duplicate' },
    ])
    expect(await kit.processWebhooks()).toEqual({ processed: 1, failed: 0 })
    expect(await kit.processWebhooks()).toEqual({ processed: 0, failed: 0 })
    expect(await kit.db.select().from(activity)).toEqual([
      { deliveryId: id, event: 'issues', action: 'opened', repository: 'octo/widgets', isBot: true, runs: 1 },
    ])
  })

  it('with another signature is turned away', async () => {
    const answer = await kit.deliver(delivery('9d1bb4f0-0000-11e3-81ab-4c9367dc0958', 'another secret'), integration)
    expect(answer.status).toBe(403)
    expect(await kit.processWebhooks()).toEqual({ processed: 0, failed: 0 })
  })

  it('that cannot be noted fails, and can be tried again', async () => {
    await kit.sql`alter table activity rename to activity_away`
    const answer = await kit.deliver(delivery('0a0a0a0a-cc78-11e3-81ab-4c9367dc0958'), integration)
    expect(answer.status).toBe(200)
    expect(await kit.processWebhooks()).toEqual({ processed: 0, failed: 1 })
    await kit.sql`alter table activity_away rename to activity`
    expect(await kit.db.select().from(activity)).toEqual([])
  })
})

const stored = () => kit.db.select().from(issues).orderBy(issues.number)
describe('a sync of issues', () => {
  afterEach(() => kit.fakeRequests({}).stop())

  it('stores each issue, and asks from the cursor on the second time', async () => {
    const first = await kit.sync(integration)
    expect(first.result).toMatchObject({ kind: 'success', successCount: 2, cursor: '2026-03-01T10:00:00Z' })
    expect(first.result.safeSyncedAt).toEqual(kit.clock.now())
    expect((await stored()).map(({ number, title }) => [number, title])).toEqual([
      [1, 'Issue 1'],
      [2, 'Issue 2'],
    ])
    kit.clock.advance({ minutes: 5 })
    await kit.sync(await integration.refresh())
    expect(transport.requests.map(({ url }) => [url.pathname, url.searchParams.get('since')])).toEqual([
      ['/repos/octo/widgets/issues', '1970-01-01T00:00:00Z'],
      ['/repos/octo/widgets/issues', '2026-03-01T09:00:00Z'],
      ['/repos/octo/widgets/issues/comments', '2026-03-01T09:00:00Z'],
    ])
    transport.assertDone()
  })

  it('does not overwrite a newer copy with an older one', async () => {
    const newer = issue(7, { title: 'new title', updated_at: '2026-03-01T11:00:00Z' })
    const older = issue(7, { title: 'old title' })
    const fakes = kit.fakeRequests({ [LIST]: sequence([newer], [older]), [`${LIST}/comments`]: [] })
    await kit.sync(integration)
    await kit.sync(integration)
    expect((await stored()).map(({ title }) => title)).toEqual(['new title'])
    fakes.assertRequestCount(LIST, 2)
  })

  it('fails an item whose listener fails at every try, and keeps the cursor', async () => {
    const refuse = (event: GitHubIssueSynced): void => {
      if (event.payload.number === 8) throw new Error('no room for issue 8')
    }
    kit.integrations.on(GitHubIssueSynced, refuse)
    kit.fakeRequests({ [LIST]: [issue(8), issue(9)] })
    const { result, items } = await kit.sync(integration)
    kit.integrations.off(GitHubIssueSynced, refuse)
    expect(result).toMatchObject({ kind: 'partial', successCount: 1, failureCount: 1, cursor: null })
    const { item_tries: tries } = kit.integrations.config.sync
    expect(items.map(({ externalId, status, attempts }) => [externalId, status, attempts])).toEqual([
      ['8', 'failed', tries],
      ['9', 'success', 1],
    ])
    expect(kit.events.of('SyncItemFailed').map(({ item }) => item.error)).toEqual(['Error: no room for issue 8'])
  })
})
