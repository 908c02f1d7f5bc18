import { describe, expect, it } from 'vitest'
import { lastSteps } from '../../src/bin/run.ts'
import { BackendUnreachable } from '../../src/framework/errors.ts'
import type { LogLine } from '../../src/testing/recorded-log.ts'
import { recordingLogger } from '../../src/testing/recorded-log.ts'

const stopping = (code: number) => ({ isAsked: () => true, asked: Promise.resolve(), exitCode: () => code })

describe('the last steps of a process', () => {
  it('are all taken; one that fails has a line, and the process ends with 1', async () => {
    const lines: LogLine[] = []
    const taken: string[] = []
    const steps = [
      () => taken.push('first'),
      () => Promise.reject(new Error('it can not be closed')),
      () => taken.push('last'),
    ]
    expect(await lastSteps(recordingLogger(lines), stopping(0), { steps })).toBe(1)
    expect(taken).toEqual(['first', 'last'])
    expect(lines.map(({ fields }) => fields)).toEqual([
      { event: 'process.end_failed', error: 'Error: it can not be closed' },
    ])
  })

  it.each([
    ['was asked to', undefined, 0, 0],
    ['left a rejection behind', undefined, 1, 1],
    ['failed', new Error('a fault'), 0, 1],
    ['failed for want of Temporal', new BackendUnreachable('Temporal', '127.0.0.1:7233', { remedy: '' }), 0, 2],
  ])('of one that %s', async (_, error, asked, exitCode) => {
    const failure = error === undefined ? {} : { failure: { error } }
    expect(await lastSteps(recordingLogger([]), stopping(asked), { steps: [], ...failure })).toBe(exitCode)
  })
})
