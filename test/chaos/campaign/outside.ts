/**
 * The servers outside: a provider's API, its authorization server, and what they remember. They are slow, cut connections, and answer
 * 500, 429 and garbage, before or after a request has had its effect. Their account is what the tables are compared with.
 */
import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Received } from '../inbox-calls.ts'
import type { StreamName } from './world.ts'
import { STREAMS, TOKEN_SECONDS } from './world.ts'

/** Of a hundred requests in fair weather and in foul; the rest is answered as it should be. */
const TROUBLES = {
  slow: { fair: 4, foul: 10 },
  'cut before': { fair: 1, foul: 15 },
  'cut after': { fair: 1, foul: 10 },
  '500 before': { fair: 2, foul: 20 },
  '500 after': { fair: 1, foul: 10 },
  '429': { fair: 2, foul: 5 },
  garbage: { fair: 1, foul: 10 },
} as const
export type Trouble = keyof typeof TROUBLES
const SLOW_MS = { least: 300, most: 3_000 }
const PAGE = 50
/** Longer than a process may stand still: an idle connection is not to end under its next call. */
const KEEP_ALIVE_MS = 300_000

/** A key's write, as the provider sees it. */
export interface Written {
  readonly answer: string
  effects: number
}

/** An authorization server's account of one integration's tokens, which are numbered. */
export interface Grants {
  /** The last one that was given out. */
  given: number
  /** The last one that came back. It and all after it are good: an answer may have been lost. */
  used: number
  /** Access tokens up to this one were withdrawn. */
  withdrawn: number
  readonly expiresAtMs: Map<number, number>
  underWay: number
  mostUnderWay: number
  refreshes: number
  /** Refresh tokens that came back after a later one had: their sender has lost the later ones. */
  readonly refused: string[]
}

export interface Outside {
  readonly url: string
  readonly received: Map<string, Received>
  /** When each call arrived that counts for the shop's budget, by a clock that never jumps. */
  readonly callsAtMs: number[]
  readonly writes: Map<string, Written>
  readonly grants: Map<number, Grants>
  /** How many requests met which trouble. */
  readonly troubles: Map<Trouble | 'none', number>
  weather: 'good' | 'fair' | 'foul'
  /** Entries of a stream so far. */
  published(stream: StreamName): number
  /** No entry comes any more. */
  endLists(): void
  grant(integrationId: number): { access_token: string; refresh_token: string; token_expires_at: string }
  stop(): Promise<void>
}

