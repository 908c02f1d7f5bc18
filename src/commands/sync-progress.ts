import type { Command } from 'commander'
import { integrationId } from './cli/arguments.ts'
import type { CommandContext, Frame, Outcome } from './cli/frame.ts'
import type { SyncProgress } from './cli/progress-line.ts'
import { failureText } from './cli/progress-line.ts'
import { endText } from './cli/sync-run.ts'
import { table } from './cli/table.ts'
import { watchSync } from './cli/watch-sync.ts'

const NONE = 'No run lives.'

/** `integrations sync-progress <id>`: how far the run is. */
export function syncProgressCommand(frame: Frame): Command {
  return frame
    .command('sync-progress', 'Shows how far the sync run of an integration is.', [
      'integrations sync-progress 7',
      'integrations sync-progress 7 --watch',
    ])
    .argument('<id>', 'id of the integration', integrationId)
    .option('--watch', 'go on until the run ends', false)
    .action(
      frame.action((context, id: number, { watch }: { watch: boolean }) =>
        watch ? watchToItsEnd(context, id) : lookOnce(context, id),
      ),
    )
}

async function lookOnce({ integrations }: CommandContext, id: number): Promise<Outcome> {
  const progress = await integrations.syncs.progress(id)
  if (progress === null) return { document: { integration_id: id, progress: null }, text: NONE }
  const document = {
    phase: progress.phase,
    is_paused: progress.isPaused,
    sync_log_id: progress.syncLogId,
    listed: progress.listed,
    succeeded: progress.succeeded,
    failed: progress.failed,
    waiting: progress.waiting,
    next_attempt_at: progress.nextAttemptAt,
    last_failure: failureColumns(progress.lastFailure),
    per_second: progress.perSecond,
    seconds_left: progress.secondsLeft,
    intake_from: progress.intakeFrom,
    started_at: progress.startedAt,
  }
  return {
    document: { integration_id: id, progress: document },
    text: table(
      ['Field', 'Value'],
      Object.entries({ ...document, last_failure: progress.lastFailure && failureText(progress.lastFailure) }),
    ),
  }
}

function failureColumns(failure: SyncProgress['lastFailure']) {
  if (failure === null) return null
  return { item_id: failure.itemId, attempt: failure.attempt, error: failure.error }
}

async function watchToItsEnd(context: CommandContext, id: number): Promise<Outcome> {
  // Whether Temporal and the run's worker answer at all: from here on an outage is sat out.
  if ((await context.integrations.syncs.progress(id)) === null)
    return { document: { integration_id: id, run: null }, text: NONE }
  const run = await watchSync(context, id, { after: null })
  return {
    document: { integration_id: id, run },
    text: run === null ? 'It has ended, and had opened no run.' : endText(run),
    exitCode: run === null || run.status === 'success' ? 0 : 1,
  }
}
