import { setTimeout as sleep } from 'node:timers/promises'
import type { HttpBindings } from '@hono/node-server'
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import type { Context, MiddlewareHandler } from 'hono'
import type { Fault } from '../faults.ts'
import { DesklineFailure } from './failures.ts'
import type { DesklineEnv, DesklineState } from './state.ts'

/** The fault that was ordered for a request: a wait, an answer in the place of the real one, a cut connection. */
export function orderedFaults(state: DesklineState): MiddlewareHandler<DesklineEnv> {
  return async (c, next) => {
    const { pathname, search } = new URL(c.req.url)
    const fault = state.faults.strike(c.req.method, [pathname], search)
    c.set('fault', fault)
    if (fault === null) {
      await next()
      return
    }
    if (fault.delayMs > 0) await sleep(fault.delayMs)
    if (fault.status !== undefined) c.res = faulty(fault)
    else if (fault.drop !== true) await next()
    if (isCut(fault)) c.res = cut(c)
  }
}

export function isCut(fault: Fault | null): boolean {
  return fault !== null && fault.drop !== false
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
