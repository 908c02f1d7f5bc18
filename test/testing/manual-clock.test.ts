import { describe, expect, it } from 'vitest'
import { ManualClock } from '../../src/testing/manual-clock.ts'

describe('a manual clock', () => {
  it('stands still', () => {
    const clock = new ManualClock('2026-01-31T12:00:00Z')
    expect([clock.now(), clock.now()]).toEqual([new Date('2026-01-31T12:00:00Z'), new Date('2026-01-31T12:00:00Z')])
  })

  it.each([
    [90, '2026-01-31T12:01:30.000Z'],
    [0.25, '2026-01-31T12:00:00.250Z'],
    [0, '2026-01-31T12:00:00.000Z'],
    [{ minutes: 5 }, '2026-01-31T12:05:00.000Z'],
    [{ days: 1, hours: 2, minutes: 3, seconds: 4 }, '2026-02-01T14:03:04.000Z'],
  ])('advances by %o', (by, moment) => {
    const clock = new ManualClock('2026-01-31T12:00:00Z')
    clock.advance(by)
    expect(clock.now().toISOString()).toBe(moment)
  })

  it('is set to a moment, an earlier one too', () => {
    const clock = new ManualClock()
    clock.set('2020-01-01T00:00:00Z')
    expect(clock.now()).toEqual(new Date('2020-01-01T00:00:00Z'))
  })

  it('gives no Date by which it could be moved', () => {
    const clock = new ManualClock('2026-01-31T12:00:00Z')
    clock.now().setFullYear(1970)
    expect(clock.now().getUTCFullYear()).toBe(2026)
  })

  it.each([[-1], [Number.NaN], [{ hours: -1 }]])('refuses to advance by %o', (by) => {
    expect(() => new ManualClock().advance(by)).toThrow(RangeError)
  })

  it('refuses what is no moment', () => {
    expect(() => new ManualClock('yesterday')).toThrow(/yesterday/)
  })
})
