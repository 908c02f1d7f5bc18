import type { Command } from 'commander'
import { Argument } from 'commander'
import { instant, integrationId } from './cli/arguments.ts'
import { Refused } from './cli/failure.ts'
import type { Frame } from './cli/frame.ts'
import { table } from './cli/frame.ts'

const OVERRIDES = { open: 'forced_open', close: 'forced_closed', disable: 'disabled', auto: null } as const
type Action = keyof typeof OVERRIDES | 'status'

/** `integrations circuit <id> <action>`: shows or overrides the circuit breaker of an integration. */
export function circuitCommand(frame: Frame): Command {
  return frame
    .command('circuit', 'Shows or overrides the circuit breaker of an integration.', [
      'integrations circuit 7 status',
      'integrations circuit 7 open --until 2031-06-01T12:00:00Z',
      'integrations circuit 7 auto',
    ])
    .argument('<id>', 'id of the integration', integrationId)
    .addArgument(
      new Argument(
        '<action>',
        'open: let no call through; close: let all through; disable: the same, and no more; auto: give it back to itself; status: only look',
      ).choices([...Object.keys(OVERRIDES), 'status']),
    )
    .option('--until <instant>', 'with open, close and disable: when it ends by itself', instant)
    .action(
      frame.action(async ({ integrations, by }, id: number, action: Action, { until }: { until?: Date }) => {
        if (until !== undefined && (action === 'auto' || action === 'status'))
          throw new Refused('usage', `--until goes with open, close and disable, it was given with ${action}.`)
        const integration = await integrations.get(id)
        if (action !== 'status') {
          await integration.overrideCircuit(OVERRIDES[action], until)
          await integrations.admin.operator.note(id, {
            token: by,
            action: `circuit ${action}`,
            target: `integration:${id}`,
          })
        }
        const circuit = await integration.circuit()
        const document = {
          integration_id: id,
          override: circuit.override,
          override_until: circuit.overrideUntil?.toISOString() ?? null,
          state: circuit.state,
          failures: circuit.failures,
          failure_rate: circuit.failureRate,
          opened_at: circuit.openedAt?.toISOString() ?? null,
          retry_at: circuit.retryAt?.toISOString() ?? null,
        }
        return { document, text: table(['Field', 'Value'], Object.entries(document)) }
      }),
    )
}
