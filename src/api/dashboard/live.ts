/**
 * `GET /live?page=<path below the root>`: that page again and again, as server-sent events, while somebody looks at it.
 * Rule: docs/behaviour/dashboard.md, "Live".
 *
 * The page is asked for as its reader would ask, with the same cookie: what ends a session ends the stream.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Context } from 'hono'
import { Hono } from 'hono'
import { streamSSE } from 'hono/streaming'
import type { Integrations } from '../../create-integrations.ts'
import { queryGiven } from '../body.ts'
import type { AccessEnvironment } from '../caller.ts'
import { ProblemError } from '../problem.ts'

export interface LiveOptions {
  /** Answers a request for a page in this process. */
  readonly render: (request: Request, env: unknown) => Response | Promise<Response>
  /** Aborted when the process stops. */
  readonly stopping: AbortSignal
  /** Between the end of one look and the next. */
  readonly everyMs?: number
  /** The browser asks again after it, and shows that it is still allowed to. */
  readonly longestMs?: number
}

const EVERY_MS = 2_000
const LONGEST_MS = 600_000
/** A stream that has nothing to say says so: a client that has gone is noticed then. */
const QUIET_MS = 15_000
/** Of a process: each is a page rendered every two seconds. */
const MOST_STREAMS = 100
/** Of a session, whose hidden tabs have none. */
const MOST_OF_A_SESSION = 6
const TRY_AGAIN_SECONDS = 15

export function liveRoutes(
  integrations: Integrations,
  { render, stopping, everyMs = EVERY_MS, longestMs = LONGEST_MS }: LiveOptions,
): Hono<AccessEnvironment> {
  const routes = new Hono<AccessEnvironment>()
  const open = new Map<string, number>()
  let streams = 0
  routes.get('/live', (context) => {
    const request = pageRequest(integrations, context)
    const { session, principal } = context.var.caller
    const viewer = session?.id ?? principal.name
    const ofViewer = open.get(viewer) ?? 0
    if (streams >= MOST_STREAMS || ofViewer >= MOST_OF_A_SESSION || stopping.aborted)
      return context.body(null, 503, { 'Retry-After': String(TRY_AGAIN_SECONDS) })
    streams += 1
    open.set(viewer, ofViewer + 1)
    // A proxy that gathers answers would hold back each event.
    context.header('X-Accel-Buffering', 'no')
    return streamSSE(context, async (stream) => {
      const gone = new AbortController()
      stream.onAbort(() => gone.abort())
      const signal = AbortSignal.any([gone.signal, stopping, AbortSignal.timeout(longestMs)])
      try {
        await follow({ look: () => render(request(), context.env), stream, signal, everyMs })
      } finally {
        streams -= 1
        const left = (open.get(viewer) ?? 1) - 1
        if (left === 0) open.delete(viewer)
        else open.set(viewer, left)
      }
    })
  })
  return routes
}

interface Followed {
  readonly look: () => Response | Promise<Response>
  readonly stream: Parameters<Parameters<typeof streamSSE>[1]>[0]
  readonly signal: AbortSignal
  readonly everyMs: number
}

/** One look after the other: a slow reader is waited for, and nothing is rendered meanwhile. */
async function follow({ look, stream, signal, everyMs }: Followed): Promise<void> {
  let shown = ''
  let saidAt = performance.now()
  while (!signal.aborted) {
    const answer = await look()
    // Such as a database that is away for a second: no event, so that the browser asks again by itself.
    if (answer.status >= 500) {
      await stream.write(`retry: ${TRY_AGAIN_SECONDS * 1_000}\n\n`)
      return
    }
    const main = answer.status === 200 ? mainOf(await answer.text()) : null
    if (main === null) return stream.writeSSE({ event: 'end', data: String(answer.status) })
    const content = comparable(main)
    if (content !== shown) {
      await stream.writeSSE({ event: 'main', data: main, retry: everyMs })
      shown = content
      saidAt = performance.now()
    } else if (performance.now() - saidAt > QUIET_MS) {
      await stream.write(': still so\n\n')
      saidAt = performance.now()
    }
    // What it shows will not change any more.
    if (!/^<main[^>]* data-live/.test(main)) return stream.writeSSE({ event: 'end', data: 'done' })
    await sleep(everyMs, undefined, { signal }).catch(() => {})
  }
}

function mainOf(page: string): string | null {
  const from = page.indexOf('<main id="main"')
  const to = page.lastIndexOf('</main>')
  return from < 0 || to < 0 ? null : page.slice(from, to + '</main>'.length)
}

/** Without ages, which the reader's script counts on by itself, and without the ids of forms, new in each rendering. */
const comparable = (main: string): string =>
  main.replaceAll(/<span class="quiet ago">[^<]*<\/span>|<input type="hidden" name="form_id" value="[^"]*">/g, '')

/** @returns a function that makes the request again @throws ProblemError 404 if the path is not a page's */
function pageRequest({ config }: Integrations, context: Context): () => Request {
  const { page = '' } = queryGiven(context)
  const root = `/${config.operator.prefix}`
  const { origin } = new URL(context.req.url)
  const url = URL.canParse(`${root}${page}`, origin) ? new URL(`${root}${page}`, origin) : null
  const isOurs = url !== null && url.origin === origin && (url.pathname === root || url.pathname.startsWith(`${root}/`))
  const [first = ''] = url?.pathname.slice(root.length + 1).split('/') ?? []
  if (!isOurs || NO_PAGES.has(first))
    throw new ProblemError({ code: 'no_such_route', detail: 'page: the path of a page, with its query, is allowed.' })
  const headers = new Headers({ accept: 'text/html' })
  for (const name of ['cookie', 'authorization']) {
    const value = context.req.header(name)
    if (value !== undefined) headers.set(name, value)
  }
  return () => new Request(url, { headers })
}

const NO_PAGES: ReadonlySet<string> = new Set(['api', 'assets', 'do', 'live', 'login', 'logout'])
