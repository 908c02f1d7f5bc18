import { z } from 'zod'
import { byWorker } from '../cli/by-worker.ts'
import { columns, command } from '../command.ts'
import { rowId } from '../shapes.ts'

const Elevated = z.object({
  integration_id: rowId,
  failure_rate: z.number().describe('Percent, to one decimal'),
  requests: z.int(),
  dominant_class: z.string(),
})

/** What the Schedule does every minute, now. */
export const evaluateFailures = command({
  name: 'evaluate-failures',
  topic: 'Trouble',
  summary: 'Notes which integrations fail too often, and which do no more.',
  examples: ['integrations evaluate-failures', 'integrations evaluate-failures --json'],
  workflow: 'own',
  needsWorker: true,
  fields: {},
  output: z.object({
    enabled: z.boolean(),
    checked: z.int(),
    elevated: z.array(Elevated),
    recovered: z.array(rowId),
  }),
  async run(context) {
    const { elevated, ...result } = await byWorker(context, context.integrations.admin.evaluateFailures())
    const rounded = elevated.map((each) => ({ ...each, failureRate: Math.round(each.failureRate * 10) / 10 }))
    return { ...result, elevated: rounded.map(columns) }
  },
  show({ enabled, checked, elevated, recovered }) {
    const lines = [
      ...elevated.map(
        (each) =>
          `Integration ${each.integration_id}: ${each.failure_rate.toFixed(1)} % of ${each.requests} requests failed, most of them ${each.dominant_class}.`,
      ),
      ...recovered.map((id) => `Integration ${id} is no longer elevated.`),
    ]
    if (lines.length > 0) return lines.join('\n')
    return enabled
      ? `Nothing new: ${checked} active ${checked === 1 ? 'integration' : 'integrations'}.`
      : 'Nothing was looked at: observability.anomaly_enabled is false.'
  },
})
