/** What the keys change that Temporal sees. The table of all keys: effects.test.ts. */

import { randomBytes } from 'node:crypto'
import type { WorkflowHandle } from '@temporalio/client'
import { Client, Connection } from '@temporalio/client'
import type { WorkflowBundle } from '@temporalio/worker'
import { afterAll, beforeAll, describe, expect, vi } from 'vitest'
import { createApi } from '../../src/api/app.ts'
import { readBundle } from '../../src/bundled-workflows.ts'
import type { ConfigInput } from '../../src/config/schema.ts'
import { createWorkers } from '../../src/create-workers.ts'
import { scheduleId, workflowId } from '../../src/workflows/ids.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import { shareDevServer } from '../support/dev-server.ts'
import { installedBundle } from '../support/installed-script.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { occasion, testIntegrations } from '../support/integrations.ts'
import { sharePostgres } from '../support/postgres-setup.ts'
import type { Lists } from '../support/providers.ts'
import { sign, syncProvider, ThingSynced, webhookProvider } from '../support/providers.ts'
import { makeIntegration } from '../support/rows.ts'
import { SOON } from '../support/soon.ts'
import { silenceTemporal } from '../workflows/stage.ts'
import { effect } from './effects-table.ts'

let postgres: Awaited<ReturnType<typeof sharePostgres>>
let server: Awaited<ReturnType<typeof shareDevServer>>
let database: TestDatabase
let client: Client
let workflowBundle: WorkflowBundle

beforeAll(async () => {
  silenceTemporal()
  ;[postgres, server, workflowBundle] = await Promise.all([
    sharePostgres(),
    shareDevServer(),
    readBundle(installedBundle().INTEGRATIONS_WORKFLOW_BUNDLE),
  ])
  database = await createTestDatabase({ adminUrl: postgres.url })
  client = new Client({ connection: await Connection.connect({ address: server.address }) })
})

afterAll(async () => {
  await client?.connection.close()
  await database?.drop()
  await server?.release()
  await postgres?.release()
})

describe('names', () => {
  effect('cache_prefix', 'begins the workflow ids and the task queues', async () => {
    const prefix = `ours-${randomBytes(4).toString('hex')}`
    await withConfig({ cache_prefix: prefix }, listsNothing, async (host) => {
      const { id } = await startSync(host)
      const { taskQueue } = await client.workflow.getHandle(`${prefix}:sync:${id}`).describe()
      expect(taskQueue).toBe(`${prefix}-default`)
    })
  })
})

describe('task queues', () => {
  effect('webhook.queue', 'takes the inbox', async () => {
    for (const queue of ['default', 'hooks'])
      await withConfig({ webhook: { queue } }, listsNothing, async (host) => {
        const { id } = await makeIntegration(host, 'acme')
        const sent = { method: 'POST', headers: { 'x-signature': sign('{}') }, body: '{}' }
        await createApi(host.integrations).request(`/integrations/acme/${id}/webhook`, sent)
        const inbox = client.workflow.getHandle(workflowId.webhookInbox(host.prefix))
        await vi.waitFor(async () => expect(await queueOf(inbox)).toBe(`${host.prefix}-${queue}`), SOON)
      })
  })

  effect('sync.queue', 'takes the runs', async () => {
    for (const queue of ['default', 'syncs'])
      await withConfig({ sync: { queue } }, listsNothing, async (host) =>
        expect(await queueOf((await startSync(host)).run)).toBe(`${host.prefix}-${queue}`),
      )
  })

  effect('sync.queues', 'takes the runs of one provider', async () => {
    await withConfig({ sync: { queues: { acme: 'slow' } } }, listsNothing, async (host) => {
      expect(await queueOf((await startSync(host, 'acme')).run)).toBe(`${host.prefix}-slow`)
      expect(await queueOf((await startSync(host, 'other')).run)).toBe(`${host.prefix}-default`)
    })
  })

  effect('sync.item_queue', 'takes the item batches of the runs', async () => {
    // One more than a small run has, which goes without batches of its own.
    const listsMany: Lists = async (session) => {
      for (let n = 1; n <= 201; n += 1) await session.dispatch(new ThingSynced(session.integration, { n }))
    }
    for (const queue of [null, 'items'])
      await withConfig({ sync: { item_queue: queue } }, listsMany, (host) =>
        whileWorking(host, async () => {
          const { run } = await startSync(host)
          expect(await run.result()).toMatchObject({ kind: 'finalised', succeeded: 201 })
          const { events } = await run.fetchHistory()
          const queues = (events ?? [])
            .map((event) => event.activityTaskScheduledEventAttributes)
            .filter((scheduled) => scheduled?.activityType?.name === 'processSyncItems')
            .map((scheduled) => scheduled?.taskQueue?.name)
          expect(new Set(queues)).toEqual(new Set([`${host.prefix}-${queue ?? 'default'}`]))
        }),
      )
  })
})

