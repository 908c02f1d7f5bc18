import { describe, expect, it } from 'vitest'
import { batch, command, pass, repeatable, step } from '../../src/workflows/activity-options.ts'

describe('an eager start, which hands an activity to the worker that has its workflow', () => {
  it('is refused by batches, which are to spread over the workers', () => {
    expect(batch.allowEagerDispatch).toBe(false)
  })

  it.each(Object.entries({ step, command, pass, repeatable }))(
    'is left to the server by what runs one at a time: %s',
    (_name, options) => {
      expect(options.allowEagerDispatch).toBeUndefined()
    },
  )
})
