/** A server that fails as its path says: `/reset`, `/silent`, `/status/503`. Over TCP: HTTP's own servers fail too well. */
import { once } from 'node:events'
import type { AddressInfo, Server, Socket } from 'node:net'
import { createServer } from 'node:net'
import type { Server as TlsServer } from 'node:tls'
import { createServer as createTlsServer } from 'node:tls'

const HEAD = 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n'
/** Sent before a fault in the middle of a body, so that it is in the middle. */
const HALF = `${HEAD}Content-Length: 100\r\n\r\n{"half":`

const FAULTS: Readonly<Record<string, (socket: Socket) => void>> = {
  '/reset': (socket) => socket.resetAndDestroy(),
  '/close': (socket) => socket.end(),
  '/silent': () => {},
  '/half-then-reset': (socket) => afterHalf(socket, () => socket.resetAndDestroy()),
  '/half-then-close': (socket) => afterHalf(socket, () => socket.end()),
  '/half-then-silent': (socket) => socket.write(HALF),
  '/no-http': (socket) => socket.end('220 mail.example.com ESMTP\r\n'),
  '/big-headers': (socket) => socket.end(`${HEAD}X-Big: ${'x'.repeat(100_000)}\r\n\r\n`),
}

export interface FailingServer {
  readonly url: string
  close(): Promise<void>
}

export function failingServer(): Promise<FailingServer> {
  return cuttable((socket) =>
    socket.once('data', (head) => {
      const path = String(head).split(' ')[1] ?? ''
      const status = /^\/status\/(\d+)$/.exec(path)?.[1] ?? '400'
      const fail = FAULTS[path]
      if (fail !== undefined) fail(socket)
      else socket.end(`HTTP/1.1 ${status} Scripted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`)
    }),
  )
}

/** Takes every connection and never says a word. */
export function silentServer(): Promise<FailingServer> {
  return cuttable(() => {})
}

function cuttable(onConnection: (socket: Socket) => void): Promise<FailingServer> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket.once('close', () => sockets.delete(socket)))
    // A client that gives up is what the tests are about.
    socket.on('error', () => {})
    onConnection(socket)
  })
  return started(server, 'http', () => {
    for (const socket of sockets) socket.destroy()
  })
}

/** The client goes on reading only after what came first has been handed over. */
function afterHalf(socket: Socket, fail: () => void): void {
  socket.write(HALF, () => setTimeout(fail, 20))
}

/** An HTTPS server whose certificate nobody has signed. */
export function selfSignedServer(): Promise<FailingServer> {
  return started(
    createTlsServer({ key: KEY, cert: CERTIFICATE }).on('tlsClientError', () => {}),
    'https',
    () => {},
  )
}

/** A port that nobody listens on. */
export async function refusedUrl(): Promise<string> {
  const server = await started(createServer(), 'http', () => {})
  await server.close()
  return server.url
}

async function started(server: Server | TlsServer, scheme: string, cut: () => void): Promise<FailingServer> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `${scheme}://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      cut()
      server.close()
      await once(server, 'close')
    },
  }
}

/** Of this file alone: `openssl ca -selfsign`, for localhost, from 2000 to 2999. */
const KEY = `-----BEGIN EC PRIVATE KEY-----
MHcCAQEEIGAhrwbnuRSz65HvPVQ4nWlIKCEPf54xNA2bi2CZQwcEoAoGCCqGSM49
AwEHoUQDQgAEWYb12abcwh42jDQerncAVs7susZN9/C/4uhZgRgizHpbjLl/kInU
5Jmer7yg9DCGCjIcw2d4TYaRbzIYmgq9jw==
-----END EC PRIVATE KEY-----`
const CERTIFICATE = `-----BEGIN CERTIFICATE-----
MIIBVDCB/KADAgECAgEBMAoGCCqGSM49BAMCMBQxEjAQBgNVBAMMCWxvY2FsaG9z
dDAgFw0wMDAxMDEwMDAwMDBaGA8yOTk5MTIzMTIzNTk1OVowFDESMBAGA1UEAwwJ
bG9jYWxob3N0MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEWYb12abcwh42jDQe
rncAVs7susZN9/C/4uhZgRgizHpbjLl/kInU5Jmer7yg9DCGCjIcw2d4TYaRbzIY
mgq9j6M9MDswGgYDVR0RBBMwEYIJbG9jYWxob3N0hwR/AAABMB0GA1UdDgQWBBRG
K56vUxs10eEOUMwDhQCTvTTCijAKBggqhkjOPQQDAgNHADBEAiAgtbQj8r0nTuQr
tmeaoKJx+64ILp06CwcWb86bSC+JkAIgONh8AGZnJO05T0trC83kWTtV/HEFTAuG
z0ZzuIyLT2U=
-----END CERTIFICATE-----`
