/** Rule: docs/behaviour/logs.md, "Fields". */
import { describe, expect, it } from 'vitest'
import { retriedCalls } from '../../src/temporal/retried-calls.ts'

const POLL = 'gRPC call poll_workflow_task_queue retried'

describe('lines of the SDK about a call that it retries', () => {
  it('are one a minute for all pollers, with how many it stands for', () => {
    const times = retriedCalls()
    expect(times(`${POLL} 6 times`, 0)).toBe(1)
    for (let poller = 0; poller < 9; poller += 1) expect(times(`${POLL} 6 times`, 100)).toBeNull()
    expect(times(`${POLL} 11 times`, 59_999)).toBeNull()
    expect(times(`${POLL} 12 times`, 60_000)).toBe(11)
    expect(times(`${POLL} 18 times`, 120_000)).toBe(1)
  })

  it('are counted by call, and others are all written', () => {
    const times = retriedCalls()
    expect(times(`${POLL} 6 times`, 0)).toBe(1)
    expect(times('gRPC call poll_activity_task_queue retried 6 times', 1)).toBe(1)
    expect([times('Activity failed', 2), times('Activity failed', 3)]).toEqual([1, 1])
  })
})
