import { once } from 'node:events'
import { createServer } from 'node:net'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { closeClient, lazyClient, temporalUnreachable } from '../../src/temporal/connection.ts'

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

describe('what Temporal answers', () => {
  const where = { address: 'temporal.example:7233', namespace: 'ledgerly' }
  const answer = (details: string) => Object.assign(new Error(`5 NOT_FOUND: ${details}`), { code: 5, details })

  it('is told apart from no answer, where the namespace is missing', () => {
    const missing = answer('Namespace ledgerly is not found.')
    const message =
      'Temporal answers at temporal.example:7233, but has no namespace "ledgerly". Set TEMPORAL_NAMESPACE, or create it: temporal operator namespace create --address temporal.example:7233 --namespace ledgerly'
    expect(temporalUnreachable(where, missing)).toMatchObject({ code: 'backend_unreachable', message })
    expect(temporalUnreachable(where, new Error('failed', { cause: missing }))).toMatchObject({ message })
    // A workflow or Schedule that is not there.
    expect(temporalUnreachable(where, answer('workflow not found')).message).toContain('was not reached at')
  })
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
