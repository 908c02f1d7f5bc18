import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { sweepPending, sweepSchedulePause } from '../../src/temporal/sweep.ts'
import { occasion } from '../support/integrations.ts'

const wakePending = vi.fn<(options: { olderThanSeconds: number }) => Promise<number>>()
const wakeOutbox = vi.fn<() => Promise<boolean>>()
const notifications = { wakePending: wakeOutbox }
const events: unknown[] = []
const note = (fields: Record<string, unknown>) => void events.push(fields.event)
const logger = { debug: note, info: note, warn: note, error: note }

beforeEach(() => {
  vi.useFakeTimers()
  wakePending.mockReset()
  wakePending.mockResolvedValue(0)
  wakeOutbox.mockReset()
  wakeOutbox.mockResolvedValue(false)
  events.length = 0
})
afterEach(() => vi.useRealTimers())

describe('the sweep', () => {
  it('wakes, every 30 s, what has waited for more than 20 s, until it is ended', async () => {
    const end = sweepPending({ webhooks: { wakePending }, admin: { notifications, logger } })
    await vi.advanceTimersByTimeAsync(29_999)
    expect(wakePending).not.toHaveBeenCalled()
    await vi.advanceTimersByTimeAsync(60_001)
    expect(wakePending.mock.calls).toEqual(Array.from({ length: 3 }, () => [{ olderThanSeconds: 20 }]))
    expect(wakeOutbox).toHaveBeenCalledTimes(3)
    expect(events).toEqual([])
    end()
    await vi.advanceTimersByTimeAsync(60_000)
    expect(wakePending).toHaveBeenCalledTimes(3)
    expect(wakeOutbox).toHaveBeenCalledTimes(3)
  })

  it('says when it woke somebody, and when it could not look, and goes on', async () => {
    wakePending.mockRejectedValueOnce(new Error('the connection was refused')).mockResolvedValueOnce(2)
    const end = sweepPending({ webhooks: { wakePending }, admin: { notifications, logger } })
    await vi.advanceTimersByTimeAsync(60_000)
    expect(events).toEqual(['webhook.sweep_failed', 'webhook.swept'])
    wakeOutbox.mockRejectedValueOnce(new Error('the connection was refused'))
    await vi.advanceTimersByTimeAsync(60_000)
    expect(events).toEqual(['webhook.sweep_failed', 'webhook.swept', 'webhook.sweep_failed'])
    expect(wakePending).toHaveBeenCalledTimes(4)
    end()
  })

  it('says nothing of a look that its own end cuts off', async () => {
    const answer = occasion<number>()
    wakePending.mockReturnValueOnce(answer.happened.then(() => Promise.reject(new Error('the connection is closed'))))
    const end = sweepPending({ webhooks: { wakePending }, admin: { notifications, logger } })
    await vi.advanceTimersByTimeAsync(30_000)
    end()
    answer.happen(0)
    await vi.advanceTimersByTimeAsync(30_000)
    expect(wakePending).toHaveBeenCalledTimes(1)
    expect(events).toEqual([])
  })

  it('does not begin another look while one waits for Postgres', async () => {
    const answer = occasion<number>()
    wakePending.mockReturnValueOnce(answer.happened)
    const end = sweepPending({ webhooks: { wakePending }, admin: { notifications, logger } })
    await vi.advanceTimersByTimeAsync(90_000)
    expect(wakePending).toHaveBeenCalledTimes(1)
    answer.happen(0)
    await vi.advanceTimersByTimeAsync(30_000)
    expect(wakePending).toHaveBeenCalledTimes(2)
    end()
  })
})

describe('the look at the Schedule of due syncs', () => {
  it('comes at once and every 30 s, and says when it fails', async () => {
    const look = vi.fn<() => Promise<void>>().mockRejectedValueOnce(new Error('no answer')).mockResolvedValue()
    const end = sweepSchedulePause(look, logger)
    expect(look).toHaveBeenCalledTimes(1)
    await vi.advanceTimersByTimeAsync(90_000)
    expect(look).toHaveBeenCalledTimes(4)
    expect(events).toEqual(['schedules.unseen'])
    end()
  })
})
