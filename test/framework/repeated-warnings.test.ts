import { expect, it } from 'vitest'
import { RepeatedWarnings } from '../../src/framework/repeated-warnings.ts'
import { ManualClock } from '../../src/testing/manual-clock.ts'
import type { LogLine } from '../../src/testing/recorded-log.ts'
import { recordingLogger } from '../../src/testing/recorded-log.ts'

function warnings() {
  const lines: LogLine[] = []
  const clock = new ManualClock('2026-01-01T00:00:00Z')
  const repeated = new RepeatedWarnings(recordingLogger(lines), clock)
  return {
    clock,
    warn: (subject: string) => repeated.warn(subject, () => ({ about: subject }), 'it happened'),
    lines: (): Record<string, unknown>[] => lines.map(({ level, fields, message }) => ({ level, message, ...fields })),
  }
}

it('tells the first at once, and how many came since when a minute is over', () => {
  const { clock, warn, lines } = warnings()
  for (let times = 0; times < 5; times += 1) warn('a')
  expect(lines()).toEqual([{ level: 'warn', message: 'it happened', about: 'a', times: 1, total: 1 }])
  clock.advance({ seconds: 59 })
  warn('a')
  expect(lines()).toHaveLength(1)
  clock.advance({ seconds: 1 })
  warn('a')
  expect(lines()[1]).toMatchObject({ about: 'a', times: 6, total: 7 })
})

it('counts each subject for itself', () => {
  const { warn, lines } = warnings()
  for (const subject of ['a', 'b', 'a']) warn(subject)
  expect(lines().map(({ about }) => about)).toEqual(['a', 'b'])
})
