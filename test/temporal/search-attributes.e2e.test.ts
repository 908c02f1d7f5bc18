import { randomBytes } from 'node:crypto'
import type { WorkflowHandle } from '@temporalio/client'
import { Client, Connection } from '@temporalio/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { TemporalServer } from '../../dev/temporal-server.ts'
import { startTemporalServer } from '../../dev/temporal-server.ts'
import { findTemporalBinary } from '../../dev/temporal-server-binary.ts'
import type { WorkflowStarters } from '../../src/framework/context.ts'
import type { Logger } from '../../src/framework/logger.ts'
import { UNKNOWN_PROVIDER } from '../../src/observability/metrics.ts'
import { lazyClient } from '../../src/temporal/connection.ts'
import {
  applySearchAttributes,
  ensureSearchAttributes,
  readSearchAttributes,
} from '../../src/temporal/search-attributes.ts'
import { temporalStarters } from '../../src/temporal/starters.ts'
import { workflowId } from '../../src/workflows/ids.ts'
import { loadConfig } from '../support/load-config.ts'
import { silenceTemporal } from '../workflows/stage.ts'

/** A server whose namespace knows none of our attributes at first; the tests go on from there, in order. */
let server: TemporalServer
let client: Client
const cleanups: (() => unknown)[] = []
const where = () => ({ address: server.address, namespace: 'default' })

beforeAll(async () => {
  silenceTemporal()
  server = await startTemporalServer({
    binary: await findTemporalBinary(),
    port: 0,
    uiPort: null,
    searchAttributes: {},
  })
  client = new Client({ connection: await Connection.connect({ address: server.address }) })
}, 120_000)
afterAll(async () => {
  for (const clean of cleanups.reverse()) await clean()
  await client?.connection.close()
  await server?.stop()
})

/** As a process that was just started: it has not looked yet. */
function newProcess(): { prefix: string; starters: WorkflowStarters } {
  const prefix = `test-${randomBytes(4).toString('hex')}`
  const { config } = loadConfig({
    config: { cache_prefix: prefix },
    optionProviderKeys: [],
    middlewareNames: [],
  })
  const logger: Logger = { debug() {}, info() {}, warn() {}, error() {} }
  const own = lazyClient({ address: server.address })
  const starters = temporalStarters(
    () => own,
    config,
    logger,
    { wakeUpFailed() {}, workflowReplaced() {} },
    { providerOf: async (id) => (id === 8 ? 'github' : UNKNOWN_PROVIDER) },
  )
  cleanups.push(() => starters.close())
  return { prefix, starters }
}

async function idsOf(query: string): Promise<string[]> {
  const ids: string[] = []
  for await (const { workflowId: id } of client.workflow.list({ query })) ids.push(id)
  return ids
}

async function labelsOf(handle: WorkflowHandle) {
  const { typedSearchAttributes } = await handle.describe()
  return {
    id: typedSearchAttributes.get({ name: 'IntegrationId', type: 'INT' }),
    provider: typedSearchAttributes.get({ name: 'IntegrationProvider', type: 'KEYWORD' }),
  }
}

