import { z } from 'zod'
import { columns, command } from '../command.ts'
import { flag, id } from '../fields.ts'
import { rowId } from '../shapes.ts'

export const confirmMissing = command({
  name: 'confirm-missing',
  topic: 'Syncs',
  summary: 'Tells the provider what was withheld after a full listing: more than half of all mapped ids are gone.',
  examples: ['integrations confirm-missing 4711 --dry-run', 'integrations confirm-missing 4711 --yes'],
  places: ['id'],
  fields: {
    id: id('of the run, as the log line `sync.missing_withheld` has it'),
    dryRun: flag('only say what was withheld'),
  },
  reach: 'sync-run',
  output: z.object({
    integration_id: rowId,
    missing: z.number(),
    mapped: z.number(),
    /** The first ones, in order. */
    examples: z.array(z.string()),
    told: z.number(),
  }),
  routes: [{ method: 'post', path: '/sync-runs/:id/confirm-missing' }],
  async confirm({ integrations }, { id, dryRun }) {
    if (dryRun) return null
    const { missing, mapped, examples } = await integrations.syncs.confirmMissing(id, { dryRun: true })
    return `Tell the provider that ${missing} of ${mapped} mapped ids are gone${listed(examples, missing)}?`
  },
  async run({ integrations, note }, { id, dryRun }) {
    const confirmed = await integrations.syncs.confirmMissing(id, { dryRun })
    if (!dryRun) await note(confirmed.integrationId, 'confirm-missing', `sync-run:${id}`)
    return columns(confirmed)
  },
  show: ({ missing, mapped, examples, told }) =>
    `${missing} of ${mapped} mapped ids are missing${listed(examples, missing)}; ${told} told.`,
})

function listed(examples: readonly string[], all: number): string {
  if (examples.length === 0) return ''
  return ` (${examples.join(', ')}${all > examples.length ? ', …' : ''})`
}
