/** The cookie that carries a session. Rule: docs/behaviour/access.md, "Sessions". */
import type { Context } from 'hono'
import { deleteCookie, getCookie, setCookie } from 'hono/cookie'
import type { Integrations } from '../create-integrations.ts'

export type Session = NonNullable<Awaited<ReturnType<Integrations['access']['bySession']>>>

/** `__Host-` makes a browser refuse the cookie without Secure, with a Domain, or from another path (RFC 6265bis, 4.1.3.2). */
function cookieOf({ config, access }: Integrations) {
  const name = `${config.cache_prefix}_operator`
  const isHttps = access.baseUrl?.startsWith('https:') ?? false
  return { name, isHttps, prefix: isHttps ? ('host' as const) : undefined }
}

export function readSessionCookie(integrations: Integrations, context: Context): string | undefined {
  const { name, prefix } = cookieOf(integrations)
  return prefix === undefined ? getCookie(context, name) : getCookie(context, name, prefix)
}

export function writeSessionCookie(integrations: Integrations, context: Context, { id, expiresAt }: Session): void {
  const { name, isHttps, prefix } = cookieOf(integrations)
  setCookie(context, name, id, {
    path: '/',
    httpOnly: true,
    sameSite: 'Strict',
    secure: isHttps,
    expires: expiresAt,
    ...(prefix === undefined ? {} : { prefix }),
  })
}

export function clearSessionCookie(integrations: Integrations, context: Context): void {
  const { name, isHttps, prefix } = cookieOf(integrations)
  deleteCookie(context, name, { path: '/', secure: isHttps, ...(prefix === undefined ? {} : { prefix }) })
}
