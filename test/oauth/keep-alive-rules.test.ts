import { describe, expect, it } from 'vitest'
import type { KeepAliveState, TokenLifetimes } from '../../src/oauth/keep-alive-rules.ts'
import {
  afterFailure,
  afterSuccess,
  hasFailedForGood,
  NOTHING_KNOWN,
  refreshDueAt,
} from '../../src/oauth/keep-alive-rules.ts'
import type { Tokens } from '../../src/oauth/rules.ts'

const HOUR = 60
const DAY = 24 * HOUR
const NOON = new Date('2031-06-01T12:00:00Z')
const minutes = (count: number): Date => new Date(NOON.getTime() + count * 60_000)
const LIFETIMES: TokenLifetimes = { thresholdSeconds: 300, maxIdleSeconds: null }

function due(
  tokens: Partial<Tokens> = {},
  state: KeepAliveState = afterSuccess(NOON),
  lifetimes: Partial<TokenLifetimes> = {},
): Date | null {
  const given: Tokens = { accessToken: 'a', refreshToken: 'r', expiresAt: null, ...tokens }
  return refreshDueAt(given, state, { ...LIFETIMES, ...lifetimes })
}

/** Failures at these minutes after noon, in order. */
function failing(...at: number[]): KeepAliveState {
  return at.reduce((state, minute) => afterFailure(state, minutes(minute)), afterSuccess(minutes(-HOUR)))
}

describe('a refresh is due', () => {
  it.each<[string, Date | null, Partial<Tokens>, Partial<TokenLifetimes>]>([
    ['a day after the last success', minutes(DAY), {}, {}],
    ['a day after it where the token lives longer', minutes(DAY), { expiresAt: minutes(3 * DAY) }, {}],
    ['the threshold before the token expires', minutes(HOUR - 5), { expiresAt: minutes(HOUR) }, {}],
    ['at once where it has expired', minutes(-HOUR - 5), { expiresAt: minutes(-HOUR) }, {}],
    ['after half of what the refresh token may idle', minutes(HOUR), {}, { maxIdleSeconds: 7_200 }],
    ['after a day where half of that is longer', minutes(DAY), {}, { maxIdleSeconds: 90 * 86_400 }],
    ['never without a refresh token', null, { refreshToken: null, expiresAt: minutes(-HOUR) }, {}],
  ])('%s', (_, expected, tokens, lifetimes) => {
    expect(due(tokens, afterSuccess(NOON), lifetimes)).toEqual(expected)
  })

  it('at once when it is not known how long the refresh token has lain unused', () => {
    expect(due({ expiresAt: minutes(3 * DAY) }, NOTHING_KNOWN)?.getTime()).toBe(0)
  })

  it('after a failure when its wait is over, however long the token is good for', () => {
    expect(due({ expiresAt: minutes(3 * DAY) }, failing(0))).toEqual(minutes(10))
    expect(due({ expiresAt: minutes(-HOUR) }, failing(0))).toEqual(minutes(10))
  })
})

describe('failures', () => {
  it('wait ten minutes, an hour, six hours, then a day each', () => {
    const at = [0]
    let state = failing(0)
    for (let tries = 1; tries < 7; tries += 1) {
      at.push(((state.retryAt?.getTime() ?? Number.NaN) - NOON.getTime()) / 60_000)
      state = afterFailure(state, state.retryAt as Date)
    }
    expect(at).toEqual([0, 10, 70, 430, 430 + DAY, 430 + 2 * DAY, 430 + 3 * DAY])
    expect(state).toMatchObject({ failures: 7, firstFailedAt: NOON })
  })

  it('within a wait are counted, and put nothing off', () => {
    const once = failing(0)
    const hundredTimes = failing(0, ...Array.from({ length: 99 }, (_, n) => n / 10))
    expect(hundredTimes).toMatchObject({ failures: 100, waits: 1, retryAt: once.retryAt, failedAt: minutes(9.8) })
  })

  it('at the very end of a wait begin the next', () => {
    expect(failing(0, 10)).toMatchObject({ waits: 2, retryAt: minutes(70) })
    expect(failing(0, 9.999)).toMatchObject({ waits: 1, retryAt: minutes(10) })
  })

  it('are forgotten with a success', () => {
    expect(afterSuccess(minutes(5))).toEqual({ ...NOTHING_KNOWN, succeededAt: minutes(5) })
  })

  it('keep the time of the last success', () => {
    expect(failing(0, 10)).toMatchObject({ succeededAt: minutes(-HOUR) })
  })
})

describe('refreshes have failed for good', () => {
  const LADDER = [0, 10, 70, 430, 430 + DAY, 430 + 2 * DAY]

  it('four days after the first failure, that very moment included', () => {
    expect(hasFailedForGood(failing(...LADDER, 4 * DAY - 1 / 60))).toBe(false)
    expect(hasFailedForGood(failing(...LADDER, 4 * DAY))).toBe(true)
  })

  it('with the try after the last wait of a day, when tries come as they are due', () => {
    expect(hasFailedForGood(failing(...LADDER, 430 + 3 * DAY))).toBe(false)
    expect(hasFailedForGood(failing(...LADDER, 430 + 3 * DAY, 430 + 4 * DAY))).toBe(true)
  })

  it('not by a few failures far apart: no worker may have run in between', () => {
    expect(hasFailedForGood(failing(0, 5 * DAY))).toBe(false)
    expect(hasFailedForGood(failing(0, 5 * DAY, 10 * DAY, 15 * DAY))).toBe(false)
    expect(hasFailedForGood(failing(0, 5 * DAY, 10 * DAY, 15 * DAY, 20 * DAY))).toBe(true)
  })

  it('never without a failure', () => {
    expect(hasFailedForGood(NOTHING_KNOWN)).toBe(false)
    expect(hasFailedForGood(afterSuccess(NOON))).toBe(false)
    const waited = failing(0, 10, 70, 430, 430 + DAY, 430 + 2 * DAY, 9 * DAY)
    expect(hasFailedForGood(waited)).toBe(true)
    expect(hasFailedForGood({ ...waited, firstFailedAt: null })).toBe(false)
    expect(hasFailedForGood({ ...waited, failedAt: null })).toBe(false)
  })
})
