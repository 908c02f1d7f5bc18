/** Identifies the caller by its token or its session's cookie. Rule: docs/behaviour/access.md. */
import type { Context } from 'hono'
import { deleteCookie, getCookie, setCookie } from 'hono/cookie'
import type { Principal } from '../access/rules.ts'
import { isHttps, isSameOrigin, originOf, parseAuthorization } from '../access/rules.ts'
import type { Integrations } from '../create-integrations.ts'

type Session = NonNullable<Awaited<ReturnType<Integrations['admin']['access']['bySession']>>>

export interface Caller {
  readonly principal: Principal
  /** Null for a token, which has no forms to protect. */
  readonly session: Session | null
}

/** Set by our middleware for the handlers behind it. */
export interface AccessEnvironment {
  Variables: { caller: Caller }
}

/** Null: the caller is unknown. A wrong token makes it unknown, even beside a valid session. */
export async function callerOf(integrations: Integrations, context: Context): Promise<Caller | null> {
  const { access } = integrations.admin
  const authorization = parseAuthorization(context.req.header('authorization'))
  if (authorization.kind === 'malformed') return null
  if (authorization.kind === 'bearer') {
    const principal = await access.byToken(authorization.token)
    return principal === null ? null : { principal, session: null }
  }
  const cookie = readCookie(integrations, context, SESSION)
  const session = cookie === undefined ? null : await access.bySession(cookie)
  return session === null ? null : { principal: session.principal, session }
}

/** IP address of the connection, for the audit: behind a proxy the proxy's, since any caller can write a header. */
export function addressOf(context: Context): string | undefined {
  const env: { incoming?: { socket?: { remoteAddress?: string } } } | undefined = context.env
  return env?.incoming?.socket?.remoteAddress
}

/** Never from the Host header, which the caller writes. In `dev` the caller has signed in at this very address. */
export function baseUrlOf({ admin: { access } }: Integrations, { req }: Context): string | null {
  return access.baseUrl ?? (access.dev ? new URL(req.url).origin : null)
}

/** Whether one of our own pages sent the request, or a client that is not a browser. */
export function isFromOwnPage({ admin: { access } }: Integrations, context: Context): boolean {
  const header = (name: string): string | null => context.req.header(name) ?? null
  const origin = header('origin')
  return isSameOrigin({
    origin,
    secFetchSite: header('sec-fetch-site'),
    // Without a base URL only the Host header could tell our origin. The caller writes it, so only `dev` trusts it. A page whose
    // name was re-pointed to this machine has another Host, and so neither cookie nor token.
    ownOrigin: originOf(access.baseUrl) ?? (access.dev ? requestOrigin(context.req.url, origin) : null),
    hasBearer: parseAuthorization(header('authorization')).kind === 'bearer',
    hasCookie: header('cookie') !== null,
  })
}

/**
 * The origin that a request was sent to. A tunnel that ends TLS hides the scheme of the page from us, so only hosts are compared. That is
 * safe: without a base URL the cookie is not `Secure`, so a page of this host under the other scheme has it anyway.
 */
function requestOrigin(url: string, origin: string | null): string {
  const { host, origin: own } = new URL(url)
  return origin === `https://${host}` ? origin : own
}

/** `__Host-`: the browser refuses the cookie without Secure, with a Domain, or from another path (RFC 6265bis, 4.1.3.2). */
export interface Cookie {
  /** After `cache_prefix`. */
  readonly name: 'operator' | 'sign_in' | 'notice' | 'disconnected'
  /** `Strict`: our own pages alone send it. `Lax`: also the page of another site that leads back to us. */
  readonly sameSite: 'Strict' | 'Lax'
}
const SESSION: Cookie = { name: 'operator', sameSite: 'Strict' }

function cookieOf({ config, admin: { access } }: Integrations, { name, sameSite }: Cookie) {
  const secure = isHttps(access.baseUrl)
  const attributes = { path: '/', httpOnly: true, sameSite, secure, ...(secure ? { prefix: 'host' as const } : {}) }
  return { name: `${config.cache_prefix}_${name}`, attributes }
}

export function readCookie(integrations: Integrations, context: Context, cookie: Cookie): string | undefined {
  const { name, attributes } = cookieOf(integrations, cookie)
  return attributes.prefix === undefined ? getCookie(context, name) : getCookie(context, name, attributes.prefix)
}

export function writeCookie(
  integrations: Integrations,
  context: Context,
  cookie: Cookie,
  { value, expiresAt: expires }: { readonly value: string; readonly expiresAt: Date },
): void {
  const { name, attributes } = cookieOf(integrations, cookie)
  setCookie(context, name, value, { ...attributes, expires })
}

export function clearCookie(integrations: Integrations, context: Context, cookie: Cookie): void {
  const { name, attributes } = cookieOf(integrations, cookie)
  deleteCookie(context, name, attributes)
}

export const writeSessionCookie = (integrations: Integrations, context: Context, { id: value, expiresAt }: Session) =>
  writeCookie(integrations, context, SESSION, { value, expiresAt })

export const clearSessionCookie = (integrations: Integrations, context: Context) =>
  clearCookie(integrations, context, SESSION)
