/** Real local servers that remember what they were asked, and a resolver of the test's own. */
import { once } from 'node:events'
import type { IncomingMessage, RequestListener } from 'node:http'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'
import type { Egress, EgressInternals, EgressPolicy } from '../../src/egress/guarded-fetch.ts'
import { createEgress } from '../../src/egress/guarded-fetch.ts'
import type { LookupAll } from '../../src/egress/route.ts'

export interface Server {
  readonly url: string
  readonly port: number
  readonly seen: { method: string; url: string; headers: IncomingMessage['headers']; body: string }[]
}

export async function serve(answer: RequestListener, host = '127.0.0.1', port = 0): Promise<Server> {
  const seen: Server['seen'] = []
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const { method = '', url = '', headers } = request
    seen.push({ method, url, headers, body: Buffer.concat(chunks).toString() })
    answer(request, response)
  })
  server.listen(port, host)
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const bound = (server.address() as AddressInfo).port
  return { url: `http://${host}:${bound}`, port: bound, seen }
}

export function egress(policy: EgressPolicy = {}, internals: EgressInternals = {}): Egress {
  const made = createEgress(policy, internals)
  onTestFinished(() => made.close())
  return made
}

/** Answers each question of a name with the next of its lists; the last is reused. */
export function resolver(names: Record<string, readonly (readonly string[])[]>): LookupAll & { asked: string[] } {
  const asked: string[] = []
  const lookup: LookupAll = (hostname, _options, callback) => {
    const lists = names[hostname] ?? []
    const list = lists[Math.min(asked.filter((name) => name === hostname).length, lists.length - 1)] ?? []
    asked.push(hostname)
    setImmediate(() =>
      callback(
        null,
        list.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })),
      ),
    )
  }
  return Object.assign(lookup, { asked })
}
