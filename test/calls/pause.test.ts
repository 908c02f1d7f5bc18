/** The wait between attempts ends early for whoever wants no more. */
import { getEventListeners } from 'node:events'
import type { Mock } from 'vitest'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { followSignals } from '../../src/calls/follow-signals.ts'
import { insideSync } from '../../src/calls/inside-sync.ts'
import { pause } from '../../src/calls/pause.ts'

const LONG_MS = 600_000

describe('a pause', () => {
  it('lasts its time', async () => {
    const before = performance.now()
    expect(await pause(20, undefined)).toBe(true)
    expect(performance.now() - before).toBeGreaterThanOrEqual(19)
  })

  it.each(['before', 'meanwhile'])('ends when the caller gives up %s', async (when) => {
    const caller = new AbortController()
    if (when === 'before') caller.abort()
    const paused = pause(LONG_MS, caller.signal)
    caller.abort()
    expect(await paused).toBe(false)
  })

  it('ends when the worker of the sync stops, which outside of a sync it does not know of', async () => {
    const worker = new AbortController()
    const outside = pause(5, undefined)
    const inside = insideSync({ signal: worker.signal }, () => pause(LONG_MS, undefined))
    worker.abort()
    expect(await inside).toBe(false)
    expect(await outside).toBe(true)
  })

  it('leaves no listener on the signals', async () => {
    const caller = new AbortController()
    await pause(1, caller.signal)
    expect(getEventListeners(caller.signal, 'abort')).toEqual([])
  })
})

describe('following signals', () => {
  let warned: Mock<(warning: Error) => void>
  beforeEach(() => {
    warned = vi.fn()
    process.on('warning', warned)
  })
  afterEach(() => void process.off('warning', warned))

  it('aborts with the reason of the first', () => {
    const [first, second, follower] = [new AbortController(), new AbortController(), new AbortController()]
    followSignals(follower, [first.signal, undefined, second.signal])
    const reason = new Error('enough')
    second.abort(reason)
    first.abort(new Error('late'))
    expect(follower.signal.reason).toBe(reason)
  })

  it('ends with the release', () => {
    const [caller, follower] = [new AbortController(), new AbortController()]
    followSignals(follower, [caller.signal])()
    caller.abort()
    expect(follower.signal.aborted).toBe(false)
  })

  it('takes many calls on one signal for no leak', async () => {
    const caller = new AbortController()
    const releases = Array.from({ length: 50 }, () => followSignals(new AbortController(), [caller.signal]))
    // Warnings are sent in a later tick.
    await new Promise((resolve) => setImmediate(resolve))
    for (const release of releases) release()
    // The other files of the process may have warnings of their own at this moment.
    expect(warned.mock.calls.filter(([{ name }]) => name === 'MaxListenersExceededWarning')).toEqual([])
  })
})
