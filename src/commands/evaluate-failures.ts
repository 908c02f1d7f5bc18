import type { Command } from 'commander'
import { byWorker } from './cli/by-worker.ts'
import type { Frame } from './cli/frame.ts'

/** `integrations evaluate-failures`: what the Schedule does every minute, now. */
export function evaluateFailuresCommand(frame: Frame): Command {
  return frame
    .command('evaluate-failures', 'Notes which integrations fail too often, and which do no more.', [
      'integrations evaluate-failures',
      'integrations evaluate-failures --json',
    ])
    .action(
      frame.action(async (context) => {
        const result = await byWorker(context, context.integrations.admin.evaluateFailures())
        const elevated = result.elevated.map(({ integrationId, failureRate, requests, dominantClass }) => ({
          integration_id: integrationId,
          failure_rate: Math.round(failureRate * 10) / 10,
          requests,
          dominant_class: dominantClass,
        }))
        const { enabled, checked, recovered } = result
        const lines = [
          ...elevated.map(
            (each) =>
              `Integration ${each.integration_id}: ${each.failure_rate.toFixed(1)} % of ${each.requests} requests failed, most of them ${each.dominant_class}.`,
          ),
          ...recovered.map((id) => `Integration ${id} is elevated no more.`),
        ]
        const nothing = enabled
          ? `Nothing new: ${checked} active ${checked === 1 ? 'integration' : 'integrations'}.`
          : 'Nothing was looked at: observability.anomaly_enabled is false.'
        return {
          document: { enabled, checked, elevated, recovered },
          text: lines.length === 0 ? nothing : lines.join('\n'),
        }
      }),
    )
}
