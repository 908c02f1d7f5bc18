/**
 * Whether code runs as part of getting, refreshing or revoking an integration's tokens. There its handles give the token
 * that is stored, and a 401 is an answer like any other: code that waited for the refresh would wait for itself.
 * Rule: docs/behaviour/oauth.md, "Refresh".
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { integrationKey } from '../cache/integration-keys.ts'
import type { Lease } from '../cache/lock.ts'
import { withLock } from '../cache/lock.ts'
import type { Database } from '../db/client.ts'
import type { Framework, TokenHolder } from '../framework/context.ts'
import { isIntegrationsError } from '../framework/errors.ts'

interface TokenWork {
  /** Of the same database: a process may serve two. */
  readonly db: Database
  readonly integrationId: number
  readonly around: TokenWork | undefined
  /** False: a listener of the change. */
  readonly isAdapters: boolean
  /** Code that goes on after the work, such as a timer of the provider's, is outside again. */
  isOver: boolean
}

const currentWork = new AsyncLocalStorage<TokenWork>()

/** Runs `exchangeCode()`, `refreshToken()` or `revokeToken()`; with `isAdapters` false, the listeners of their changes. */
export async function insideTokenWork<T>(
  { db }: Framework,
  integrationId: number,
  work: () => T | Promise<T>,
  { isAdapters = true }: { readonly isAdapters?: boolean } = {},
): Promise<T> {
  const own: TokenWork = { db, integrationId, around: currentWork.getStore(), isAdapters, isOver: false }
  try {
    return await currentWork.run(own, work)
  } finally {
    own.isOver = true
  }
}

/** Does the work while no other caller refreshes or revokes this integration's tokens. @throws LockTimeoutException */
export function withTokenLock<T>(
  framework: Framework,
  integrationId: number,
  work: (lease: Lease) => Promise<T>,
): Promise<T> {
  const { refresh_lock_ttl: ttlSeconds, refresh_lock_wait: waitSeconds } = framework.config.oauth
  const lock = integrationKey(integrationId, 'lock:tokens')
  return withLock(framework.cache, lock, { ttlSeconds, waitSeconds }, (lease) =>
    insideTokenWork(framework, integrationId, () => work(lease)),
  )
}

/**
 * Writes what is known of tokens that were just stored. It waits for a refresh of older ones, which would overwrite it; after
 * the lock's wait it writes all the same. Inside the work itself there is nothing to wait for.
 */
export async function afterTokenWork(
  framework: Framework,
  integrationId: number,
  write: () => Promise<void>,
): Promise<void> {
  if (isInsideTokenWork(framework, integrationId)) return write()
  try {
    await withTokenLock(framework, integrationId, write)
  } catch (error) {
    if (!isIntegrationsError(error, 'lock_timeout')) throw error
    await write()
  }
}

export function isInsideTokenWork(framework: Framework, integrationId: number): boolean {
  return innermostWork(framework, integrationId) !== null
}

/** Whether the adapter works, and not a listener. */
export function isInsideAdaptersTokenWork(framework: Framework, integrationId: number): boolean {
  return innermostWork(framework, integrationId)?.isAdapters === true
}

function innermostWork({ db }: Framework, integrationId: number): TokenWork | null {
  for (let work = currentWork.getStore(); work !== undefined; work = work.around)
    if (!work.isOver && work.db === db && work.integrationId === integrationId) return work
  return null
}

/**
 * Which token an attempt of a call has used: the one that `getAccessToken()` gave it last, else the one that its handle knew
 * when it began. It tells a refused token from one that another call has brought meanwhile.
 * Rule: docs/behaviour/oauth.md, "A refused token".
 */
interface Attempt {
  readonly holder: TokenHolder
  /** Undefined: the attempt did not ask. Null: there was none to give. */
  given: string | null | undefined
}

const currentAttempt = new AsyncLocalStorage<Attempt>()

/** @returns what the attempt came to, and the token that it used; null: none */
export async function observeTokenUse<T>(
  holder: TokenHolder,
  known: string | null,
  attempt: () => Promise<T>,
): Promise<{ readonly result: T; readonly used: string | null }> {
  const own: Attempt = { holder, given: undefined }
  const result = await currentAttempt.run(own, attempt)
  return { result, used: own.given === undefined ? known : own.given }
}

/** @param token null: it could not be given */
export function noteTokenUse({ integration }: TokenHolder, token: string | null): void {
  const attempt = currentAttempt.getStore()
  if (attempt?.holder.integration.id === integration.id) attempt.given = token
}
