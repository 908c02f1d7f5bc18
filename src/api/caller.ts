/** Finds out who calls. Rule: docs/behaviour/access.md. */
import type { Context } from 'hono'
import type { Principal } from '../access/rules.ts'
import { isSameOrigin, originOf, parseAuthorization } from '../access/rules.ts'
import type { Integrations } from '../create-integrations.ts'
import type { Session } from './session-cookie.ts'
import { readSessionCookie } from './session-cookie.ts'

export interface Caller {
  readonly principal: Principal
  /** Null for a token, which has no forms to protect. */
  readonly session: Session | null
}

/** What our middleware leaves for the handlers behind it. */
export interface AccessEnvironment {
  Variables: { caller: Caller }
}

/** A token or a session; null when the caller is unknown. A wrong token is an unknown caller, whatever else comes with it. */
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
  return session === null ? null : { principal: session.principal, session }
}

/** Whether one of our own pages sent it, or no browser. */
export function isFromOwnPage({ access }: Integrations, context: Context): boolean {
  const header = (name: string): string | null => context.req.header(name) ?? null
  return isSameOrigin({
    origin: header('origin'),
    secFetchSite: header('sec-fetch-site'),
    // Without a base URL only the Host could tell our origin, and that is the caller's word: good enough in `dev` alone. A page
    // whose name was re-pointed to this machine has the Host of its own, and so neither cookie nor token.
    ownOrigin: originOf(access.baseUrl) ?? (access.dev ? originOf(context.req.url) : null),
    hasBearer: parseAuthorization(header('authorization')).kind === 'bearer',
    hasCookie: header('cookie') !== null,
  })
}
