import type { Command } from 'commander'
import type { Integrations } from '../create-integrations.ts'
import { byWorker } from './cli/by-worker.ts'
import type { Frame } from './cli/frame.ts'
import { table } from './cli/table.ts'

type PruneCounts = Awaited<ReturnType<Integrations['admin']['prune']>>['counts']
type PruningStep = keyof PruneCounts

/** In the order in which they go. */
const LABELS: Readonly<Record<PruningStep, string>> = {
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
}
/** The housekeeping after the six counts that are always shown: where it found nothing, nobody asks. */
const SHOWN_IF_ANY: ReadonlySet<PruningStep> = new Set(['cache', 'events', 'webhooks', 'audit'])

/** `integrations prune`: what the Schedule does each night, now. */
export function pruneCommand(frame: Frame): Command {
  return frame
    .command('prune', 'Deletes rows that are older than the configuration keeps them.', [
      'integrations prune --dry-run',
      'integrations prune',
      'integrations prune --json',
    ])
    .option('--dry-run', 'only count', false)
    .action(
      frame.action(async (context, { dryRun }: { readonly dryRun: boolean }) => {
        const { integrations, warn } = context
        const { counts, failed } = dryRun
          ? await integrations.admin.prune({ dryRun })
          : await byWorker(context, integrations.admin.prune())
        for (const { step, error } of failed) warn(`${LABELS[step]}: failed, and the next run goes on: ${error}`)
        return {
          document: { ...counts, failed },
          text: table(['Rows', dryRun ? 'To prune' : 'Pruned'], shown(counts)),
          exitCode: failed.length > 0 ? 1 : 0,
        }
      }),
    )
}

function shown(counts: PruneCounts): [string, number][] {
  const steps = Object.keys(LABELS) as PruningStep[]
  return steps.filter((step) => counts[step] > 0 || !SHOWN_IF_ANY.has(step)).map((step) => [LABELS[step], counts[step]])
}
