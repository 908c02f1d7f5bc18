/** An interval in words. Rule: docs/behaviour/sync-scheduling.md, "Due". */

/** A run begins with the first dispatch after it is due: a minute after the end of a run that one has just come, a moment too early. */
export function intervalText(minutes: number): string {
  return minutes === 1
    ? 'a minute after the end of a run, with the next dispatch: every other minute, if dispatches come each minute'
    : `${minutes} minutes after the end of a run, with the next dispatch`
}
