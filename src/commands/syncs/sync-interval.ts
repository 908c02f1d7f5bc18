import type { CommandContext } from '../command.ts'
import { columns, command, route } from '../command.ts'
import { flag, id, optional, whole } from '../fields.ts'
import { Refused } from '../refused.ts'
import { IntegrationShape } from '../shapes.ts'

const integration = id('of the integration')
const minutes = whole('from one run to the next', { max: 2_147_483_647, placeholder: 'minutes' })

export const syncInterval = command({
  name: 'sync-interval',
  topic: 'Syncs',
  summary: 'Sets how often an integration is synced, or leaves it to its provider.',
  examples: ['integrations sync-interval 7 15', 'integrations sync-interval 7 --reset'],
  places: ['id', 'minutes'],
  fields: {
    id: integration,
    minutes: optional(minutes),
    reset: flag("go by the provider's own interval again"),
  },
  reach: 'integration',
  output: IntegrationShape,
  routes: [
    route({
      method: 'put',
      path: '/integrations/:id/interval',
      summary: 'Sets how often an integration is synced.',
      fields: { id: integration, minutes },
      output: IntegrationShape,
      run: (context, { id, minutes }) => changed(context, id, minutes),
    }),
    route({
      method: 'delete',
      path: '/integrations/:id/interval',
      summary: "Has an integration go by its provider's own interval again.",
      fields: { id: integration },
      output: IntegrationShape,
      run: (context, { id }) => changed(context, id, null),
    }),
  ],
  check({ minutes, reset }) {
    if ((minutes === undefined) !== reset) throw new Refused('usage', 'Give either minutes or --reset.', 'minutes')
  },
  run: (context, { id, minutes = null }) => changed(context, id, minutes),
  show: ({ id, sync_interval_minutes: every, next_sync_at: next }) =>
    `Integration ${id} is synced ${every === null ? "as often as its provider's own interval says" : `every ${every === 1 ? 'minute' : `${every} minutes`}`}, next at ${next?.toISOString() ?? 'no time that is known'}.`,
})

async function changed({ integrations, note }: CommandContext, id: number, minutes: number | null) {
  await integrations.update(id, { syncIntervalMinutes: minutes })
  await note(id, minutes === null ? 'interval reset' : 'interval set')
  return columns(await integrations.admin.operator.detail(id))
}
