/**
 * Whether code runs as part of getting, refreshing or revoking an integration's tokens. In there its handles give the token
 * that is there, and a 401 is an answer like any other: the token endpoint itself may give one, and what would wait for the
 * refresh would wait for itself. Rule: docs/behaviour/oauth.md, "Refresh".
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { integrationKey } from '../cache/integration-keys.ts'
import { withLock } from '../cache/lock.ts'
import type { Database } from '../db/client.ts'
import type { Framework } from '../framework/context.ts'
import { isIntegrationsError } from '../framework/errors.ts'

interface TokenWork {
  /** Of the same database: a process may serve two. */
  readonly db: Database
  readonly integrationId: number
  readonly around: TokenWork | undefined
  /** Whether it is the adapter's own, and not that of who is told of it. */
  readonly isAdapters: boolean
  /** What was left behind and goes on, such as a timer of the provider's, is outside again. */
  isOver: boolean
}

const current = new AsyncLocalStorage<TokenWork>()

/** Runs `exchangeCode()`, `refreshToken()`, `revokeToken()`; and, `isAdapters` false, who is told of what they changed. */
export async function insideTokenWork<T>(
  { db }: Framework,
  integrationId: number,
  work: () => T | Promise<T>,
  { isAdapters = true }: { readonly isAdapters?: boolean } = {},
): Promise<T> {
  const own: TokenWork = { db, integrationId, around: current.getStore(), isAdapters, isOver: false }
  try {
    return await current.run(own, work)
  } finally {
    own.isOver = true
  }
}

/** Does the work while nobody else refreshes or revokes this integration's tokens. @throws LockTimeoutException */
export function withTokenLock<T>(framework: Framework, integrationId: number, work: () => Promise<T>): Promise<T> {
  const { refresh_lock_ttl: ttlSeconds, refresh_lock_wait: waitSeconds } = framework.config.oauth
  const lock = integrationKey(integrationId, 'lock:tokens')
  return withLock(framework.cache, lock, { ttlSeconds, waitSeconds }, () =>
    insideTokenWork(framework, integrationId, work),
  )
}

/**
 * Writes what is known of tokens that were just stored, after a refresh of older ones that is under way and would leave its
 * own verdict behind. Who waits in vain writes all the same; inside the work itself there is nothing to wait for.
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

/** Whether it is the adapter that works, and not a listener who was told. */
export function isInsideAdaptersTokenWork(framework: Framework, integrationId: number): boolean {
  return innermostWork(framework, integrationId)?.isAdapters === true
}

function innermostWork({ db }: Framework, integrationId: number): TokenWork | null {
  for (let work = current.getStore(); work !== undefined; work = work.around)
    if (!work.isOver && work.db === db && work.integrationId === integrationId) return work
  return null
}
