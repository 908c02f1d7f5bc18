import type { Command } from 'commander'
import { instant, integrationId } from './cli/arguments.ts'
import { byWorker } from './cli/by-worker.ts'
import type { Frame } from './cli/frame.ts'
import { table } from './cli/table.ts'
import { Refused } from './refused.ts'

interface Options {
  readonly since?: Date
  readonly dryRun: boolean
}

/** `integrations reconcile-webhooks [integration]`: asks providers for deliveries that never came. */
export function reconcileWebhooksCommand(frame: Frame): Command {
  return frame
    .command('reconcile-webhooks', 'Asks providers for deliveries that never came, and stores them.', [
      'integrations reconcile-webhooks',
      'integrations reconcile-webhooks 7 --since 2026-06-01T12:00:00Z --dry-run',
    ])
    .argument('[integration]', 'id of the integration; default all whose provider can', integrationId)
    .option('--since <instant>', 'from here on; default where the last run ended', instant)
    .option('--dry-run', 'only count', false)
    .action(
      frame.action(async (context, id: number | undefined, { since, dryRun }: Options) => {
        const { integrations, by, warn } = context
        const asked = {
          ...(id === undefined ? {} : { integrationId: id }),
          ...(since === undefined ? {} : { since: since.toISOString() }),
          dryRun,
        }
        const result = await byWorker(context, integrations.webhooks.reconcile(asked))
        if (result === 'already running')
          throw new Refused('already_running', 'A reconciliation is running. Wait for its end, and ask again.')
        if (id !== undefined && !dryRun)
          await integrations.admin.operator.note(id, { token: by, action: 'reconcile', target: `integration:${id}` })
        if (result.capped > 0)
          warn(
            `${result.capped} reached the limit of a run; ${since === undefined ? 'the next run goes on' : 'give the same --since again for the rest'}.`,
          )
        if (result.failed > 0) warn(`${result.failed} failed; the log of the worker says why.`)
        const document = {
          integrations: result.integrations,
          seen: result.seen,
          known: result.known,
          inserted: result.inserted,
          too_large: result.tooLarge,
          capped: result.capped,
          failed: result.failed,
        }
        return {
          document,
          text:
            result.integrations === 0
              ? 'Nothing to reconcile: no integration that is switched on is of a provider that can.'
              : table(['Field', 'Value'], Object.entries(document)),
          exitCode: result.failed > 0 ? 1 : 0,
        }
      }),
    )
}
