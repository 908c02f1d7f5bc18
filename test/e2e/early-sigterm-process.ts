/** The module that the processes of early-sigterm.ts load: it asks its own process to stop when SIGTERM_AT says. */
import { createIntegrations } from '../../src/index.ts'
import { webhookProvider } from '../support/providers.ts'

const at = process.env.SIGTERM_AT ?? ''

const integrations = createIntegrations({
  providers: { acme: webhookProvider() },
  config: { schedules: { enabled: false } },
})
const { ready, close } = integrations
const { wakePending } = integrations.webhooks

async function asked(): Promise<void> {
  process.kill(process.pid, 'SIGTERM')
  // Node tells of it in its loop.
  await new Promise((resolve) => setTimeout(resolve, 200))
}

Object.assign(integrations, {
  async ready() {
    await ready.call(integrations)
    if (at === 'ready') await asked()
  },
  async close() {
    await close.call(integrations)
    if (process.env.FAILS_TO_CLOSE) throw new Error('it can not be closed')
  },
})
Object.assign(integrations.webhooks, {
  async wakePending(...options: Parameters<typeof wakePending>) {
    if (at !== 'wakePending') return wakePending.apply(integrations.webhooks, options)
    await asked()
    return new Promise<number>(() => {})
  },
})
if (at === 'load') await asked()

export default integrations