describe('listings', () => {
  effect('sync.job_timeout', 'ends an attempt that takes longer', async () => {
    const { lists, release } = hangingListing()
    await withConfig({ sync: { job_timeout: 1 } }, lists, (short) =>
      withConfig({ sync: { job_timeout: 60 } }, lists, (long) =>
        whileWorking(short, () =>
          whileWorking(long, async () => {
            const patient = await startSync(long)
            const { id } = await startSync(short)
            await vi.waitFor(async () => expect(await attemptsOf(short, id)).toBe(2), SOON)
            expect(await attemptsOf(long, patient.id)).toBe(1)
            release()
            expect(await patient.run.result()).toMatchObject({ kind: 'finalised', status: 'success' })
          }),
        ),
      ),
    )
  })

  effect('sync.lock_ttl', 'bounds all attempts of a listing together', async () => {
    const { lists, release } = hangingListing()
    await withConfig({ sync: { job_timeout: 1, lock_ttl: 1 } }, lists, (short) =>
      withConfig({ sync: { job_timeout: 1, lock_ttl: 60 } }, lists, (long) =>
        whileWorking(short, () =>
          whileWorking(long, async () => {
            const patient = await startSync(long)
            const { id, run } = await startSync(short)
            await expect(run.result()).rejects.toThrow()
            const [log] = await short.sql`select status from integration_logs where integration_id = ${id}`
            expect(log).toEqual({ status: 'failed' })
            await vi.waitFor(async () => expect(await attemptsOf(long, patient.id)).toBe(2), SOON)
            release()
          }),
        ),
      ),
    )
  })
})

effect('schedules.enabled', 'leaves the timing to the host when false', async () => {
  const schedule = ({ prefix }: Host) => client.schedule.getHandle(scheduleId(prefix, 'dispatch-syncs')).describe()
  await withConfig({ schedules: { enabled: true } }, listsNothing, (host) =>
    whileWorking(host, async () => expect(await schedule(host)).toMatchObject({ state: { paused: false } })),
  )
  await withConfig({ schedules: { enabled: false } }, listsNothing, (host) =>
    whileWorking(host, () => expect(schedule(host)).rejects.toThrow(/not found/i)),
  )
})

type Host = TestIntegrations & { readonly prefix: string }
type Play = (host: Host) => Promise<void>

const listsNothing: Lists = () => {}

/** A deployment of this configuration on the shared servers, with names of its own. */
async function withConfig(config: ConfigInput, lists: Lists, play: Play): Promise<void> {
  const prefix = `effects-${randomBytes(4).toString('hex')}`
  const provider = { ...webhookProvider(), ...syncProvider(lists) }
  const test = testIntegrations(database.url, {
    recordStarts: false,
    temporal: { address: server.address },
    config: { cache_prefix: prefix, schedules: { enabled: false }, ...config },
    providers: { acme: provider, other: provider },
  })
  try {
    await play({ ...test, prefix })
  } finally {
    await test.close()
  }
}

/** A listing that goes on until it is released, or its own time is over: no worker could end before. */
function hangingListing(): { readonly lists: Lists; release(): void } {
  const released = occasion()
  return {
    lists: ({ signal }) =>
      Promise.race([released.happened, new Promise<void>((end) => signal.addEventListener('abort', () => end()))]),
    release: () => released.happen(),
  }
}

/** Workers on all queues of the deployment, as `integrations worker` runs them. */
async function whileWorking({ integrations }: Host, play: () => Promise<void>): Promise<void> {
  const workers = await createWorkers(integrations, { workflowBundle })
  const running = workers.run()
  try {
    await play()
  } finally {
    workers.shutdown()
    await running
  }
}

async function startSync(host: Host, provider = 'acme'): Promise<{ id: number; run: WorkflowHandle }> {
  const { id } = await makeIntegration(host, provider)
  await host.integrations.syncs.start(id)
  const { cache_prefix } = host.integrations.config
  return { id, run: client.workflow.getHandle(workflowId.syncIntegration(cache_prefix, { integrationId: id })) }
}

async function queueOf(workflow: WorkflowHandle): Promise<string> {
  return (await workflow.describe()).taskQueue
}

/** How often the provider was asked for a listing. */
async function attemptsOf(host: Host, id: number): Promise<number> {
  const [log] = await host.sql`
    select (metadata ->> 'listing_attempt')::int as attempts from integration_logs
    where integration_id = ${id} and operation = 'sync'`
  return log?.attempts ?? 0
}
