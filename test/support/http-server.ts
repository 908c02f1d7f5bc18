/** A provider's server on this machine: answers as the test says, and keeps what it was sent. */
import { once } from 'node:events'
import type { RequestListener } from 'node:http'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface Received {
  readonly method: string
  readonly url: string
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: string
}

export interface HttpServer {
  readonly url: string
  readonly received: Received[]
  /** Begins after the request was read and kept. Default: 200 with `{}` as JSON. */
  answer: RequestListener
  close(): Promise<void>
}

export async function startHttpServer(): Promise<HttpServer> {
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    const { method = '', url = '', headers } = request
    http.received.push({ method, url, headers, body: Buffer.concat(chunks).toString() })
    http.answer(request, response)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const http: HttpServer = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received: [],
    answer: (_request, response) => void response.setHeader('Content-Type', 'application/json').end('{}'),
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
  return http
}
