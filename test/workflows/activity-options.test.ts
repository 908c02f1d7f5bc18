import { describe, expect, it } from 'vitest'
import { batch, listing, opening, pass, repeatable, single, step } from '../../src/workflows/activity-options.ts'

describe('an eager start, which hands an activity to the worker that has its workflow', () => {
  it.each(Object.entries({ batch, listing: listing(60, 60_000) }))(
    'is refused by what takes long and is to spread over the workers: %s',
    (_name, options) => {
      expect(options.allowEagerDispatch).toBe(false)
    },
  )

  it('is asked for by what opens a run: the workflow tasks of runs are spread already', () => {
    expect(opening.allowEagerDispatch).toBe(true)
  })

  it.each(Object.entries({ step, pass, repeatable }))(
    'is left to the server by what runs one at a time: %s',
    (_name, options) => {
      expect(options.allowEagerDispatch).toBeUndefined()
    },
  )
})

it('one webhook, or a pump, is tried again within 5 s of the end of its worker, however many it has lost', () => {
  expect(single.retry?.maximumInterval).toBe('5 seconds')
})