describe('search attributes', () => {
  it('are missing at first, and what is started then works without', async () => {
    const { prefix, starters } = newProcess()
    expect(await readSearchAttributes(client)).toEqual([
      { name: 'IntegrationProvider', type: 'Keyword', standing: 'missing', registeredAs: null },
      { name: 'IntegrationId', type: 'Int', standing: 'missing', registeredAs: null },
    ])
    expect(await starters.startSync(7, 'github')).toEqual({ runId: expect.any(String) })
    const run = client.workflow.getHandle(workflowId.syncIntegration(prefix, { integrationId: 7 }))
    expect(await labelsOf(run)).toEqual({ id: undefined, provider: undefined })
    // What the page of a workflow shows of it from the start on.
    const described = await run.describe()
    expect(await described.staticSummary()).toBe('Sync of integration 7 (github)')
    expect(await described.staticDetails()).toContain('`pause` takes nothing new in')
  })

  it('are registered once, which is told', async () => {
    const first = await applySearchAttributes(client, where())
    expect(first).toMatchObject({ added: ['IntegrationProvider', 'IntegrationId'], problem: null })
    expect(first.states.map(({ standing }) => standing)).toEqual(['registered', 'registered'])
    expect(await applySearchAttributes(client, where())).toMatchObject({ added: [], problem: null })
  })

  it('are attached to what is started from then on, so that a list filter finds it', async () => {
    const { prefix, starters } = newProcess()
    const sync = client.workflow.getHandle(workflowId.syncIntegration(prefix, { integrationId: 8 }))
    // A host of the server hears of a new attribute within 10 s; until then a start goes without.
    await expect
      .poll(
        async () => {
          const { starters: fresh, prefix: other } = newProcess()
          await fresh.startSync(8, 'github')
          return labelsOf(client.workflow.getHandle(workflowId.syncIntegration(other, { integrationId: 8 })))
        },
        { timeout: 60_000, interval: 500 },
      )
      .toEqual({ id: 8, provider: 'github' })
    expect(await starters.startSync(8, 'github')).toEqual({ runId: expect.any(String) })
    expect(await labelsOf(sync)).toEqual({ id: 8, provider: 'github' })
    await expect
      .poll(() => idsOf('IntegrationId = 8 AND IntegrationProvider = "github" AND ExecutionStatus = "Running"'))
      .toContain(sync.workflowId)
    expect(await idsOf('IntegrationId = 9')).toEqual([])

    const labels = { id: 8, provider: 'github' }
    starters.followIncident(8, 'escalate')
    const incident = client.workflow.getHandle(workflowId.incident(prefix, 8))
    await expect.poll(() => labelsOf(incident).catch(() => null)).toEqual(labels)
    await starters.startProcessWebhook({ webhookId: 3 }, 8)
    expect(await labelsOf(client.workflow.getHandle(workflowId.processWebhook(prefix, 3)))).toEqual(labels)
    await starters.startProcessSyncItem({ itemId: 4 }, { integrationId: 8, provider: 'github' })
    expect(await labelsOf(client.workflow.getHandle(workflowId.processSyncItem(prefix, 4)))).toEqual(labels)

    // A provider that cannot be read now is left out.
    starters.followIncident(9, 'escalate')
    const other = client.workflow.getHandle(workflowId.incident(prefix, 9))
    await expect.poll(() => labelsOf(other).catch(() => null)).toEqual({ id: 9, provider: undefined })
  })

  it('fail no start when they are removed while a process counts on them', async () => {
    const { prefix, starters } = newProcess()
    await starters.startSync(1, 'github')
    await client.connection.operatorService.removeSearchAttributes({
      namespace: 'default',
      searchAttributes: ['IntegrationId'],
    })
    // Until the server's hosts have heard of it a start may be taken with it; from then on each is refused with it.
    let id = 100
    await expect
      .poll(
        async () => {
          const { starters: fresh } = { starters }
          id += 1
          expect(await fresh.startSync(id, 'github')).toEqual({ runId: expect.any(String) })
          return labelsOf(client.workflow.getHandle(workflowId.syncIntegration(prefix, { integrationId: id })))
        },
        { timeout: 60_000, interval: 500 },
      )
      .toEqual({ id: undefined, provider: undefined })
  })

  it('of another type are left alone, and a worker says how to free the name', async () => {
    await client.connection.operatorService.addSearchAttributes({
      namespace: 'default',
      searchAttributes: { IntegrationId: 2 },
    })
    await expect
      .poll(async () => (await readSearchAttributes(client))[1], { timeout: 60_000, interval: 500 })
      .toEqual({ name: 'IntegrationId', type: 'Int', standing: 'differs', registeredAs: 'Keyword' })
    const warnings: unknown[] = []
    const logger: Logger = { debug() {}, info() {}, error() {}, warn: (fields) => warnings.push(fields) }
    await ensureSearchAttributes(client, where(), logger)
    expect(warnings).toEqual([
      {
        event: 'temporal.search_attributes_missing',
        problem: expect.stringContaining('temporal operator search-attribute remove --address'),
      },
    ])
  })
})
