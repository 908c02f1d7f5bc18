import { describe, expect, it } from 'vitest'
import { isTracedRun, traceIdOf } from '../../src/observability/traced-run.ts'
import { WORKFLOW } from '../../src/workflows/ids.ts'
import { COMMAND_WORKFLOWS } from '../support/command-workflows.ts'

/** Rule: docs/behaviour/tracing.md, "Workflows". */
describe('a run in no trace of anybody', () => {
  it('is one trace, if it is a piece of work with an end', () => {
    const livingOn = Object.values(WORKFLOW).filter((type) => !isTracedRun(type))
    expect(livingOn.sort()).toEqual(['eventOutbox', 'incident', 'webhookInbox', 'webhookSubscription'])
    const commands = COMMAND_WORKFLOWS.flatMap(({ type }) => (type === null ? [] : [type]))
    expect(commands.length).toBeGreaterThan(20)
    expect(commands.filter((type) => !isTracedRun(type))).toEqual([])
    expect(isTracedRun('shipOrder')).toBe(false)
  })

  it.each([
    ['as the server makes them', '0198c2f4-7f3a-7c11-9d52-1b7a4f0e6c2d', '0198c2f47f3a7c119d521b7a4f0e6c2d'],
    ['none', '', null],
    ['another form', '0198C2F4-7F3A-7C11-9D52-1B7A4F0E6C2D', null],
    ['what has more around it', ' 0198c2f4-7f3a-7c11-9d52-1b7a4f0e6c2d', null],
    ['a name', 'run-1', null],
  ])('has the trace id of its run id: %s', (_, runId, traceId) => {
    expect(traceIdOf(runId)).toBe(traceId)
  })
})
