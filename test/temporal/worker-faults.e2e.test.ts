/** Why a worker has failed: as the SDK logged it, of this run and of none before; and that Temporal was not reached. */
import { randomBytes } from 'node:crypto'
import { ScheduleClient } from '@temporalio/client'
import { Runtime, Worker } from '@temporalio/worker'
import { afterEach, expect, it, vi } from 'vitest'
import { createWorkers, installTemporalLogger } from '../../src/create-workers.ts'
import { startCuttingProxy } from '../support/cutting-proxy.ts'
import { shareDevServer } from '../support/dev-server.ts'
import { installedBundle } from '../support/installed-script.ts'
import { testIntegrations } from '../support/integrations.ts'
import { SOON } from '../support/soon.ts'

afterEach(() => vi.restoreAllMocks())

it('the fault of an earlier run is not named for what ends a later one', async () => {
  const server = await shareDevServer()
  const prefix = `faults-${randomBytes(4).toString('hex')}`
  const test = testIntegrations('postgres://nobody@127.0.0.1:1/nothing', {
    recordStarts: false,
    temporal: { address: server.address },
    config: { cache_prefix: prefix },
  })
  try {
    installTemporalLogger(test.integrations)
    // As runInternal() of @temporalio/worker says it.
    const meta = { taskQueue: `${prefix}-default`, error: new Error('the key was revoked') }
    Runtime.instance().logger.error('Worker failed', meta)
    // As each poller of its native part does while Temporal is away.
    const retried = 'gRPC call poll_workflow_task_queue retried 6 times'
    for (let poller = 0; poller < 3; poller += 1) Runtime.instance().logger.warn(retried)
    Runtime.instance().logger.warn('the last')
    const messages = () => test.lines.map(({ message }) => message)
    await expect.poll(messages, SOON).toContain('the last')
    expect(messages()).toEqual(['Worker failed', retried, 'the last'])

    const workers = await createWorkers(test.integrations, {
      workflowBundlePath: installedBundle().INTEGRATIONS_WORKFLOW_BUNDLE,
    })
    const { run } = Worker.prototype
    vi.spyOn(Worker.prototype, 'run').mockImplementation(async function (this: Worker) {
      const ended = run.call(this)
      this.shutdown()
      await ended
      throw new Error('a fault of its own')
    })
    await expect(workers.run()).rejects.toThrow('a fault of its own')
  } finally {
    await test.close()
    await server.release()
  }
})

it('a start that Temporal leaves in the middle says that Temporal was not reached', async () => {
  const server = await shareDevServer()
  const link = await startCuttingProxy(`http://${server.address}`)
  const test = testIntegrations('postgres://nobody@127.0.0.1:1/nothing', {
    recordStarts: false,
    temporal: { address: new URL(link.url).host },
    config: { cache_prefix: `faults-${randomBytes(4).toString('hex')}` },
  })
  try {
    const { create } = ScheduleClient.prototype
    vi.spyOn(ScheduleClient.prototype, 'create').mockImplementation(function (this: ScheduleClient, options) {
      link.refuse()
      return create.call(this, options) as ReturnType<typeof create>
    })
    const workflowBundlePath = installedBundle().INTEGRATIONS_WORKFLOW_BUNDLE
    await expect(createWorkers(test.integrations, { workflowBundlePath })).rejects.toMatchObject({
      code: 'backend_unreachable',
      message: expect.stringContaining('Temporal'),
    })
  } finally {
    await test.close()
    await link.close()
    await server.release()
  }
})
