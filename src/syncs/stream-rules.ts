/** What a stream is called, and how often it may run. Rule: docs/behaviour/sync-streams.md. */
import type { SyncOf } from './sync-jobs.ts'

/** The longest name: it stands in workflow ids, and in each log and item of the stream's runs. */
export const STREAM_LENGTH = 60
/** The dispatch comes no more often. */
export const LEAST_SECONDS = 10
/** About 68 years: what the column of an integration's own interval holds. */
export const MOST_SECONDS = 2_147_483_647

/** In the words of a message. */
export const syncWords = ({ integrationId, stream }: SyncOf): string =>
  stream == null ? `integration ${integrationId}` : `the stream ${stream} of integration ${integrationId}`

/** What names the stream on the command line; nothing for the integration's own. */
export const streamOption = (stream: string | null | undefined): string => (stream == null ? '' : ` --stream ${stream}`)

/** An interval in words. Rule: docs/behaviour/sync-scheduling.md, "Due". A run begins with the first dispatch after it is due: a minute after the end of a run that one has just come, a moment too early. */
export function intervalText(minutes: number): string {
  return minutes === 1
    ? 'a minute after the end of a run, with the next dispatch: every other minute, if dispatches come each minute'
    : `${minutes} minutes after the end of a run, with the next dispatch`
}
