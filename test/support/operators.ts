/** Operators of a test: one that may read, one that may operate, and what their browsers send. */
import { createHash } from 'node:crypto'
import type { Integrations } from '../../src/create-integrations.ts'

export const READ_TOKEN = 'read-token-of-the-tests-000000000000000000000'
export const OPERATE_TOKEN = 'operate-token-of-the-tests-000000000000000000'
export const WRONG_TOKEN = 'wrong-token-of-the-tests-00000000000000000000'
export const BASE_URL = 'https://api.example.com'
/** With a base URL of https. */
export const COOKIE = '__Host-integrations_operator'

export const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')

export const TOKENS = [
  { name: 'reader', sha256: sha256(READ_TOKEN), scopes: ['read'] },
  { name: 'operator', sha256: sha256(OPERATE_TOKEN), scopes: ['operate'] },
] as const

export interface SignedIn {
  readonly cookie: string
  readonly csrfToken: string
}

export async function signIn({ admin: { access } }: Integrations, token: string): Promise<SignedIn> {
  const session = await access.signIn(token)
  if (session === null) throw new Error('expected the token to be known')
  return { cookie: `${COOKIE}=${session.id}`, csrfToken: session.csrfToken }
}

/** What @hono/node-server hands over with a request. */
export const from = (remoteAddress: string) => ({ incoming: { socket: { remoteAddress } } })
