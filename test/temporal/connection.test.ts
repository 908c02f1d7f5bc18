import { once } from 'node:events'
import { createServer } from 'node:net'
import { afterEach, expect, it, vi } from 'vitest'
import { closeClient, lazyClient } from '../../src/temporal/connection.ts'

afterEach(() => vi.restoreAllMocks())

it.each(['is still waited for', 'was aborted'])(
  'a client is closed for good although a call that %s waits to be tried again',
  async (ofTheCall) => {
    const retry = heldRetry()
    const client = lazyClient({ address: await addressOfNobody() })
    const abort = new AbortController()
    const call = client.withAbortSignal(abort.signal, () =>
      client.workflowService.describeNamespace({ namespace: 'x' }),
    )
    const failure = expect(call).rejects.toThrow(/UNAVAILABLE|CANCELLED/)
    const tryAgain = await retry
    if (ofTheCall === 'was aborted') abort.abort()
    await closeClient(client)
    // However late the SDK's timer fires: what it throws would end the process.
    expect(tryAgain).not.toThrow()
    await failure
  },
)

/** The SDK's next try, which it gives to a timer: here the test runs it. */
function heldRetry(): Promise<() => void> {
  const { setTimeout: usual } = globalThis
  return new Promise((resolve) => {
    const held = (callback: () => void, ms?: number, ...rest: unknown[]) => {
      if (callback.name !== 'retry') return usual(callback, ms, ...(rest as []))
      resolve(callback)
      return usual(() => {}, 0)
    }
    vi.spyOn(globalThis, 'setTimeout').mockImplementation(held as typeof setTimeout)
  })
}

/** A port that was free a moment ago. */
async function addressOfNobody(): Promise<string> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  server.close()
  await once(server, 'close')
  return `127.0.0.1:${port}`
}
