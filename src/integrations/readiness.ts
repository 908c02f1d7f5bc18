/** Whether a process can do its work now. Rule: docs/behaviour/operator-api.md, "Health". */

import { sql } from 'drizzle-orm'
import type { Framework } from '../framework/context.ts'
import { errorLine } from '../framework/logger.ts'
import { lostDatabase } from '../framework/lost-database.ts'
import { withTimeLimit } from '../framework/waiting.ts'

/** `unknown`: a part that it needs has failed, so it was not checked. */
export type PartState = 'ok' | 'failed' | 'unknown'

type OwnPart = 'postgres' | 'migrations' | 'keys'

export interface Readiness {
  readonly isReady: boolean
  /** Without the part that was left out. */
  readonly parts: Readonly<Record<OwnPart, PartState> & { temporal?: PartState }>
}

export interface ReadinessOptions {
  /** Not waited for, and not counted: without Temporal webhooks are stored all the same. */
  readonly exclude?: 'temporal' | undefined
}

export interface ReadinessChecks {
  readonly postgres: () => Promise<unknown>
  readonly migrations: () => Promise<unknown>
  readonly keys: () => Promise<unknown>
}

/** An answer is kept for this long: the route is open to all, and each check costs connections. */
const REMEMBERED_MS = 2_000
const CHECK_SECONDS = 5
/** The look reads the credentials of all integrations: seconds for some ten thousand. A key that fits does so a minute later. */
const KEYS_REMEMBERED_MS = 60_000
/** too_many_connections: Postgres answers, but has no connection left for a check. */
const NO_CONNECTION_LEFT = '53300'

interface Look {
  readonly own: Promise<Record<OwnPart, PartState>>
  readonly temporal: Promise<PartState>
}

export function createReadiness(
  framework: Framework,
  checks: ReadinessChecks,
): (options?: ReadinessOptions) => Promise<Readiness> {
  const { clock, logger } = framework
  let lookedAtMs = Number.NEGATIVE_INFINITY
  let latest: Look | undefined
  const failedBefore = new Set<string>()
  const checkMigrations = unlessFull(checks.migrations)
  const checkKeys = unlessFull(checks.keys)
  let keysFitUntil = Number.NEGATIVE_INFINITY

  async function state(part: string, check: () => Promise<unknown>): Promise<PartState> {
    try {
      await withTimeLimit(CHECK_SECONDS, () => new Error(`no answer within ${CHECK_SECONDS} s`), check)
      failedBefore.delete(part)
      return 'ok'
    } catch (error) {
      if (!failedBefore.has(part))
        logger.warn(
          { event: 'api.not_ready', part, error: errorLine(error, 500) },
          'Not ready: a part does not answer as it should.',
        )
      failedBefore.add(part)
      return 'failed'
    }
  }

  /**
   * Over a connection of its own: a busy pool is not an unreachable server. A full server refuses that one; then the connections that
   * the process holds count, or a crowd of other clients would take all APIs from the load balancer at once.
   */
  async function checkPostgres(): Promise<void> {
    try {
      await checks.postgres()
    } catch (error) {
      if (lostDatabase(error) !== NO_CONNECTION_LEFT) throw error
      await Promise.any([framework.db, framework.arrivalDb].map((db) => db.execute(sql`select 1`))).catch(() => {
        throw error
      })
    }
  }

  async function stateOfKeys(): Promise<PartState> {
    if (performance.now() < keysFitUntil) return 'ok'
    const keys = await state('keys', checkKeys)
    if (keys === 'ok') keysFitUntil = performance.now() + KEYS_REMEMBERED_MS
    return keys
  }

  async function lookAtOwn(): Promise<Record<OwnPart, PartState>> {
    const postgres = await state('postgres', checkPostgres)
    const migrations = postgres === 'ok' ? await state('migrations', checkMigrations) : 'unknown'
    return { postgres, migrations, keys: migrations === 'ok' ? await stateOfKeys() : 'unknown' }
  }

  return async ({ exclude } = {}) => {
    const nowMs = clock.now().getTime()
    const ageMs = nowMs - lookedAtMs
    // A clock that was set back must not keep an old answer alive.
    if (latest === undefined || ageMs < 0 || ageMs >= REMEMBERED_MS) {
      lookedAtMs = nowMs
      latest = { own: lookAtOwn(), temporal: state('temporal', () => framework.temporal.check()) }
    }
    const { own, temporal } = latest
    const parts = { ...(await own), ...(exclude === 'temporal' ? {} : { temporal: await temporal }) }
    return { isReady: Object.values(parts).every((part) => part === 'ok'), parts }
  }
}

/** A check that a full server refuses has its last answer: neither tables nor keys change for that. */
function unlessFull(check: () => Promise<unknown>): () => Promise<void> {
  let wasFine = false
  return async () => {
    try {
      await check()
      wasFine = true
    } catch (error) {
      wasFine &&= lostDatabase(error) === NO_CONNECTION_LEFT
      if (!wasFine) throw error
    }
  }
}
