/** Waiting for work that may never end, and for a time that may end early. */
import { getEventListeners } from 'node:events'
import type { Mock } from 'vitest'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { eitherSignal, listedUntilAborted, pause } from '../../src/framework/waiting.ts'

const STOPS = new Error('the worker stops')

/** Gives one after the other and closes when it is told to. */
function listing(close: () => Promise<void>): AsyncIterable<number> {
  let given = 0
  return {
    [Symbol.asyncIterator]: () => ({
      next: async () => ({ done: false, value: ++given }),
      async return() {
        await close()
        return { done: true, value: undefined }
      },
    }),
  }
}

async function firstOf(listed: AsyncIterable<number>, signal: AbortSignal): Promise<number | undefined> {
  for await (const one of listedUntilAborted(listed, signal)) return one
  return undefined
}

it('a listing that is left early is closed first', async () => {
  let isClosed = false
  const close = async (): Promise<void> => {
    await new Promise((resolve) => setImmediate(resolve))
    isClosed = true
  }
  expect(await firstOf(listing(close), new AbortController().signal)).toBe(1)
  expect(isClosed).toBe(true)
})

it('one that does not close is waited for until the worker has to end', async () => {
  const worker = new AbortController()
  const left = firstOf(
    listing(() => new Promise(() => {})),
    worker.signal,
  )
  setImmediate(() => worker.abort(STOPS))
  await expect(left).rejects.toBe(STOPS)
})

const LONG_MS = 600_000

describe('a pause', () => {
  it('lasts its time', async () => {
    const before = performance.now()
    expect(await pause(20)).toBe(true)
    expect(performance.now() - before).toBeGreaterThanOrEqual(19)
  })

  it.each(['before', 'meanwhile'])('ends when the caller gives up %s', async (when) => {
    const caller = new AbortController()
    if (when === 'before') caller.abort()
    const paused = pause(LONG_MS, caller.signal)
    caller.abort()
    expect(await paused).toBe(false)
  })

  it('ends with the first of two signals', async () => {
    const [caller, worker] = [new AbortController(), new AbortController()]
    const paused = pause(LONG_MS, caller.signal, worker.signal)
    worker.abort()
    expect(await paused).toBe(false)
  })

  it('leaves no listener on the signals', async () => {
    const [caller, worker] = [new AbortController(), new AbortController()]
    await pause(1, caller.signal)
    await pause(1, caller.signal, worker.signal)
    expect([caller, worker].flatMap(({ signal }) => getEventListeners(signal, 'abort'))).toEqual([])
  })
})

describe('either of two signals', () => {
  let warned: Mock<(warning: Error) => void>
  beforeEach(() => {
    warned = vi.fn()
    process.on('warning', warned)
  })
  afterEach(() => void process.off('warning', warned))

  it('is aborted with the reason of the first', () => {
    const [first, second] = [new AbortController(), new AbortController()]
    const { either } = eitherSignal(first.signal, second.signal)
    const reason = new Error('enough')
    second.abort(reason)
    first.abort(new Error('late'))
    expect(either?.reason).toBe(reason)
  })

  it('ends with the release', () => {
    const [first, second] = [new AbortController(), new AbortController()]
    const { either, release } = eitherSignal(first.signal, second.signal)
    release()
    first.abort()
    expect(either?.aborted).toBe(false)
  })

  it('takes many calls on one signal for no leak', async () => {
    const [caller, worker] = [new AbortController(), new AbortController()]
    const both = Array.from({ length: 50 }, () => eitherSignal(caller.signal, worker.signal))
    // Warnings are sent in a later tick.
    await new Promise((resolve) => setImmediate(resolve))
    for (const { release } of both) release()
    // The other files of the process may have warnings of their own at this moment.
    expect(warned.mock.calls.filter(([{ name }]) => name === 'MaxListenersExceededWarning')).toEqual([])
  })
})
