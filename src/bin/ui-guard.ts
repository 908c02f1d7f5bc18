/**
 * A guard in front of Temporal's UI, which answers any Host and asks for no sign-in: every caller that reaches it may start workflows.
 *
 * Behind it the UI listens where no page gets to: in `npm start` on an address of the loopback network that only we know, in Compose
 * on the loopback interface that it shares with this guard. Rule: docs/behaviour/access.md, "Temporal's own doors".
 */
import { randomInt } from 'node:crypto'
import type { IncomingHttpHeaders, IncomingMessage, Server, ServerResponse } from 'node:http'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { isLocalHost, isSafeMethod, isSameOrigin, originOf } from '../access/rules.ts'
import { freePort } from './free-port.ts'

interface Place {
  readonly host: string
  readonly port: number
}

export interface UiGuard {
  readonly port: number
  close(): Promise<void>
}

/**
 * Why a request is not passed on; null for one that is. The content type says nothing: the UI's own pages send JSON as `text/plain`,
 * with the token of its CSRF protection.
 */
export function refusalOf(method: string, headers: IncomingHttpHeaders): string | null {
  if (!isLocalHost(headers.host))
    return 'The Host is not a name of this machine. Open the UI as http://127.0.0.1 or http://localhost.'
  const isOurs = isSameOrigin({
    origin: headers.origin ?? null,
    secFetchSite: String(headers['sec-fetch-site'] ?? '') || null,
    ownOrigin: originOf(`http://${headers.host}`),
    hasBearer: false,
    hasCookie: headers.cookie !== undefined,
  })
  if (isSafeMethod(method)) return headers.origin === undefined || isOurs ? null : 'Another page may not read this one.'
  return isOurs ? null : 'The request did not come from a page of this UI, or does not say so.'
}

/** Listens at `at` and passes on what is let through. A port that is taken: another one, where `isPreferred`. */
export async function startUiGuard(ui: Place, at: Place & { readonly isPreferred?: boolean }): Promise<UiGuard> {
  const server = createServer((incoming, answer) => {
    const refusal = refusalOf(incoming.method ?? 'GET', incoming.headers)
    if (refusal === null) return passOn(ui, incoming, answer)
    // What is still coming of a refused body is not read.
    answer.writeHead(403, { 'Content-Type': 'text/plain; charset=utf-8', Connection: 'close' }).end(`${refusal}\n`)
  })
  await listen(server, at)
  return {
    port: (server.address() as AddressInfo).port,
    async close() {
      const closed = new Promise((resolve) => server.close(resolve))
      server.closeAllConnections()
      await closed
    },
  }
}

function passOn(ui: Place, incoming: IncomingMessage, answer: ServerResponse): void {
  const { connection: _, ...headers } = incoming.headers
  const outgoing = request({ ...ui, method: incoming.method, path: incoming.url, headers })
  outgoing.on('response', (response) => {
    answer.writeHead(response.statusCode ?? 502, response.headers)
    response.pipe(answer)
    response.on('error', () => answer.destroy())
  })
  outgoing.on('error', () => {
    if (answer.headersSent) answer.destroy()
    else answer.writeHead(502, { 'Content-Type': 'text/plain' }).end('The Temporal UI does not answer.\n')
  })
  answer.on('close', () => outgoing.destroy())
  incoming.pipe(outgoing)
}

async function listen(
  server: Server,
  { host, port, isPreferred = false }: Place & { isPreferred?: boolean },
): Promise<void> {
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(port, host, resolve)
    })
  } catch (error) {
    if (!isPreferred || port === 0) throw error
    await listen(server, { host, port: 0 })
  }
}

/**
 * A place for the UI that a page can't find by trying: on Linux all of 127.0.0.0/8 is this machine, 16 million addresses with 65,535
 * ports each. macOS has 127.0.0.1 alone: there it is a free port of that.
 */
export async function hiddenPlace(): Promise<Place> {
  const host = `127.${randomInt(1, 255)}.${randomInt(0, 256)}.${randomInt(1, 255)}`
  try {
    return { host, port: await freePort(0, host) }
  } catch {
    return { host: '127.0.0.1', port: await freePort() }
  }
}
