/** Signs of life of an activity: docs/behaviour/workers.md. */
import { MockActivityEnvironment } from '@temporalio/testing'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { keptAlive } from '../../src/activities/heartbeat.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

async function beatsOf(info: { readonly isLocal: boolean }): Promise<unknown[]> {
  const beats: unknown[] = []
  const environment = new MockActivityEnvironment(info)
  environment.on('heartbeat', (details: unknown) => void beats.push(details))
  const sixteenSeconds = keptAlive(async () => {
    await vi.advanceTimersByTimeAsync(16_000)
  })
  await environment.run(sixteenSeconds)
  return beats
}

describe('an activity of sixteen seconds', () => {
  it('says three times that its worker lives, and how long it has worked', async () => {
    expect(await beatsOf({ isLocal: false })).toEqual([5_000, 10_000, 15_000].map((tookMs) => ({ tookMs })))
  })

  it('says nothing inside a workflow task: the SDK prints an error for each, beside the log', async () => {
    expect(await beatsOf({ isLocal: true })).toEqual([])
  })
})
