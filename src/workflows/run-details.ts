import type { SyncProgress } from '../core/sync-jobs.ts'
import { moment, showing } from './current-details.ts'

/** In words. */
const PHASES: Readonly<Record<SyncProgress['phase'], string>> = {
  held: 'held by a pause',
  opening: 'opening',
  listing: 'listing',
  processing: 'processing items',
  finalising: 'finalising',
  done: 'done',
}

/** What the Temporal UI shows of a run, and how it is steered. */
export function showRun(integrationId: number, progress: SyncProgress): void {
  const { phase, isPaused, syncLogId, listed, succeeded, failed, waiting, nextAttemptAt, perSecond, intakeFrom } =
    progress
  showing(
    `Sync of integration ${integrationId}: ${isPaused && phase !== 'held' ? `paused while ${PHASES[phase]}` : PHASES[phase]}`,
    {
      Run: syncLogId,
      Listed: listed,
      Succeeded: succeeded,
      Failed: failed,
      'Waiting for another attempt': waiting,
      'The next of them': nextAttemptAt === null ? null : moment(Date.parse(nextAttemptAt)),
      'Items a second': perSecond,
      "Nothing new before (the provider's limit)": intakeFrom,
    },
    ...(phase === 'done' ? [] : [isPaused ? 'Signal `resume`: it goes on.' : STEERING]),
    syncLogId === null
      ? `\`integrations list-sync-runs --integration ${integrationId}\` has earlier runs.`
      : `\`integrations show-sync-run ${syncLogId}\` has the log${failed > 0 ? `, \`integrations list-failed-items --integration ${integrationId}\` what failed` : ''}${waiting > 0 ? `, \`integrations list-failed-items --integration ${integrationId} --waiting\` why items wait` : ''}.`,
  )
}

const STEERING = 'Signal `pause`: nothing new is taken in. Signal `cancel`: it ends after what it has under way.'
