/** The published examples of GitHub's webhooks, each signed and delivered through the route. */
import { createHmac } from 'node:crypto'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { deliveries } from '../../sandbox/github/webhook-sender.ts'
import { GitHubProvider } from '../../src/adapters/github/index.ts'
import { createApi } from '../../src/api/app.ts'
import { storedWebhookRequest } from '../../src/providers/webhook-request.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { listen, testIntegrations } from '../support/integrations.ts'
import { makeIntegration } from '../support/rows.ts'

const SECRET = "It's a Secret to Everybody"
const EXAMPLES = 329
/** Of them, those with the type and the body of one before them. */
const COPIES = 5
const AT_ONCE = 20

let database: TestDatabase

beforeAll(async () => {
  database = await createTestDatabase()
})

afterAll(() => database.drop())

/** @returns the answers, in the order of the examples */
async function deliverAll(test: TestIntegrations, integrationId: number): Promise<string[]> {
  const api = createApi(test.integrations)
  const waiting = deliveries().map((delivery, index) => ({ ...delivery, index }))
  const answers: string[] = []
  const lane = async (): Promise<void> => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const { event, deliveryId, body, index } = next
      const response = await api.request(`/integrations/github/${integrationId}/webhook`, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          'x-github-event': event,
          'x-github-delivery': deliveryId,
          'x-hub-signature-256': `sha256=${createHmac('sha256', SECRET).update(body).digest('hex')}`,
        },
        body: new Uint8Array(body),
      })
      expect(response.status).toBe(200)
      answers[index] = ((await response.json()) as { status: string }).status
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, lane))
  return answers
}

function githubIntegration(test: TestIntegrations) {
  return makeIntegration(test, 'github', {
    credentials: { token: 't', webhook_secret: SECRET },
    metadata: { owner: 'octo', repo: 'widgets' },
  })
}

const count = (answers: readonly string[], status: string) => answers.filter((answer) => answer === status).length

it('all 329 pass: queued and told once, with their type, their id and their very bytes; sent again they are duplicates', async () => {
  const config = { webhook: { replay_window: 0 } }
  const test = testIntegrations(database.url, { providers: { github: new GitHubProvider() }, config })
  try {
    const told: string[] = []
    listen(test, 'WebhookReceived', ({ deliveryId }: { deliveryId: string }) => told.push(deliveryId))
    const { id } = await githubIntegration(test)
    expect(count(await deliverAll(test, id), 'queued')).toBe(EXAMPLES)
    const rows = await test.framework.db.select().from(test.framework.tables.webhooks)
    const stored = new Map(rows.map((row) => [row.deliveryId, row]))
    expect(stored.size).toBe(EXAMPLES)
    for (const { deliveryId, event, body } of deliveries()) {
      const row = stored.get(deliveryId) as NonNullable<ReturnType<typeof stored.get>>
      expect([row.eventType, row.status, row.attempts]).toEqual([event, 'pending', 0])
      const { rawBody } = storedWebhookRequest({
        payload: row.payload,
        headers: row.headers,
        receivedAt: row.createdAt,
        toleranceSeconds: 300,
      })
      expect(body.equals(rawBody)).toBe(true)
    }
    expect(told.sort()).toEqual([...stored.keys()].sort())
    expect(count(await deliverAll(test, id), 'duplicate')).toBe(EXAMPLES)
    expect(told).toHaveLength(EXAMPLES)
  } finally {
    await test.close()
  }
})

it('the five that are copies of others under an id of their own are duplicates within the replay window', async () => {
  const test = testIntegrations(database.url, { providers: { github: new GitHubProvider() } })
  try {
    const { id } = await githubIntegration(test)
    const answers = await deliverAll(test, id)
    expect([count(answers, 'queued'), count(answers, 'duplicate')]).toEqual([EXAMPLES - COPIES, COPIES])
  } finally {
    await test.close()
  }
})
