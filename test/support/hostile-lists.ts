/** A provider's lists over HTTP, of six kinds, that misbehave as a test says. */
import type { ServerResponse } from 'node:http'
import type { HttpServer } from './http-server.ts'
import { startHttpServer } from './http-server.ts'

export interface Row {
  readonly id: number
  readonly updated_at: string
}

export type Kind = 'cursor' | 'link' | 'page' | 'offset' | 'ids' | 'times' | 'windows'
/** `ids` and `times` are the two of a keyset: the rows behind a key of its own, and the rows from a shared one on. */
export const KINDS: readonly Kind[] = ['cursor', 'link', 'page', 'offset', 'ids', 'times', 'windows']

/** The most rows of an answer. */
export const LIMIT = 10

interface Answer {
  readonly rows: readonly Row[]
  readonly next: string | null
  readonly pages: number
  readonly more: boolean
}

/** What happens to one request. What is not said is as it should be. */
export interface Fault {
  /** Changes the data before the answer is made. */
  readonly change?: (rows: Row[]) => Row[]
  /** Changes the answer. */
  readonly answer?: (answer: Answer, earlier: readonly Answer[]) => Partial<Answer>
  /** Sent in place of the answer. */
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  readonly text?: string
  /** The connection is cut in the middle of the body. */
  readonly isCut?: boolean
  /** Nothing is answered; called once the request is there. */
  readonly hang?: () => void
  /** The answer waits until it is let go. */
  readonly hold?: (letGo: () => void) => void
}

export type Script = (request: number) => Fault | undefined

export interface HostileLists extends HttpServer {
  rows: Row[]
  script: Script
}

export async function startHostileLists(): Promise<HostileLists> {
  const http = await startHttpServer()
  const lists: HostileLists = Object.assign(http, { rows: [], script: () => undefined })
  const earlier: Answer[] = []
  http.answer = (request, response) => {
    if (http.received.length === 1) earlier.length = 0
    const {
      change = (rows: Row[]) => rows,
      answer: alter = () => ({}),
      hang,
      ...fault
    } = lists.script(http.received.length) ?? {}
    lists.rows = change(lists.rows)
    if (hang !== undefined) return void hang()
    if (fault.status !== undefined || fault.text !== undefined)
      return void response.writeHead(fault.status ?? 200, fault.headers).end(fault.text ?? '')
    const url = new URL(request.url ?? '', lists.url)
    const honest = answerOf(lists.rows, url)
    const answer = { ...honest, ...alter(honest, earlier) }
    earlier.push(honest)
    const { hold = (letGo: () => void) => letGo() } = fault
    hold(() => send(response, url, answer, fault))
  }
  return lists
}

function send(response: ServerResponse, url: URL, { rows, next, pages, more }: Answer, fault: Fault): void {
  const isLink = url.pathname === '/link'
  const body = JSON.stringify({ rows, pages, more, meta: { next: isLink ? null : next } })
  const link = isLink && next !== null ? { link: `<${next}>; rel="next"` } : {}
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body), ...link })
  if (fault.isCut !== true) return void response.end(body)
  response.write(body.slice(0, body.length / 2), () => response.socket?.resetAndDestroy())
}

/** As an honest server answers. */
export function answerOf(rows: readonly Row[], { pathname, searchParams, origin }: URL): Answer {
  const asked = (name: string): number => Number(searchParams.get(name) ?? 0)
  const byId = [...rows].sort((a, b) => a.id - b.id)
  const byTime = [...byId].sort((a, b) => Date.parse(a.updated_at) - Date.parse(b.updated_at))
  const pages = Math.ceil(rows.length / LIMIT)
  const behind = (after: number): Answer => {
    const left = byId.filter(({ id }) => id > after)
    const page = left.slice(0, LIMIT)
    const next = left.length > LIMIT ? `${page.at(-1)?.id}` : null
    return { rows: page, next, pages, more: next !== null }
  }
  const some = (page: Row[]): Answer => ({ rows: page.slice(0, LIMIT), next: null, pages, more: false })
  switch (pathname.slice(1) as Kind) {
    case 'cursor':
    case 'ids':
      return behind(asked('after'))
    case 'link': {
      const answer = behind(asked('after'))
      return { ...answer, next: answer.next === null ? null : `${origin}/link?after=${answer.next}` }
    }
    case 'page':
      return { ...some(byId.slice((asked('page') - 1) * LIMIT)), more: asked('page') < pages }
    case 'offset':
      return some(byId.slice(asked('offset')))
    case 'times':
      return some(byTime.filter((row) => Date.parse(row.updated_at) >= asked('from')))
    case 'windows':
      return some(
        byTime.filter((row) => {
          const at = Date.parse(row.updated_at)
          return at >= asked('from') && at < asked('to')
        }),
      )
  }
}
