import { randomBytes } from 'node:crypto'
import type { WorkflowHandle } from '@temporalio/client'
import { Client, Connection, defaultPayloadConverter } from '@temporalio/client'
import { NativeConnection, Worker } from '@temporalio/worker'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import type { TemporalServer } from '../../dev/temporal-server.ts'
import { startTemporalServer } from '../../dev/temporal-server.ts'
import { findTemporalBinary } from '../../dev/temporal-server-binary.ts'
import { readBundle } from '../../src/bundled-workflows.ts'
import { loadConfig } from '../../src/config/load.ts'
import type { WorkflowStarters } from '../../src/framework/context.ts'
import type { Logger } from '../../src/framework/logger.ts'
import { lazyClient } from '../../src/temporal/connection.ts'
import {
  applySearchAttributes,
  ensureSearchAttributes,
  knownSearchAttributes,
  readSearchAttributes,
} from '../../src/temporal/search-attributes.ts'
import { temporalStarters } from '../../src/temporal/starters.ts'
import { WORKFLOW, workflowId } from '../../src/workflows/ids.ts'
import { installedBundle } from '../support/installed-script.ts'
import { ScriptedSync } from '../workflows/scripted-sync.ts'
import { handleOf, SHUTDOWN_FORCE_TIME, seen, silenceTemporal } from '../workflows/stage.ts'

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
function newProcess(): { prefix: string; starters: WorkflowStarters; own: Client } {
  const prefix = `test-${randomBytes(4).toString('hex')}`
  const { config } = loadConfig({
    config: { cache_prefix: prefix },
    optionProviderKeys: [],
    middlewareNames: [],
  })
  const logger: Logger = { debug() {}, info() {}, warn() {}, error() {} }
  const own = lazyClient({ address: server.address })
  const starters = temporalStarters(() => own, config, logger, { wakeUpFailed() {}, workflowReplaced() {} })
  cleanups.push(() => starters.close())
  return { prefix, starters, own }
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

/** How often a workflow set ours; a patch's mark sets one of Temporal's own. */
function labelsSetIn(events: Awaited<ReturnType<WorkflowHandle['fetchHistory']>>['events']): number {
  const sets = (events ?? []).map((event) => event.upsertWorkflowSearchAttributesEventAttributes?.searchAttributes)
  return sets.filter((set) => set?.indexedFields != null && 'IntegrationProvider' in set.indexedFields).length
}

describe('search attributes', () => {
  it('are missing at first, and what is started then works without', async () => {
    const { prefix, starters } = newProcess()
    expect(await readSearchAttributes(client)).toEqual([
      { name: 'IntegrationProvider', type: 'Keyword', standing: 'missing', registeredAs: null },
      { name: 'IntegrationId', type: 'Int', standing: 'missing', registeredAs: null },
    ])
    expect(await starters.startSync(7, 'github')).toBe('started')
    const run = client.workflow.getHandle(workflowId.syncIntegration(prefix, 7))
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

  it('are set by workflows 15 s after a process has first seen them, whoever registered them', async () => {
    const now = performance.now()
    const clock = vi.spyOn(performance, 'now').mockReturnValue(now)
    try {
      const second = knownSearchAttributes(newProcess().own)
      expect(await second.areFound()).toBe(true)
      expect(second.maySet()).toBe(false)
      clock.mockReturnValue(now + 14_999)
      expect(second.maySet()).toBe(false)
      clock.mockReturnValue(now + 15_000)
      expect(second.maySet()).toBe(true)
      // A look that sees what was seen before delays nothing.
      second.learn(await readSearchAttributes(client))
      expect(second.maySet()).toBe(true)
    } finally {
      clock.mockRestore()
    }
  })

  it('are attached to what is started from then on, so that a list filter finds it', async () => {
    const { prefix, starters } = newProcess()
    const sync = client.workflow.getHandle(workflowId.syncIntegration(prefix, 8))
    // A host of the server hears of a new attribute within 10 s; until then a start goes without.
    await expect
      .poll(
        async () => {
          const { starters: fresh, prefix: other } = newProcess()
          await fresh.startSync(8, 'github')
          return labelsOf(client.workflow.getHandle(workflowId.syncIntegration(other, 8)))
        },
        { timeout: 60_000, interval: 500 },
      )
      .toEqual({ id: 8, provider: 'github' })
    expect(await starters.startSync(8, 'github')).toBe('started')
    expect(await labelsOf(sync)).toEqual({ id: 8, provider: 'github' })
    await expect
      .poll(() => idsOf('IntegrationId = 8 AND IntegrationProvider = "github" AND ExecutionStatus = "Running"'))
      .toContain(sync.workflowId)
    expect(await idsOf('IntegrationId = 9')).toEqual([])

    // A wake-up knows the integration, and not its provider.
    starters.followIncident(8, 'escalate')
    const incident = client.workflow.getHandle(workflowId.incident(prefix, 8))
    await expect.poll(() => labelsOf(incident).catch(() => null)).toEqual({ id: 8, provider: undefined })
  })

  it('are set by the workflow itself where it was started by hand, once', async () => {
    const taskQueue = `by-hand-${randomBytes(4).toString('hex')}`
    const connection = await NativeConnection.connect({ address: server.address })
    cleanups.push(() => connection.close())
    const sync = new ScriptedSync(1, { attempt: () => ({ retryAfter: 3_600 }) })
    const open = sync.openSyncRun
    const activities = sync.activities({
      openSyncRun: async ({ labels }) => ({
        ...(await open()),
        ...(labels === true ? { foundBy: { integrationId: 17, provider: 'stripe' } } : {}),
      }),
    })
    const worker = await Worker.create({
      connection,
      taskQueue,
      workflowBundle: readBundle(installedBundle().INTEGRATIONS_WORKFLOW_BUNDLE),
      activities,
      shutdownForceTime: SHUTDOWN_FORCE_TIME,
    })
    const scene = {
      client: client.workflow,
      taskQueue,
      workflowId: `${taskQueue}:sync:17`,
      now: async () => Date.now(),
    }
    sync.scene = scene
    await worker.runUntil(async () => {
      const run = await client.workflow.start(WORKFLOW.syncIntegration, {
        workflowId: scene.workflowId,
        taskQueue,
        args: [{ integrationId: 17 }],
      })
      await seen(scene, ({ waiting }) => waiting === 1)
      expect(await labelsOf(run)).toEqual({ id: 17, provider: 'stripe' })
      const { events } = await handleOf(scene).fetchHistory()
      expect(labelsSetIn(events)).toBe(1)
      const summaries = (events ?? []).flatMap(({ userMetadata }) =>
        userMetadata?.summary == null ? [] : [String(defaultPayloadConverter.fromPayload(userMetadata.summary))],
      )
      expect(summaries).toEqual([
        'listing of run 70, call 1',
        'up to 200 new items of run 70',
        'next attempt of 1 item',
      ])
      await run.terminate()
    })
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
          expect(await fresh.startSync(id, 'github')).toBe('started')
          return labelsOf(client.workflow.getHandle(workflowId.syncIntegration(prefix, id)))
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
