/** A collector of OpenTelemetry's: a real HTTP endpoint that keeps what is sent to it. */
import type { IncomingHttpHeaders } from 'node:http'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { SentSpan } from './otlp.ts'
import { spansIn } from './otlp.ts'

export interface Collector {
  readonly url: string
  readonly spans: readonly SentSpan[]
  /** All bytes that came, as text. */
  readonly said: () => string
  readonly requests: readonly { readonly path: string; readonly headers: IncomingHttpHeaders }[]
  close(): Promise<void>
}

export async function startCollector(): Promise<Collector> {
  const spans: SentSpan[] = []
  const bodies: Buffer[] = []
  const requests: { path: string; headers: IncomingHttpHeaders }[] = []
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const body = Buffer.concat(chunks)
      bodies.push(body)
      requests.push({ path: request.url ?? '', headers: request.headers })
      spans.push(...spansIn(body))
      response.writeHead(200, { 'content-type': 'application/x-protobuf' }).end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    said: () => Buffer.concat(bodies).toString('latin1'),
    requests,
    close: () => {
      server.closeAllConnections()
      return new Promise((resolve) => server.close(() => resolve()))
    },
  }
}
