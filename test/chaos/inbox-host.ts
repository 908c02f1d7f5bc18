/**
 * The host of the inbox's proofs: the module that their API and worker processes load.
 *
 * Where CALLED_PROVIDER_URL is given, each run calls that provider as it begins and before it ends.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import { createIntegrations } from '../../src/index.ts'
import { webhookProvider } from '../support/providers.ts'
import { hostNotes } from './host-notes.ts'

const notes = hostNotes()

/** In place of a time: the handler ends its process, as code does that uses all memory. */
const KILLS = -1
const KILLS_AFTER_MS = 1_000
/** The sender's payload says how long the handler works. */
const Payload = z.object({ work_ms: z.number() })

const provider = webhookProvider({
  handleWebhook: (integration, request, context) =>
    notes.run(context, async () => {
      const url = process.env.CALLED_PROVIDER_URL
      if (url !== undefined) await notes.call(integration, url, context)
      const { work_ms: workMs } = Payload.parse(request.json())
      if (workMs === KILLS) {
        await sleep(KILLS_AFTER_MS)
        process.kill(process.pid, 'SIGKILL')
      }
      await sleep(workMs, undefined, { signal: context.signal })
      if (url !== undefined) await notes.call(integration, url, context)
    }),
})

const integrations = createIntegrations({ database: process.env.DATABASE_URL, providers: { proof: provider } })

/** The host's own tables. */
export async function prepare(): Promise<void> {
  await notes.prepare()
  await notes.sql.end()
}

export default integrations
