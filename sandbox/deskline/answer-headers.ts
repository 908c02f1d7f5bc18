import { randomUUID } from 'node:crypto'
import type { MiddlewareHandler } from 'hono'
import { isCut } from './ordered-faults.ts'
import type { DesklineEnv, DesklineState } from './state.ts'

/** Headers of every answer, also of one that a fault gives, whose own headers stay. */
export function answerHeaders(state: DesklineState): MiddlewareHandler<DesklineEnv> {
  return async (c, next) => {
    await next()
    const fault = c.get('fault')
    if (isCut(fault)) return
    const headers = { 'x-request-id': `req_${randomUUID()}`, ...state.quota.headers(), ...fault?.headers }
    for (const [name, value] of Object.entries(headers)) c.res.headers.set(name, value)
  }
}
