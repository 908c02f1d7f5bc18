/** One line on the page after a change: what became of it. A cookie, which no other site can set, shown once. */
import type { Context } from 'hono'
import type { Integrations } from '../../../create-integrations.ts'
import type { Cookie } from '../../caller.ts'
import { clearCookie, readCookie, writeCookie } from '../../caller.ts'

const NOTICE: Cookie = { name: 'notice', sameSite: 'Strict' }
const MAX_CHARACTERS = 500
const SHOWN_FOR_MS = 60_000

export function leaveNotice(integrations: Integrations, context: Context, text: string): void {
  const value = Buffer.from(text.slice(0, MAX_CHARACTERS)).toString('base64url')
  writeCookie(integrations, context, NOTICE, { value, expiresAt: new Date(Date.now() + SHOWN_FOR_MS) })
}

export function takeNotice(integrations: Integrations, context: Context): string | null {
  const value = readCookie(integrations, context, NOTICE)
  if (value === undefined) return null
  clearNotice(integrations, context)
  return Buffer.from(value, 'base64url').toString()
}

export const clearNotice = (integrations: Integrations, context: Context): void =>
  clearCookie(integrations, context, NOTICE)
