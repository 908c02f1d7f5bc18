import { once } from 'node:events'
import { createServer } from 'node:net'
import { afterEach, expect, it, vi } from 'vitest'
import { closeClient, lazyClient } from '../../src/temporal/connection.ts'

afterEach(() => {
  vi.restoreAllMocks()
  vi.unstubAllEnvs()
})

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

it('a client connects to the server itself, whatever proxy the environment names', async () => {
  const [server, proxy] = [await listening(), await listening()]
  vi.stubEnv('grpc_proxy', `http://${proxy.address}`)
  for (const name of ['no_grpc_proxy', 'no_proxy']) vi.stubEnv(name, '')
  const client = lazyClient({ address: server.address })
  // It fails: nothing there speaks gRPC.
  client.workflowService.describeNamespace({ namespace: 'x' }).catch(() => {})
  const asked = await Promise.race([server.asked.then(() => 'the server'), proxy.asked.then(() => 'the proxy')])
  await closeClient(client)
  for (const { close } of [server, proxy]) close()
  expect(asked).toBe('the server')
})

/** Ends each connection as soon as it is made. */
async function listening(): Promise<{ address: string; asked: Promise<unknown>; close(): void }> {
  const server = createServer((socket) => void socket.destroy()).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  return { address: `127.0.0.1:${port}`, asked: once(server, 'connection'), close: () => void server.close() }
}

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
