/** The provider's server. It remembers nothing, so that only the system under test can grow. */
import type { ServerResponse } from 'node:http'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { entryOf } from '../chaos/campaign/world.ts'
import { ENTRIES_PER_SECOND } from './world.ts'

/** Longer than any pause of a caller: an idle connection is not to end under its next call. */
const KEEP_ALIVE_MS = 300_000

export interface Outside {
  readonly url: string
  stop(): Promise<void>
}

export async function startOutside(): Promise<Outside> {
  const startedAtMs = performance.now()
  const server = createServer((request, response) => {
    request.resume()
    request.once('end', () => {
      const { pathname, searchParams } = new URL(request.url ?? '', 'http://outside')
      if (pathname === '/calls') return answer(response, { answer: 'done' })
      const after = entryOf(searchParams.get('after'))
      const published = Math.floor(((performance.now() - startedAtMs) / 1_000) * ENTRIES_PER_SECOND)
      answer(response, { items: Array.from({ length: published - after }, (_, index) => after + index + 1) })
    })
  })
  server.keepAliveTimeout = KEEP_ALIVE_MS
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

function answer(response: ServerResponse, body: unknown): void {
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}
