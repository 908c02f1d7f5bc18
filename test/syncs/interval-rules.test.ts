/** Rule: docs/behaviour/sync-scheduling.md, "Due". */
import { expect, it } from 'vitest'
import { intervalText } from '../../src/syncs/stream-rules.ts'

it.each([
  [1, 'a minute after the end of a run, with the next dispatch: every other minute, if dispatches come each minute'],
  [2, '2 minutes after the end of a run, with the next dispatch'],
  [60, '60 minutes after the end of a run, with the next dispatch'],
])('an interval of %i minutes is told as it counts', (minutes, text) => {
  expect(intervalText(minutes)).toBe(text)
})
