import { describe, expect, it } from 'vitest'
import { batch, listing, pass, repeatable, step } from '../../src/workflows/activity-options.ts'

describe('an eager start, which hands an activity to the worker that has its workflow', () => {
  it.each(Object.entries({ batch, listing: listing(60, 60_000) }))(
    'is refused by what takes long and is to spread over the workers: %s',
    (_name, options) => {
      expect(options.allowEagerDispatch).toBe(false)
    },
  )

  it.each(Object.entries({ step, pass, repeatable }))(
    'is left to the server by what runs one at a time: %s',
    (_name, options) => {
      expect(options.allowEagerDispatch).toBeUndefined()
    },
  )
})
