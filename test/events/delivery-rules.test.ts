import { describe, expect, it } from 'vitest'
import type { ConsumerOutcome } from '../../src/events/delivery-rules.ts'
import { isDue, MAX_TRIES, nextDueMs, outcomeOf, waitMsAfter } from '../../src/events/delivery-rules.ts'

const NOW = Date.parse('2026-03-01T12:00:00.000Z')
const failed = { kind: 'failed', error: 'Error: down' } as const
const waiting = (attempts: number, dueAt = '2026-03-01T12:00:10.000Z'): ConsumerOutcome => ({
  status: 'waiting',
  attempts,
  dueAt,
  error: 'Error: down',
  at: '2026-03-01T12:00:00.000Z',
})

describe('the next try of a delivery', () => {
  it('waits 10 s after the first failure, doubled after each, until the tenth gives it up', () => {
    const waits: number[] = []
    let outcome: ConsumerOutcome | undefined
    for (let tries = 1; tries <= MAX_TRIES; tries += 1) {
      outcome = outcomeOf(failed, outcome, NOW)
      expect(outcome.attempts).toBe(tries)
      if (outcome.status === 'waiting') waits.push((Date.parse(outcome.dueAt) - NOW) / 1_000)
    }
    expect(waits).toEqual([10, 20, 40, 80, 160, 320, 640, 1_280, 2_560])
    expect(outcome).toEqual({ status: 'given_up', attempts: 10, error: 'Error: down', at: '2026-03-01T12:00:00.000Z' })
  })

  it('is never later than an hour', () => {
    expect([9, 10, 11, 100].map((attempts) => waitMsAfter(attempts) / 1_000)).toEqual([2_560, 3_600, 3_600, 3_600])
  })

  it.each<['gone' | 'lost']>([['gone'], ['lost']])('does not come where it is %s', (kind) => {
    expect(outcomeOf({ kind, error: 'why' }, undefined, NOW)).toEqual({
      status: 'given_up',
      attempts: 1,
      error: 'why',
      at: '2026-03-01T12:00:00.000Z',
    })
  })

  it('does not come where it is silenced, which is no try', () => {
    expect(outcomeOf({ kind: 'silenced' }, waiting(3), NOW)).toEqual({
      status: 'silenced',
      attempts: 3,
      at: '2026-03-01T12:00:00.000Z',
    })
  })

  it('does not come after one that arrived', () => {
    expect(outcomeOf({ kind: 'delivered' }, waiting(3), NOW)).toEqual({
      status: 'delivered',
      attempts: 4,
      at: '2026-03-01T12:00:00.000Z',
    })
  })
})

describe('who is told now', () => {
  it.each<[string, ConsumerOutcome | undefined, boolean]>([
    ['who was never told', undefined, true],
    ['whose time has come, to the millisecond', waiting(1, '2026-03-01T12:00:00.000Z'), true],
    ['whose time has not come', waiting(1, '2026-03-01T12:00:00.001Z'), false],
    ['who has had it', { status: 'delivered', attempts: 1, at: '' }, false],
    [
      'who has had it, and has a time',
      { ...waiting(1, '2026-03-01T12:00:00.000Z'), status: 'delivered' } as never,
      false,
    ],
    ['who is silenced', { status: 'silenced', attempts: 0, at: '' }, false],
    ['who was given up', { status: 'given_up', attempts: 10, error: '', at: '' }, false],
  ])('%s: %#', (_, outcome, due) => {
    expect(isDue(outcome, NOW)).toBe(due)
  })

  it('makes the row due at the first of their times, and done when none is left', () => {
    const outcomes = {
      a: waiting(2, '2026-03-01T12:00:40.000Z'),
      b: waiting(1, '2026-03-01T12:00:10.000Z'),
      c: outcomeOf({ kind: 'delivered' }, undefined, NOW),
      d: outcomeOf({ kind: 'gone', error: '' }, undefined, NOW),
    }
    expect(nextDueMs(['a', 'b', 'c', 'd'], outcomes, NOW)).toBe(NOW + 10_000)
    expect(nextDueMs(['a', 'c'], outcomes, NOW)).toBe(NOW + 40_000)
    expect(nextDueMs(['c', 'd'], outcomes, NOW)).toBe(null)
    // Somebody whose try was cut off has no outcome: at once.
    expect(nextDueMs(['a', 'e'], outcomes, NOW)).toBe(NOW)
    expect(nextDueMs([], outcomes, NOW)).toBe(null)
  })
})
