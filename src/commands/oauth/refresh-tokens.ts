import { z } from 'zod'
import { byWorker } from '../cli/by-worker.ts'
import type { CommandContext } from '../command.ts'
import { columns, command, fieldLines, route } from '../command.ts'
import { id, optional } from '../fields.ts'
import { rowId } from '../shapes.ts'

const Refreshed = z.object({ checked: z.int(), refreshed: z.int(), failed: z.int(), reauth_required: z.int() })

/** What the Schedule does every ten minutes, now; or one, however long its token is good for. */
export const refreshTokens = command({
  name: 'refresh-tokens',
  topic: 'OAuth',
  summary: 'Refreshes the OAuth tokens that are due, or those of one integration.',
  examples: ['integrations refresh-tokens', 'integrations refresh-tokens 7 --json'],
  places: ['id'],
  workflow: 'own',
  needsWorker: true,
  fields: { id: optional(id('of an integration: refreshes its tokens even if they are not due')) },
  output: Refreshed,
  routes: [
    route({
      method: 'post',
      path: '/integrations/:id/oauth/refresh',
      summary: 'Refreshes the tokens of an integration, however long they are good for.',
      fields: { id: id('of the integration') },
      reach: 'integration',
      output: Refreshed.extend({ integration_id: rowId }),
      async run(context, { id }) {
        // Refuses here, in the caller's terms. A worker's refusal would be a failed workflow.
        await context.integrations.oauth.status(id)
        return { integration_id: id, ...(await refresh(context, id)) }
      },
    }),
  ],
  async run(context, { id }) {
    // No worker is needed to say that there is none.
    if (id !== undefined) await context.integrations.get(id)
    return refresh(context, id)
  },
  show: (result) => (result.checked === 0 ? 'Nothing to refresh.' : fieldLines(result)),
  hasFailed: ({ failed }) => failed > 0,
})

async function refresh(context: CommandContext, id?: number) {
  const { integrations, note, warn } = context
  const asked = id === undefined ? {} : { integrationId: id }
  const result = await byWorker(context, integrations.oauth.refresh(asked))
  const { failed, reauthRequired } = result
  if (id !== undefined) await note(id, 'refresh-tokens')
  if (failed > reauthRequired)
    warn(`${failed - reauthRequired} failed and will be tried again; the log of the worker says why.`)
  if (reauthRequired > 0)
    warn(
      `${reauthRequired} must be connected again by a person: \`integrations doctor\` names them, \`integrations oauth-link <id>\` prints a link.`,
    )
  return columns(result)
}
