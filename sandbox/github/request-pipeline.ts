import { createHash, randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { HttpBindings } from '@hono/node-server'
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import type { Context, MiddlewareHandler } from 'hono'
import type { Caller } from './callers.ts'
import type { Dataset } from './dataset.ts'
import { badCredentials, rateLimited } from './failures.ts'
import { recordedHeaders } from './recorded.ts'
import { bodyFormat } from './rendered-body.ts'
import type { SandboxEnv, SandboxState } from './sandbox-state.ts'

/** Outermost: each request leaves a line, also one that a fault answered or cut. */
export function logAndFaults(state: SandboxState): MiddlewareHandler<SandboxEnv> {
  return async (c, next) => {
    const startedAt = performance.now()
    const at = state.now().toISOString()
    const url = new URL(c.req.url)
    const canonicalPath = byName(url.pathname, state.dataset)
    const paths = canonicalPath === url.pathname ? [canonicalPath] : [url.pathname, canonicalPath]
    const fault = state.faults.strike(c.req.method, paths, url.search)
    const requestId = newRequestId()
    c.set('requestId', requestId)
    c.set('fault', fault)

    if (fault !== null && fault.delayMs > 0) await sleep(fault.delayMs)
    if (fault?.drop !== true) await next()
    state.log.add({
      requestId,
      method: c.req.method,
      path: url.pathname,
      canonicalPath,
      query: Object.fromEntries(url.searchParams),
      status: fault === null || fault.drop === false ? c.res.status : null,
      at,
      durationMs: Math.round(performance.now() - startedAt),
      faulted: fault !== null,
    })
    if (fault !== null && fault.drop !== false) c.res = cutConnection(c)
    return c.res
  }
}

/** Headers of every answer: the recorded ones, the request id, the quota of whoever asked. A fault's come last. */
export function githubHeaders(callerOf: (authorization: string | undefined) => Caller): MiddlewareHandler<SandboxEnv> {
  return async (c, next) => {
    const caller = callerOf(c.req.header('authorization'))
    c.set('caller', caller)
    const fault = c.get('fault')
    if (fault?.status !== undefined) c.res = jsonOrText(fault.status, fault.body)
    else await next()

    const headers = new Headers(c.res.headers)
    const format = bodyFormat(c.req.header('accept'))
    const mediaType = format === 'raw' ? 'github.v3; format=json' : `github.v3; param=${format}; format=json`
    const ours = {
      ...recordedHeaders,
      ...caller.quota.headers(),
      'x-github-media-type': mediaType,
      'x-github-api-version-selected': c.req.header('x-github-api-version') ?? '2022-11-28',
      'x-github-request-id': c.get('requestId'),
      ...fault?.headers,
    }
    for (const [name, value] of Object.entries(ours)) headers.set(name, value)
    if (
      /^application\/json\b/.test(headers.get('content-type') ?? '') &&
      fault?.headers['content-type'] === undefined
    ) {
      headers.set('content-type', 'application/json; charset=utf-8')
    }
    const { body, status } = c.res
    c.res = undefined // Hono lets the headers of an earlier answer win over those of a later one.
    c.res = new Response(body, { status, headers })
  }
}

/** An ETag on what was read; the same one in `If-None-Match` is answered 304, which costs no quota. */
export function conditionalRequests(): MiddlewareHandler<SandboxEnv> {
  return async (c, next) => {
    await next()
    if (c.req.method !== 'GET' || c.res.status !== 200) return
    const body = await c.res.text()
    const etag = `W/"${createHash('sha256').update(body).digest('hex')}"`
    const headers = new Headers(c.res.headers)
    headers.set('etag', etag)
    const isKnown = c.req.header('if-none-match') === etag
    if (isKnown) c.get('caller').quota.giveBack()
    c.res = undefined
    c.res = isKnown ? new Response(null, { status: 304, headers }) : new Response(body, { status: 200, headers })
  }
}

/** Lets in whoever shows a token, at the cost of one request. */
export function admission(state: SandboxState): MiddlewareHandler<SandboxEnv> {
  return async (c, next) => {
    const { kind, quota } = c.get('caller')
    if (kind !== 'user' && kind !== 'installation') {
      quota.take()
      throw badCredentials()
    }
    if (!quota.take()) throw rateLimited(state.dataset.viewer.id)
    await next()
  }
}

export function jsonOrText(status: number, body: unknown): Response {
  const isEmpty = status === 204 || status === 304
  if (isEmpty) return new Response(null, { status })
  if (typeof body === 'string') return new Response(body, { status, headers: { 'content-type': 'text/html' } })
  const json = body ?? {
    message: 'Server Error',
    documentation_url: 'https://docs.github.com/rest',
    status: `${status}`,
  }
  return new Response(JSON.stringify(json), { status, headers: { 'content-type': 'application/json; charset=utf-8' } })
}

function cutConnection(c: Context): Response {
  const incoming = (c.env as Partial<HttpBindings> | undefined)?.incoming
  if (incoming === undefined) throw new Error('A fault with drop needs a real connection: use startGithubSandbox()')
  incoming.socket.destroy()
  return RESPONSE_ALREADY_SENT
}

/** `/repositories/{id}/…` as `/repos/{owner}/{repo}/…`. */
function byName(path: string, { owner, repository }: Dataset): string {
  const byId = `/repositories/${repository.id}`
  const isById = path === byId || path.startsWith(`${byId}/`)
  return isById ? `/repos/${owner.login}/${repository.name}${path.slice(byId.length)}` : path
}

/** Five groups of hexadecimal digits, as recorded: `0000:00000:0000000:0000000:00000000`. */
function newRequestId(): string {
  const hex = randomBytes(16).toString('hex').toUpperCase()
  return [hex.slice(0, 4), hex.slice(4, 9), hex.slice(9, 16), hex.slice(16, 23), hex.slice(23, 31)].join(':')
}
