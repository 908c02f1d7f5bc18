import { describe, expect, it } from 'vitest'
import type { RememberedStart, Tries } from '../../src/syncs/ask-rules.ts'
import { nextTry, waitOf } from '../../src/syncs/ask-rules.ts'

const NOW = new Date('2031-06-01T12:00:00Z')
const inSeconds = (seconds: number): Date => new Date(NOW.getTime() + seconds * 1_000)

describe('what a start is given', () => {
  it.each([
    ['nothing', {}, null],
    ['no debounce', { debounceSeconds: 0 }, null],
    ['a moment that is past', { notBefore: inSeconds(-1) }, null],
    ['this very moment', { notBefore: NOW }, null],
    ['a moment ahead', { notBefore: inSeconds(1) }, { notBefore: inSeconds(1), debounceSeconds: 0 }],
    ['a debounce', { debounceSeconds: 0.5 }, { notBefore: undefined, debounceSeconds: 0.5 }],
    ['both', { notBefore: inSeconds(-1), debounceSeconds: 5 }, { notBefore: undefined, debounceSeconds: 5 }],
    ['an hour', { debounceSeconds: 3_600 }, { notBefore: undefined, debounceSeconds: 3_600 }],
    ['30 days', { notBefore: inSeconds(30 * 86_400) }, { notBefore: inSeconds(30 * 86_400), debounceSeconds: 0 }],
  ])('%s', (_, ask, wait) => {
    expect(waitOf(ask, NOW)).toEqual(wait)
  })

  it.each([
    ['notBefore', { notBefore: inSeconds(30 * 86_400 + 1) }, /30 days ahead.*Jul 01 2031 .* was given/],
    ['notBefore', { notBefore: new Date(Number.NaN) }, /Invalid Date was given/],
    ['notBefore', { notBefore: '2031-06-01' as never }, /2031-06-01 was given/],
    ['debounceSeconds', { debounceSeconds: -1 }, /from 0 to 3600.*-1 was given/],
    ['debounceSeconds', { debounceSeconds: 3_601 }, /3601 was given/],
    ['debounceSeconds', { debounceSeconds: Number.NaN }, /NaN was given/],
  ])('refuses a wrong %s: %j', (argument, ask, message) => {
    expect(() => waitOf(ask, NOW)).toThrow(expect.objectContaining({ code: 'invalid_argument', argument }))
    expect(() => waitOf(ask, NOW)).toThrow(message)
  })
})

describe('a remembered start', () => {
  const ended: RememberedStart = { askedAt: 'noon', isOpen: false }
  const open: RememberedStart = { askedAt: 'noon', isOpen: true }

  /** The seconds at which it is tried, looked at each second. */
  function triedAt(of: (second: number) => RememberedStart, seconds: number): number[] {
    const tried: number[] = []
    let before: Tries | null = null
    for (let second = 0; second <= seconds; second += 1) {
      const look = nextTry(before, of(second), second * 1_000)
      if (look.tries) tried.push(second)
      before = look.next
    }
    return tried
  }

  it('is tried at once where no run is open, then after 1, 2, 4 … and each 30 s', () => {
    expect(triedAt(() => ended, 130)).toEqual([0, 1, 3, 7, 15, 31, 61, 91, 121])
  })

  it('waits beside an open run, whose workflow may be gone: each 30 s', () => {
    expect(triedAt(() => open, 90)).toEqual([30, 60, 90])
  })

  it('is tried at once when the run ends', () => {
    expect(triedAt((second) => (second < 40 ? open : ended), 45)).toEqual([30, 40, 41, 43])
  })

  it('is tried at once when it is another one', () => {
    expect(triedAt((second) => ({ ...ended, askedAt: second < 20 ? 'noon' : 'later' }), 22)).toEqual([
      0, 1, 3, 7, 15, 20, 21,
    ])
  })
})