export async function startOutside(random: () => number): Promise<Outside> {
  const startedAtMs = performance.now()
  let listsEndedAtMs: number | null = null

  const server = createServer((request, response) => {
    serve(request, response).catch(() => response.destroy())
  })
  server.keepAliveTimeout = KEEP_ALIVE_MS
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))

  const outside: Outside = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received: new Map(),
    callsAtMs: [],
    writes: new Map(),
    grants: new Map(),
    troubles: new Map(),
    weather: 'good',
    published(stream) {
      const minutes = ((listsEndedAtMs ?? performance.now()) - startedAtMs) / 60_000
      return Math.floor(STREAMS[stream].perMinute * minutes)
    },
    endLists() {
      listsEndedAtMs ??= performance.now()
    },
    grant(integrationId) {
      const grants = outside.grants.get(integrationId) ?? {
        given: 0,
        used: 0,
        withdrawn: 0,
        expiresAtMs: new Map(),
        underWay: 0,
        mostUnderWay: 0,
        refreshes: 0,
        refused: [],
      }
      outside.grants.set(integrationId, grants)
      grants.given += 1
      const endsAtMs = Date.now() + TOKEN_SECONDS * 1_000
      grants.expiresAtMs.set(grants.given, endsAtMs)
      return {
        access_token: `access-${integrationId}-${grants.given}`,
        refresh_token: `refresh-${integrationId}-${grants.given}`,
        token_expires_at: new Date(endsAtMs).toISOString(),
      }
    },
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }

  function drawTrouble(): Trouble | null {
    const { weather } = outside
    if (weather === 'good') return null
    let left = random() * 100
    for (const [trouble, shares] of Object.entries(TROUBLES)) {
      left -= shares[weather]
      if (left < 0) return trouble as Trouble
    }
    return null
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const trouble = drawTrouble()
    outside.troubles.set(trouble ?? 'none', (outside.troubles.get(trouble ?? 'none') ?? 0) + 1)
    const { pathname, searchParams } = new URL(request.url ?? '', outside.url)
    const [, door = '', first = '', second = ''] = pathname.split('/')
    const isAnswered = trouble === null || trouble === 'slow'
    if (door === 'calls') noteCall(first, searchParams.get('member') ?? '', isAnswered)
    if (door === 'token') holdGrants(Number(first), response)
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    if (trouble === 'slow') await sleep(SLOW_MS.least + random() * (SLOW_MS.most - SLOW_MS.least))
    if (trouble === 'cut before') return void response.destroy()
    if (trouble === '500 before') return answer(response, 500, { error: 'out of order' })
    if (trouble === '429') return answer(response, 429, { error: 'too many' }, { 'retry-after': '1' })
    const { status, body } = effect(door, first, second, {
      searchParams,
      text: Buffer.concat(chunks).toString(),
      token: request.headers.authorization ?? '',
    })
    if (trouble === 'cut after') response.destroy()
    else if (trouble === '500 after') answer(response, 500, { error: 'out of order' })
    else if (trouble === 'garbage') response.writeHead(200, { 'content-type': 'application/json' }).end('<html>{')
    else answer(response, status, body)
  }

  function noteCall(id: string, member: string, isAnswered: boolean): void {
    outside.callsAtMs.push(performance.timeOrigin + performance.now())
    const own = { member, atMs: Date.now(), answer: isAnswered ? `answer to ${id}` : null, times: 0 }
    const call = outside.received.get(id) ?? own
    outside.received.set(id, call)
    call.times += 1
  }

  function holdGrants(integrationId: number, response: ServerResponse): void {
    const grants = outside.grants.get(integrationId)
    if (grants === undefined) return
    grants.underWay += 1
    grants.mostUnderWay = Math.max(grants.mostUnderWay, grants.underWay)
    response.once('close', () => {
      grants.underWay -= 1
    })
  }

  interface Asked {
    readonly searchParams: URLSearchParams
    readonly text: string
    readonly token: string
  }

  function effect(door: string, first: string, second: string, asked: Asked): { status: number; body: unknown } {
    switch (door) {
      case 'calls':
        return { status: 200, body: { answer: `answer to ${first}` } }
      case 'writes': {
        const written = outside.writes.get(first) ?? { answer: randomUUID(), effects: 0 }
        outside.writes.set(first, written)
        written.effects += 1
        return { status: 200, body: { answer: written.answer } }
      }
      case 'token':
        return refresh(Number(first), new URLSearchParams(asked.text).get('refresh_token') ?? '')
      case 'me':
        return { status: isGood(Number(first), asked.token) ? 200 : 401, body: { id: first } }
      case 'list': {
        const after = Number(asked.searchParams.get('after'))
        const last = Math.min(outside.published(second as StreamName), after + PAGE)
        const items = Array.from({ length: Math.max(0, last - after) }, (_, index) => after + index + 1)
        return { status: 200, body: { items, has_more: items.length === PAGE } }
      }
      default:
        return { status: 404, body: { error: 'no such page' } }
    }
  }

  function refresh(integrationId: number, token: string): { status: number; body: unknown } {
    const grants = outside.grants.get(integrationId)
    const sent = Number(/^refresh-\d+-(\d+)$/.exec(token)?.[1])
    if (grants === undefined || !(sent >= grants.used && sent <= grants.given)) {
      grants?.refused.push(token)
      return { status: 400, body: { error: 'invalid_grant' } }
    }
    grants.used = sent
    grants.refreshes += 1
    return { status: 200, body: outside.grant(integrationId) }
  }

  function isGood(integrationId: number, authorization: string): boolean {
    const grants = outside.grants.get(integrationId)
    const sent = Number(/^Bearer access-\d+-(\d+)$/.exec(authorization)?.[1])
    const endsAtMs = grants?.expiresAtMs.get(sent)
    return grants !== undefined && endsAtMs !== undefined && endsAtMs > Date.now() && sent > grants.withdrawn
  }
  return outside
}

function answer(
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))
}
