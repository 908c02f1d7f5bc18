/** The provider that the fleet's integrations ask: it lists entries page by page, and notes each request that reaches it. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

/** Of the handlers, and of the listeners, one in so many calls the provider. */
export const CALLS_EVERY = 10
const PAGE = 100

export interface FleetProvider {
  readonly url: string
  /** Paths in the order of their arrival. */
  readonly requests: readonly string[]
  stop(): Promise<void>
}

/** @param entries are numbered from 1 */
export async function startFleetProvider(entries: number): Promise<FleetProvider> {
  const requests: string[] = []
  const server = createServer((request, response) => {
    const path = request.url ?? ''
    requests.push(path)
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify(answerTo(path, entries)))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

/** The paths of a listing's pages, each once. */
export function pagesOf(entries: number): string[] {
  return Array.from({ length: Math.ceil(entries / PAGE) }, (_, index) => `/items/${index + 1}`)
}

function answerTo(path: string, entries: number): unknown {
  const page = Number(/^\/items\/(\d+)$/.exec(path)?.[1])
  if (Number.isNaN(page)) return { ok: true }
  const first = (page - 1) * PAGE + 1
  const last = Math.min(page * PAGE, entries)
  const items = Array.from({ length: last - first + 1 }, (_, index) => first + index)
  return { items, next: last < entries ? page + 1 : null }
}
