import type { MiddlewareHandler } from 'hono'
import { isCut } from './ordered-faults.ts'
import type { DesklineEnv, DesklineState } from './state.ts'

/** Outermost of what callers reach: each request leaves a line, also one that a fault answered or cut. */
export function logRequests(state: DesklineState): MiddlewareHandler<DesklineEnv> {
  return async (c, next) => {
    await next()
    const url = new URL(c.req.url)
    const fault = c.get('fault')
    state.requests.push({
      method: c.req.method,
      path: url.pathname,
      query: Object.fromEntries(url.searchParams),
      status: isCut(fault) ? null : c.res.status,
      faulted: fault !== null,
    })
  }
}
