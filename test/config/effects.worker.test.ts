/** What the keys `worker.*` change, as the SDK understands what it is given. The table of all keys: effects.test.ts. */
import { noopMetricMeter } from '@temporalio/common'
import { DefaultLogger } from '@temporalio/worker'
import { compileWorkerOptions } from '@temporalio/worker/lib/worker-options.js'
import { describe, expect } from 'vitest'
import { createCommandRunner } from '../../src/commands/cli/in-worker.ts'
import type { ConfigInput } from '../../src/config/schema.ts'
import type { Integrations } from '../../src/create-integrations.ts'
import { packageVersion } from '../../src/framework/package-version.ts'
import { createIntegrations } from '../../src/index.ts'
import { releaseOf } from '../../src/rollups/releases.ts'
import { workerSizes } from '../../src/worker-sizes.ts'
import { effect } from './effects-table.ts'

const integrationsOf = (config: ConfigInput) =>
  createIntegrations({
    database: 'postgres://nobody@127.0.0.1:1/none',
    encryptionKeys: `k1:${Buffer.alloc(32).toString('base64')}`,
    config,
  })

/** The SDK's own reading: what it would hand to its native core. */
function compiled(worker: ConfigInput['worker'] = {}) {
  const { config } = integrationsOf({ worker })
  const options = { taskQueue: 'any', ...workerSizes(config.worker) }
  return compileWorkerOptions(options, new DefaultLogger('ERROR'), noopMetricMeter)
}

/** What installing says in a worker that may read these. */
async function installed(command_environment: readonly string[]): Promise<string> {
  const config = { worker: { command_environment } }
  const integrations = Object.assign(Object.create(integrationsOf(config)), { ready: async () => {} }) as Integrations
  const { document } = await createCommandRunner(integrations)({
    command: 'install',
    input: { provider: 'none', credential: { token: 'env:GITHUB_TOKEN' } },
    by: 'workflow:me',
    signal: new AbortController().signal,
  })
  return JSON.stringify(document)
}

const slots = (count: number) => ({ type: 'fixed-size', numSlots: count })

describe('a worker', () => {
  effect('worker.activity_slots', 'bounds the activities at once', async () => {
    expect(compiled().tuner.activityTaskSlotSupplier).toEqual(slots(100))
    expect(compiled({ activity_slots: 12 }).tuner.activityTaskSlotSupplier).toEqual(slots(12))
  })

  effect('worker.local_activity_slots', 'bounds those inside workflow tasks', async () => {
    expect(compiled().tuner.localActivityTaskSlotSupplier).toEqual(slots(100))
    expect(compiled({ local_activity_slots: 3 }).tuner.localActivityTaskSlotSupplier).toEqual(slots(3))
  })

  effect('worker.workflow_task_slots', 'bounds the workflow tasks at once', async () => {
    expect(compiled().tuner.workflowTaskSlotSupplier).toEqual(slots(40))
    expect(compiled({ workflow_task_slots: 10 }).tuner.workflowTaskSlotSupplier).toEqual(slots(10))
  })

  effect('worker.activity_pollers', 'is how many calls wait for activities at most', async () => {
    expect(compiled().activityTaskPollerBehavior).toEqual({ type: 'autoscaling', minimum: 1, initial: 1, maximum: 10 })
    expect(compiled({ activity_pollers: 1 }).activityTaskPollerBehavior).toMatchObject({ initial: 1, maximum: 1 })
    expect(compiled({ activity_pollers: 4 }).activityTaskPollerBehavior).toMatchObject({ maximum: 4 })
  })

  effect('worker.workflow_task_pollers', 'is how many calls wait for workflow tasks', async () => {
    expect(compiled().workflowTaskPollerBehavior).toMatchObject({ type: 'simple-maximum', maximum: 10 })
    expect(compiled({ workflow_task_pollers: 2 }).workflowTaskPollerBehavior).toMatchObject({ maximum: 2 })
  })

  effect('worker.cached_workflows', 'bounds the workflows in memory; null leaves it to the heap', async () => {
    expect(compiled().maxCachedWorkflows).toBeGreaterThan(10)
    expect(compiled({ cached_workflows: 50 }).maxCachedWorkflows).toBe(50)
  })

  effect('worker.shutdown_grace', 'is how long activities go on after SIGTERM', async () => {
    expect(compiled().shutdownGraceTimeMs).toBe(10_000)
    expect(compiled({ shutdown_grace: 0 }).shutdownGraceTimeMs).toBe(0)
  })

  effect('worker.release', 'is what charts call a deployment; null: the version of this package', async () => {
    const named = (release?: string) => releaseOf(integrationsOf(release === undefined ? {} : { worker: { release } }))
    expect(named()).toBe(packageVersion())
    expect(named('3f2a91c')).toBe('3f2a91c')
  })

  effect('worker.command_environment', 'names the variables that a workflow may take a credential from', async () => {
    expect(await installed([])).toContain('may read only the variables')
    expect(await installed(['GITHUB_TOKEN'])).toContain('No provider is registered')
  })
})
