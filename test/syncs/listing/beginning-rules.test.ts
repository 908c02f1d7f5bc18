import { describe, expect, it } from 'vitest'
import { ListingBeginning } from '../../../src/syncs/listing/beginning-rules.ts'

const at = (time: string) => new Date(`2026-03-01T${time}Z`)
const began = (own: string, earlier: string | null, ...answers: [date: string, seconds: number][]) => {
  const beginning = new ListingBeginning(at(own), earlier === null ? null : at(earlier))
  for (const [date, seconds] of answers) beginning.heard(at(date), seconds)
  return beginning.at.toISOString().slice(11, -1)
}

describe('the beginning of a listing', () => {
  it("is by the provider's clock: its Date less the time since then, and a second that Date may be late by", () => {
    expect(began('12:00:00', null, ['15:00:07', 2.5])).toBe('15:00:03.500')
  })

  it('is the earliest that its answers tell, since the servers of a provider differ', () => {
    expect(began('12:00:00', null, ['12:00:01', 0], ['12:00:05', 10], ['12:00:30', 20])).toBe('11:59:54.000')
  })

  it('is five minutes before ours where no answer has a Date', () => {
    expect(began('12:00:00', null)).toBe('11:55:00.000')
  })

  it.each(['1970-01-01', '2001-01-01', '2099-01-01'])('is by no Date that is ten years away from ours: %s', (far) => {
    const beginning = new ListingBeginning(at('12:00:00'), null)
    beginning.heard(new Date(far), 0)
    expect(beginning.at).toEqual(at('11:55:00'))
    beginning.heard(new Date('2025-03-01T12:00:01Z'), 0)
    beginning.heard(new Date(far), 0)
    expect(beginning.at).toEqual(new Date('2025-03-01T12:00:00Z'))
  })

  it('is by a Date that is just ten years away from ours', () => {
    const tenYearsEarlier = new Date(at('12:00:00').getTime() - 3_650 * 86_400_000)
    const beginning = new ListingBeginning(at('12:00:00'), null)
    beginning.heard(new Date(tenYearsEarlier.getTime() + 1_000), 0)
    expect(beginning.at).toEqual(tenYearsEarlier)
  })

  it('of a listing that goes on from a bookmark is that of the try that set it', () => {
    expect(began('12:00:00', '10:00:00', ['12:00:01', 0])).toBe('10:00:00.000')
    expect(began('12:00:00', '10:00:00')).toBe('10:00:00.000')
  })
})
