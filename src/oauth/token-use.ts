/**
 * Which token an attempt of a call has used: the one that `getAccessToken()` gave it last, else the one that its handle knew when
 * it began. By it a token that was refused is told from one that another call has brought meanwhile.
 *
 * Rule: docs/behaviour/oauth.md, "A refused token".
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import type { TokenHolder } from '../framework/context.ts'

interface Attempt {
  readonly holder: TokenHolder
  /** Undefined: nobody asked. Null: there was none to be had. */
  given: string | null | undefined
}

const current = new AsyncLocalStorage<Attempt>()

/** @returns what the attempt came to, and the token that it used; null: none */
export async function observeTokenUse<T>(
  holder: TokenHolder,
  known: string | null,
  attempt: () => Promise<T>,
): Promise<{ readonly result: T; readonly used: string | null }> {
  const own: Attempt = { holder, given: undefined }
  const result = await current.run(own, attempt)
  return { result, used: own.given === undefined ? known : own.given }
}

/** @param token null: it could not be given */
export function noteTokenUse({ integration }: TokenHolder, token: string | null): void {
  const attempt = current.getStore()
  if (attempt?.holder.integration.id === integration.id) attempt.given = token
}
