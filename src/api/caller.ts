/** Finds out who calls. Rule: docs/behaviour/access.md. */
import type { Context } from 'hono'
import type { Principal } from '../core/access.ts'
import { isFromThisMachine, isSameOrigin, originOf, parseAuthorization } from '../core/access.ts'
import type { Integrations } from '../integrations.ts'
import type { Session } from './session-cookie.ts'
import { readSessionCookie } from './session-cookie.ts'

export interface Caller {
  readonly principal: Principal
  /** Null for a token and for `dev`, which have no forms to protect. */
  readonly session: Session | null
}

/** What our middleware leaves for the handlers behind it. */
export interface AccessEnvironment {
  Variables: { caller: Caller }
}

/**
 * A token, a session, or (in `dev`) somebody at this machine; null when it is nobody we know. A wrong token is nobody's, whatever
 * else comes with it.
 */
export async function callerOf(integrations: Integrations, context: Context): Promise<Caller | null> {
  const { access } = integrations
  const authorization = parseAuthorization(context.req.header('authorization'))
  if (authorization.kind === 'malformed') return null
  if (authorization.kind === 'bearer') {
    const principal = await access.byToken(authorization.token)
    return principal === null ? null : { principal, session: null }
  }
  const cookie = readSessionCookie(integrations, context)
  const session = cookie === undefined ? null : await access.bySession(cookie)
  if (session !== null) return { principal: session.principal, session }
  if (access.dev && isLocal(context))
    return { principal: { name: 'dev', scopes: ['operate'], via: 'dev' }, session: null }
  return null
}

/** Whether one of our own pages sent it, or no browser. */
export function isFromOwnPage({ access }: Integrations, context: Context): boolean {
  const header = (name: string): string | null => context.req.header(name) ?? null
  return isSameOrigin({
    origin: header('origin'),
    secFetchSite: header('sec-fetch-site'),
    // Without a base URL only the Host could tell our origin, and that is the caller's word: good enough in `dev` alone.
    ownOrigin: originOf(access.baseUrl) ?? (access.dev ? originOf(context.req.url) : null),
    hasBearer: parseAuthorization(header('authorization')).kind === 'bearer',
    hasCookie: header('cookie') !== null,
  })
}

function isLocal({ env, req }: Context): boolean {
  // As @hono/node-server gives it; behind another server the peer is unknown, and nobody counts as local.
  const node = env as { incoming?: { socket?: { remoteAddress?: string } } } | undefined
  return isFromThisMachine({
    peer: node?.incoming?.socket?.remoteAddress,
    host: req.header('host'),
    headerNames: req.raw.headers.keys(),
  })
}
