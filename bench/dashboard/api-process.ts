/** An API process with the pages, which says how long its event loop was held. */
import type { AddressInfo } from 'node:net'
import { monitorEventLoopDelay } from 'node:perf_hooks'
// As src/bin/api.ts does: a page that is the first to ask Temporal would load it.
import '@temporalio/client'
import { serve } from '@hono/node-server'
import type { Integrations } from 'durable-integrations'
import { createApi } from 'durable-integrations/api'
import { answerParent } from '../child.ts'
import type { DeploymentOptions } from './deployment.ts'
import { deployment } from './deployment.ts'

/** How often the loop is looked at. */
const LOOK_EVERY_MS = 5
const NANOSECONDS_IN_MS = 1e6

let integrations: Integrations | undefined
const delay = monitorEventLoopDelay({ resolution: LOOK_EVERY_MS })

const offered = {
  async start(options: DeploymentOptions): Promise<{ port: number }> {
    integrations = deployment(options)
    await integrations.ready()
    const { fetch } = createApi(integrations)
    delay.enable()
    return new Promise((resolve) => {
      serve({ fetch, hostname: '127.0.0.1', port: 0 }, ({ port }: AddressInfo) => resolve({ port }))
    })
  },

  /** Processor time of this process so far: a load on the machine does not change it much. */
  async cpuMs(): Promise<number> {
    const { user, system } = process.cpuUsage()
    return (user + system) / 1_000
  },

  /** The longest since the last question, without the interval of the looks. */
  async longestHeldMs(): Promise<number> {
    const longest = Math.max(0, delay.max / NANOSECONDS_IN_MS - LOOK_EVERY_MS)
    delay.reset()
    return longest
  },
}
export type ApiCommands = typeof offered

answerParent(offered, async () => integrations?.close())
