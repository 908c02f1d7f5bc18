/** A provider's listing, whose own code may never end. */
import { expect, it } from 'vitest'
import { listedUntilAborted } from '../../src/framework/until-aborted.ts'

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
