/** A webhook subscription of 90 seconds in skipped time: our workflow, real activities, a server of ours. */
import type { WorkflowHandle } from '@temporalio/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Activities } from '../../src/activities/index.ts'
import { createActivities } from '../../src/activities/index.ts'
import type { KeepSubscriptionInput, SubscriptionSight } from '../../src/subscriptions/subscription-jobs.ts'
import { WORKFLOW } from '../../src/workflows/ids.ts'
import type { WebhookSubscriptionState } from '../../src/workflows/messages.ts'
import { look, webhookSubscriptionState } from '../../src/workflows/messages.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import { testIntegrations } from '../support/integrations.ts'
import { makeIntegration } from '../support/rows.ts'
import { SOON } from '../support/soon.ts'
import { subscribingProvider } from '../support/subscribing-provider.ts'
import { startSubscriptionServer } from '../support/subscription-server.ts'
import type { Scene, Stage } from './stage.ts'
import { countEvents, openStage } from './stage.ts'

let stage: Stage
let database: TestDatabase
beforeAll(async () => {
  ;[stage, database] = await Promise.all([openStage(), createTestDatabase()])
})
afterAll(async () => {
  await stage?.close()
  await database?.drop()
})

function tell({ client, ...options }: Scene, integrationId = 7) {
  return client.signalWithStart<(input: KeepSubscriptionInput) => Promise<SubscriptionSight | null>>(
    WORKFLOW.webhookSubscription,
    { ...options, args: [{ integrationId }], signal: look, signalArgs: [] },
  )
}

const SIGHT: SubscriptionSight = {
  integrationId: 7,
  standing: 'registered',
  did: 'nothing',
  subscriptionId: 'sub_1',
  expiresAt: null,
  error: null,
  nextLookInSeconds: 3_600,
}
const REMOVED: SubscriptionSight = { ...SIGHT, standing: 'removed', subscriptionId: null, nextLookInSeconds: null }

describe('the workflow of a webhook subscription', () => {
  it('renews for an hour without a gap, and ends once the integration is switched off and nothing is left', {
    timeout: 120_000,
  }, async () => {
    let nowMs = await stage.env.currentTimeMs()
    const server = await startSubscriptionServer({ lifeSeconds: 90, now: () => nowMs })
    const test = testIntegrations(database.url, {
      baseUrl: 'https://hooks.example.com',
      clock: { now: () => new Date(nowMs) },
      providers: { acme: subscribingProvider() },
      egress: { allow: ['127.0.0.1'] },
    })
    const real = createActivities(test.framework)
    const keepWebhookSubscription: Activities['keepWebhookSubscription'] = async (input) => {
      nowMs = await stage.env.currentTimeMs()
      return real.keepWebhookSubscription(input)
    }
    const integration = await makeIntegration(test, 'acme', { credentials: {}, metadata: { server: server.url } })
    await test.integrations.webhooks.register(integration.id)
    const beganAtMs = nowMs
    await stage.play({ keepWebhookSubscription }, async (scene) => {
      const run = await tell(scene, integration.id)
      await stage.env.sleep('1 hour')
      nowMs = await stage.env.currentTimeMs()
      server.note()
      // From the first moment on there was exactly one.
      expect(server.timeline.filter(({ atMs }) => atMs > beganAtMs).map(({ live }) => live)).toEqual([])
      expect(server.timeline.at(-1)?.live).toBe(1)
      expect(server.requests.filter((method) => method === 'PATCH').length).toBeGreaterThan(70)
      await test.integrations.disable(integration.id)
      expect(test.starts.subscriptions).toContain(integration.id)
      await tell(scene, integration.id)
      expect(await run.result()).toMatchObject({ standing: 'removed', nextLookInSeconds: null })
      expect(server.subscriptions.size).toBe(0)
    })
    await test.close()
    await server.close()
  })

  it('looks again when it is told during its last look', async () => {
    let scene: Scene | undefined
    let looks = 0
    const keepWebhookSubscription = async (): Promise<SubscriptionSight> => {
      looks += 1
      if (looks === 1) await tell(scene as Scene)
      return REMOVED
    }
    await stage.play({ keepWebhookSubscription }, async (played) => {
      scene = played
      await (await tell(played)).result()
    })
    expect(looks).toBe(2)
  })

  it('says how it stands, and looks at once when it is told', async () => {
    const sights = [SIGHT, REMOVED]
    await stage.play({ keepWebhookSubscription: async () => sights.shift() ?? null }, async (scene) => {
      const run = await tell(scene)
      const handle: WorkflowHandle = scene.client.getHandle(scene.workflowId)
      await expect
        .poll(async () => (await handle.query<WebhookSubscriptionState>(webhookSubscriptionState)).sight, SOON)
        .toEqual(SIGHT)
      await tell(scene)
      expect(await run.result()).toEqual(REMOVED)
      expect(await countEvents(run, 'timerFiredEventAttributes')).toBe(0)
    })
  })

  it('waits for the database as long as it takes, and ends at once where no one has asked for one', async () => {
    let tries = 0
    const keepWebhookSubscription = async (): Promise<null> => {
      tries += 1
      if (tries < 12) throw new Error('the connection was refused')
      return null
    }
    await stage.play({ keepWebhookSubscription }, async (scene) => {
      expect(await (await tell(scene)).result()).toBeNull()
    })
    expect(tries).toBe(12)
  })
})
