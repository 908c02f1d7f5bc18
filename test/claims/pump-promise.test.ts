/** When rows that were stored wake the inbox, and when it has promised to look by itself. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { Promised } from '../../src/claims/lease-queries.ts'
import { InboxPromise } from '../../src/claims/pump-promise.ts'
import { occasion } from '../support/integrations.ts'

const read = vi.fn<() => Promise<Promised | null>>()
const wake = vi.fn()
let promise: InboxPromise

beforeEach(() => {
  vi.useFakeTimers()
  read.mockReset()
  wake.mockReset()
  promise = new InboxPromise(read)
})
afterEach(() => {
  vi.useRealTimers()
})

const lasts = (remainingMs: number): Promised => ({ remainingMs, hasEnded: false })
const stored = async (): Promise<void> => {
  promise.unless(wake)
  await vi.advanceTimersByTimeAsync(0)
}

describe('rows that are stored', () => {
  it.each<[string, Promised | null]>([
    ['there was no promise', null],
    ['it is over', lasts(0)],
    ['it is over for long', lasts(-60_000)],
    ['it was kept', { remainingMs: -1, hasEnded: true }],
  ])('wake the inbox where %s', async (_, promised) => {
    read.mockResolvedValue(promised)
    await stored()
    expect(wake).toHaveBeenCalledTimes(1)
  })

  it('wake it where the database does not say', async () => {
    read.mockRejectedValue(new Error('away'))
    await stored()
    expect(wake).toHaveBeenCalledTimes(1)
  })

  it('wake nothing while it has promised to look, and ask nothing either', async () => {
    read.mockResolvedValue(lasts(2_000))
    await stored()
    await stored()
    await vi.advanceTimersByTimeAsync(1_999)
    await stored()
    expect(read).toHaveBeenCalledTimes(1)
    expect(wake).not.toHaveBeenCalled()
  })

  it('ask again once the promise that they know is over: it may have been renewed', async () => {
    read.mockResolvedValue(lasts(2_000))
    await stored()
    await vi.advanceTimersByTimeAsync(2_000)
    await stored()
    expect(read).toHaveBeenCalledTimes(2)
    expect(wake).not.toHaveBeenCalled()
    read.mockResolvedValue({ remainingMs: -1, hasEnded: true })
    await vi.advanceTimersByTimeAsync(2_000)
    await stored()
    expect(wake).toHaveBeenCalledTimes(1)
  })

  it('share a question that is under way', async () => {
    const answer = occasion<Promised | null>()
    read.mockReturnValue(answer.happened)
    for (let n = 0; n < 5; n += 1) promise.unless(wake)
    expect(read).toHaveBeenCalledTimes(1)
    answer.happen(null)
    await vi.advanceTimersByTimeAsync(0)
    expect(wake).toHaveBeenCalledTimes(5)
  })

  it('count the promise from the question: a slow answer makes it no longer', async () => {
    read.mockImplementationOnce(async () => {
      await vi.advanceTimersByTimeAsync(1_500)
      return lasts(2_000)
    })
    await stored()
    read.mockResolvedValue(null)
    await vi.advanceTimersByTimeAsync(501)
    await stored()
    expect(wake).toHaveBeenCalledTimes(1)
  })
})

describe('a promise on which rows were left', () => {
  it('that was kept wakes nothing', async () => {
    read.mockResolvedValueOnce(lasts(2_000)).mockResolvedValue({ remainingMs: -100, hasEnded: true })
    await stored()
    await vi.advanceTimersByTimeAsync(10_000)
    expect(read).toHaveBeenCalledTimes(2)
    expect(wake).not.toHaveBeenCalled()
  })

  it.each<[string, () => Promise<Promised | null>]>([
    ['neither kept nor renewed', async () => lasts(-300)],
    ['forgotten', async () => null],
    [
      'not to be read',
      async () => {
        throw new Error('away')
      },
    ],
  ])('that was %s wakes the inbox a moment after its end: its worker has died', async (_, answer) => {
    read.mockResolvedValueOnce(lasts(2_000)).mockImplementation(answer)
    await stored()
    await vi.advanceTimersByTimeAsync(2_249)
    expect(wake).not.toHaveBeenCalled()
    await vi.advanceTimersByTimeAsync(1)
    expect(wake).toHaveBeenCalledTimes(1)
    await vi.advanceTimersByTimeAsync(60_000)
    expect(wake).toHaveBeenCalledTimes(1)
  })

  it('that was renewed is watched on, until it is kept or not', async () => {
    read.mockResolvedValueOnce(lasts(2_000)).mockResolvedValueOnce(lasts(1_000)).mockResolvedValue(lasts(-300))
    await stored()
    await vi.advanceTimersByTimeAsync(2_250)
    expect(wake).not.toHaveBeenCalled()
    await vi.advanceTimersByTimeAsync(1_250)
    expect(wake).toHaveBeenCalledTimes(1)
  })

  it('is watched once, however many rows', async () => {
    read.mockResolvedValueOnce(lasts(2_000)).mockResolvedValue(lasts(-300))
    for (let n = 0; n < 10; n += 1) await stored()
    await vi.advanceTimersByTimeAsync(5_000)
    expect(wake).toHaveBeenCalledTimes(1)
  })
})
