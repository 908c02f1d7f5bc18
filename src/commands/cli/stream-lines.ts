/** The streams of an integration for a person: a line each. Rule: docs/behaviour/sync-streams.md, "By hand". */
import { pauseText } from '../../syncs/pause-rules.ts'
import type { StreamStanding } from '../../syncs/stream-list.ts'
import type { Columns } from '../command.ts'

export const streamLines = (streams: readonly Columns<StreamStanding>[]): [string, string][] =>
  streams.map((each) => [`streams.${each.stream}`, wordsOf(each)])

function wordsOf(each: Columns<StreamStanding>): string {
  const at = (moment: Date | null) => moment?.toISOString() ?? 'never'
  const { interval, consecutive_sync_failures: failures, stale_since: stale } = each
  return [
    interval === null ? 'by hand' : `every ${interval.seconds} s: ${interval.age}`,
    `last clean ${at(each.last_synced_at)}`,
    interval === null && each.next_sync_at === null ? null : `next ${each.next_sync_at?.toISOString() ?? 'now'}`,
    each.waits_for === null ? null : `waits for the first run of ${each.waits_for}`,
    each.pause === null ? null : `paused ${pauseText(each.pause)}`,
    stale === null ? null : `stale since ${at(stale)}`,
    failures === 0 ? null : `${failures} runs in a row with failures`,
    each.failed_items === 0 ? null : `${each.failed_items} failed items`,
    each.waiting_items === 0 ? null : `${each.waiting_items} items wait`,
    `cursor ${JSON.stringify(each.sync_cursor)}`,
  ]
    .filter((part) => part !== null)
    .join(', ')
}
