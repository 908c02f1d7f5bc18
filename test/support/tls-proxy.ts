/** Stands before a plain Temporal server as a cluster's front does: TLS, a client's certificate, a key in a header. */
import { readFileSync } from 'node:fs'
import type { Http2SecureServer, IncomingHttpHeaders, ServerHttp2Session, ServerHttp2Stream } from 'node:http2'
import { connect, createSecureServer } from 'node:http2'
import type { AddressInfo } from 'node:net'
import type { Certificates } from './certificates.ts'

export interface TlsProxy {
  readonly address: string
  /** The header `authorization` of each call, in order. */
  readonly authorizations: (string | undefined)[]
  close(): Promise<void>
}

export async function startTlsProxy(
  to: string,
  { authority, server: own }: Certificates,
  { asksForCertificate }: { asksForCertificate: boolean },
): Promise<TlsProxy> {
  const authorizations: (string | undefined)[] = []
  const behind = connect(`http://${to}`)
  const server: Http2SecureServer = createSecureServer({
    cert: readFileSync(own.certificate),
    key: readFileSync(own.key),
    ca: readFileSync(authority),
    requestCert: asksForCertificate,
    rejectUnauthorized: asksForCertificate,
  })
  const sessions = new Set<ServerHttp2Session>()
  server.on('session', (session) => {
    sessions.add(session)
    session.on('error', () => {})
  })
  // Clients that it refuses end their connections hard.
  server.on('tlsClientError', () => {})
  server.on('stream', (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => {
    authorizations.push(headers.authorization)
    forward(stream, headers)
  })
  const forward = (stream: ServerHttp2Stream, headers: IncomingHttpHeaders): void => {
    const there = behind.request(headers)
    let trailers: IncomingHttpHeaders = {}
    stream.on('error', () => there.close())
    there.on('error', () => stream.close())
    there.on('response', (answer, flags) => {
      const { ':status': status, ...rest } = answer
      // An answer of headers alone, as gRPC's refusals are.
      const endStream = (flags & 1) === 1
      stream.respond({ ':status': status, ...rest }, endStream ? { endStream } : { waitForTrailers: true })
      if (!endStream) there.pipe(stream)
    })
    there.on('trailers', (sent) => {
      trailers = sent
    })
    stream.on('wantTrailers', () => stream.sendTrailers(trailers))
    stream.pipe(there)
  }
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    authorizations,
    async close() {
      behind.destroy()
      for (const session of sessions) session.destroy()
      await new Promise<void>((resolve) => server.close(() => resolve()))
    },
  }
}
