/** Whether a process can do its work now. Rule: docs/behaviour/operator-api.md, "Health". */

import type { Framework } from '../framework/context.ts'
import { errorLine } from '../framework/logger.ts'
import { withTimeLimit } from '../framework/waiting.ts'

/** `unknown`: a part that it needs has failed, so it was not checked. */
export type PartState = 'ok' | 'failed' | 'unknown'

export interface Readiness {
  readonly isReady: boolean
  readonly parts: Readonly<Record<'postgres' | 'migrations' | 'keys' | 'temporal', PartState>>
}

export interface ReadinessChecks {
  readonly postgres: () => Promise<unknown>
  readonly migrations: () => Promise<unknown>
  readonly keys: () => Promise<unknown>
}

/** An answer is kept for this long: the route is open to all, and each check costs connections. */
const REMEMBERED_MS = 2_000
const CHECK_SECONDS = 5

export function createReadiness(framework: Framework, checks: ReadinessChecks): () => Promise<Readiness> {
  const { clock, logger } = framework
  let lookedAtMs = Number.NEGATIVE_INFINITY
  let latest: Promise<Readiness> | undefined
  let failedBefore = ''

  async function state(part: string, check: () => Promise<unknown>): Promise<PartState> {
    try {
      await withTimeLimit(CHECK_SECONDS, () => new Error(`no answer within ${CHECK_SECONDS} s`), check)
      return 'ok'
    } catch (error) {
      if (!failedBefore.split(' ').includes(part))
        logger.warn(
          { event: 'api.not_ready', part, error: errorLine(error, 500) },
          'Not ready: a part does not answer as it should.',
        )
      return 'failed'
    }
  }

  async function look(): Promise<Readiness> {
    const temporal = state('temporal', () => framework.temporal.check())
    const postgres = await state('postgres', checks.postgres)
    const migrations = postgres === 'ok' ? await state('migrations', checks.migrations) : 'unknown'
    const keys = migrations === 'ok' ? await state('keys', checks.keys) : 'unknown'
    const parts = { postgres, migrations, keys, temporal: await temporal }
    failedBefore = Object.entries(parts)
      .flatMap(([part, value]) => (value === 'ok' ? [] : [part]))
      .join(' ')
    return { isReady: failedBefore === '', parts }
  }

  return () => {
    const nowMs = clock.now().getTime()
    const ageMs = nowMs - lookedAtMs
    // A clock that was set back must not keep an old answer alive.
    if (latest === undefined || ageMs < 0 || ageMs >= REMEMBERED_MS) {
      lookedAtMs = nowMs
      latest = look()
    }
    return latest
  }
}
