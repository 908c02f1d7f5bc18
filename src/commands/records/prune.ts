import { z } from 'zod'
import { byWorker } from '../cli/by-worker.ts'
import { table } from '../cli/table.ts'
import { command } from '../command.ts'
import { flag } from '../fields.ts'

/** In the order in which they go. */
const LABELS = {
  requests: 'requests',
  logs: 'logs',
  idempotency_keys: 'idempotency keys',
  sync_items: 'completed items',
  incidents_closed: 'incidents closed',
  incidents: 'incidents pruned',
  cache: 'cache entries',
  events: 'delivered events',
  webhooks: 'webhooks',
  audit: 'entries of the audit',
} as const
type Step = keyof typeof LABELS
const STEPS = Object.keys(LABELS) as [Step, ...Step[]]
/** The housekeeping after the six counts that are always shown: left out where it found nothing. */
const SHOWN_IF_ANY: ReadonlySet<Step> = new Set(['cache', 'events', 'webhooks', 'audit'])

/** What the Schedule does each night, now. */
export const prune = command({
  name: 'prune',
  topic: 'Records',
  summary: 'Deletes rows that are older than the configuration keeps them.',
  examples: ['integrations prune --dry-run', 'integrations prune', 'integrations prune --json'],
  workflow: 'own',
  needsWorker: true,
  fields: { dryRun: flag('only count') },
  output: z.object({
    ...(Object.fromEntries(STEPS.map((step) => [step, z.int()])) as Record<Step, z.ZodInt>),
    failed: z.array(z.object({ step: z.enum(STEPS), error: z.string() })),
  }),
  async run(context, { dryRun }) {
    const { admin } = context.integrations
    const { counts, failed } = dryRun ? await admin.prune({ dryRun }) : await byWorker(context, admin.prune())
    for (const { step, error } of failed) context.warn(`${LABELS[step]}: failed, and the next run goes on: ${error}`)
    return { ...counts, failed, isDryRun: dryRun }
  },
  document: ({ isDryRun: _, ...result }) => result,
  show(result) {
    const shown = STEPS.filter((step) => result[step] > 0 || !SHOWN_IF_ANY.has(step))
    return table(
      ['Rows', result.isDryRun ? 'To prune' : 'Pruned'],
      shown.map((step) => [LABELS[step], result[step]]),
    )
  },
  hasFailed: ({ failed }) => failed.length > 0,
})
