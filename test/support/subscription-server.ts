/** A provider's server at which webhooks are registered: it keeps who is subscribed when, and answers as the test says. */
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface ServedSubscription {
  readonly id: string
  url: string
  secret: string | null
  expiresAt: number | null
  isActive: boolean
}

/** What becomes of a request: it is refused, or it is carried out and its answer lost. */
export type Fault = { readonly status: number } | 'answer lost'

export interface SubscriptionServer {
  readonly url: string
  readonly subscriptions: Map<string, ServedSubscription>
  /** `METHOD`, in order. */
  readonly requests: string[]
  /** Of the next requests of a method, first in first out. */
  readonly faults: { readonly method: string; readonly fault: Fault }[]
  /** How many live ones there are whenever that changes, with the moment. */
  readonly timeline: { readonly atMs: number; readonly live: number }[]
  /** Notes a change that a test made by itself, and the ends of lives. */
  note(): void
  close(): Promise<void>
}

export async function startSubscriptionServer({
  lifeSeconds = null,
  makesSecret = false,
  now = () => Date.now(),
}: {
  readonly lifeSeconds?: number | null
  /** Whether the secret is the server's, and told when a subscription is created. */
  readonly makesSecret?: boolean
  readonly now?: () => number
} = {}): Promise<SubscriptionServer> {
  const subscriptions = new Map<string, ServedSubscription>()
  const isLive = ({ expiresAt, isActive }: ServedSubscription): boolean =>
    isActive && (expiresAt === null || expiresAt > now())
  const end = (): number | null => (lifeSeconds === null ? null : now() + lifeSeconds * 1_000)

  function handle(method: string, id: string | undefined, body: { url?: string; secret?: string }): unknown {
    const found = id === undefined ? undefined : subscriptions.get(id)
    if (method === 'POST') {
      const secret = makesSecret ? `whsec_${randomUUID()}` : (body.secret ?? null)
      const made = { id: randomUUID(), url: body.url ?? '', secret, expiresAt: end(), isActive: true }
      subscriptions.set(made.id, made)
      return shown(made, makesSecret ? { secret } : {})
    }
    if (method === 'GET') return [...subscriptions.values()].map((one) => shown(one))
    if (found === undefined) return null
    if (method === 'DELETE') subscriptions.delete(found.id)
    else
      Object.assign(found, {
        url: body.url ?? found.url,
        secret: makesSecret ? found.secret : (body.secret ?? found.secret),
        expiresAt: end(),
        isActive: true,
      })
    return shown(found)
  }

  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    const { method = '', url = '' } = request
    served.requests.push(method)
    const at = served.faults.findIndex((one) => one.method === method)
    const fault = at < 0 ? null : (served.faults.splice(at, 1)[0]?.fault ?? null)
    if (fault !== null && fault !== 'answer lost') return answer(response, fault.status, { error: 'refused' })
    served.note()
    const text = Buffer.concat(chunks).toString()
    const result = handle(method, url.split('/')[2], text === '' ? {} : JSON.parse(text))
    served.note()
    if (fault === 'answer lost') return void response.destroy()
    return answer(response, result === null ? 404 : 200, result ?? { error: 'gone' })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const served: SubscriptionServer = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    subscriptions,
    requests: [],
    faults: [],
    timeline: [{ atMs: now(), live: 0 }],
    note() {
      for (const [id, one] of subscriptions) {
        if (one.expiresAt === null || one.expiresAt > now()) continue
        subscriptions.delete(id)
        push(one.expiresAt)
      }
      push(now())
    },
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
  function push(atMs: number): void {
    const live = [...subscriptions.values()].filter(isLive).length
    if (served.timeline.at(-1)?.live !== live) served.timeline.push({ atMs, live })
  }
  return served
}

function shown({ id, url, expiresAt, isActive }: ServedSubscription, more: object = {}): object {
  return {
    id,
    url,
    active: isActive,
    expires_at: expiresAt === null ? null : new Date(expiresAt).toISOString(),
    ...more,
  }
}

function answer(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}
