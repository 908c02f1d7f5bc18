import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { HttpBindings } from '@hono/node-server'
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import type { Context, MiddlewareHandler } from 'hono'
import type { Fault } from '../github/faults.ts'
import { DesklineFailure } from './failures.ts'
import type { DesklineState } from './state.ts'

/** Outermost of what callers reach: headers of every answer, a line in the log, and the faults that were ordered. */
export function logAndFaults(state: DesklineState): MiddlewareHandler {
  return async (c, next) => {
    const url = new URL(c.req.url)
    const fault = state.faults.strike(c.req.method, [url.pathname], url.search)
    if (fault !== null && fault.delayMs > 0) await sleep(fault.delayMs)
    if (fault?.status !== undefined) c.res = faulty(fault)
    else if (fault?.drop !== true) await next()

    const isCut = fault !== null && fault.drop !== false
    state.requests.push({
      method: c.req.method,
      path: url.pathname,
      query: Object.fromEntries(url.searchParams),
      status: isCut ? null : c.res.status,
      faulted: fault !== null,
    })
    if (isCut) c.res = cut(c)
    else {
      const headers = { 'x-request-id': `req_${randomUUID()}`, ...state.quota.headers(), ...fault?.headers }
      for (const [name, value] of Object.entries(headers)) c.res.headers.set(name, value)
    }
    return c.res
  }
}

function faulty({ status = 500, body }: Fault): Response {
  if (typeof body === 'string') return new Response(body, { status, headers: { 'content-type': 'text/html' } })
  if (body !== undefined) return Response.json(body, { status })
  return new DesklineFailure(status, 'ordered', 'An ordered fault.').toResponse()
}

function cut(c: Context): Response {
  const incoming = (c.env as Partial<HttpBindings> | undefined)?.incoming
  if (incoming === undefined) throw new Error('A fault with drop needs a real connection: use startDesklineSandbox()')
  incoming.socket.destroy()
  return RESPONSE_ALREADY_SENT
}
