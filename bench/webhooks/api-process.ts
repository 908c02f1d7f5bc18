/** Ours: an API process, as bin/api.ts is one. */
import type { AddressInfo } from 'node:net'
import { serve } from '@hono/node-server'
import type { Integrations } from 'durable-integrations'
import { createApi } from 'durable-integrations/api'
import { answerParent } from '../child.ts'
import type { OursOptions } from './ours.ts'
import { createOurs } from './ours.ts'

let integrations: Integrations | undefined

const offered = {
  async start(options: OursOptions): Promise<{ port: number }> {
    integrations = createOurs(options)
    await integrations.ready()
    const { fetch } = createApi(integrations)
    return new Promise((resolve) => {
      serve({ fetch, hostname: '127.0.0.1', port: 0 }, ({ port }: AddressInfo) => resolve({ port }))
    })
  },
}
export type ApiCommands = typeof offered

answerParent(offered, async () => integrations?.close())
