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
    warn: (subject: string, reason?: string) =>
      repeated.warn(subject, () => ({ about: subject }), 'it happened', reason),
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

it('counts the reasons of one subject since its last line', () => {
  const { clock, warn, lines } = warnings()
  for (const reason of ['x', 'y', 'x']) warn('a', reason)
  clock.advance({ minutes: 1 })
  warn('a', 'y')
  clock.advance({ minutes: 1 })
  warn('a', 'z')
  expect(lines().map(({ times, reasons }) => [times, reasons])).toEqual([
    [1, { x: 1 }],
    [3, { x: 1, y: 2 }],
    [1, { z: 1 }],
  ])
})

it('counts each subject for itself', () => {
  const { warn, lines } = warnings()
  for (const subject of ['a', 'b', 'a']) warn(subject)
  expect(lines().map(({ about }) => about)).toEqual(['a', 'b'])
})

it('tells a line a minute for all subjects beyond a thousand', () => {
  const { clock, warn, lines } = warnings()
  for (let round = 0; round < 3; round += 1) for (let n = 0; n < 1_500; n += 1) warn(`${n}`)
  expect(lines()).toHaveLength(1_001)
  expect(lines().at(-1)).toEqual({
    level: 'warn',
    message: 'it happened',
    event: undefined,
    others: true,
    times: 1,
    total: 1,
  })
  clock.advance({ seconds: 60 })
  warn('1499')
  expect(lines()).toHaveLength(1_002)
  expect(lines().at(-1)).toMatchObject({ about: '1499', times: 1 })
})

it('tells it again after the clock was set back by a day', () => {
  const { clock, warn, lines } = warnings()
  warn('a')
  clock.set('2025-12-31T00:00:00Z')
  warn('a')
  expect(lines().map(({ times, total }) => [times, total])).toEqual([
    [1, 1],
    [1, 2],
  ])
})
