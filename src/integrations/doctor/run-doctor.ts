/**
 * Looks for what is wrong and names the command that mends it.
 *
 * Rule: docs/behaviour/doctor.md.
 */

import type { Connection } from '../../db/client.ts'
import type { Framework } from '../../framework/context.ts'
import { errorLine } from '../../framework/logger.ts'
import { withTimeLimit } from '../../framework/waiting.ts'
import { backlogChecks, webhookChecks } from './backlog-checks.ts'
import { accessChecks, databaseChecks, temporalChecks } from './deployment-checks.ts'
import type { Check, Observation } from './doctor-check.ts'
import { fault, skipped } from './doctor-check.ts'
import { integrationChecks } from './integration-checks.ts'
import { overriddenLimit } from './limit-check.ts'
import type { LocalCommands } from './local-commands.ts'
import { locally, locallySaid } from './local-commands.ts'
import { databaseBlocked } from './lock-check.ts'
import { openIncidents } from './open-incidents-check.ts'
import { sharedLimits } from './shared-limit-checks.ts'
import { syncChecks } from './sync-checks.ts'
import { syncWaitingItems } from './waiting-items-check.ts'

export interface Finding {
  /** Stable name of the check, such as `database.reachable`. */
  readonly check: string
  /** `skipped`: could not be looked at, because an earlier check found a fault. */
  readonly status: 'ok' | 'warning' | 'fault' | 'skipped'
  /** What is wrong, since when and how much of it; on `ok` what was looked at. */
  readonly message: string
  /** The command, ready to be pasted; null when nothing is wrong, or the check itself failed. */
  readonly remedy: string | null
  /** The one that it is about; null: no single integration. */
  readonly integrationId: number | null
  /** Null: the integration's own, or it is about none. */
  readonly stream: string | null
  /** Since when; null: not known, or nothing is wrong. */
  readonly since: Date | null
}

/** Facts that the composition root knows and the framework does not. */
export interface DoctorProbes {
  /** @throws BackendUnreachable, InvalidConfiguration */
  checkDatabase(): Promise<void>
  /** Over a connection of its own: those of the pool may all be waiting for a lock. */
  askAside<T>(question: (sql: Connection['sql']) => Promise<T>): Promise<T>
  /** Names of the files of `drizzle/` that are not applied. */
  pendingMigrations(): Promise<readonly string[]>
  readonly baseUrl: string | null
  /** Whether the API asks no one on this machine to sign in. */
  readonly dev: boolean
  /** Where `npm start` runs everything and keeps it up; null elsewhere. */
  readonly local: LocalCommands | null
}

/** In order: a check comes after those that it needs. */
const CHECKS: readonly Check[] = [
  ...databaseChecks,
  ...temporalChecks,
  ...integrationChecks,
  overriddenLimit,
  sharedLimits,
  ...webhookChecks,
  ...syncChecks,
  syncWaitingItems,
  openIncidents,
  ...backlogChecks,
  ...accessChecks,
]

/** A backend that accepts and then does not answer must not hold up the other findings. */
const CHECK_SECONDS = 30
/** Behind a lock that holds up our own sessions most checks wait, too: together they must not take minutes. */
const BEHIND_LOCK_SECONDS = 3

/** Every check at least once, in order; it never throws. */
export async function runDoctor(framework: Framework, probes: DoctorProbes): Promise<readonly Finding[]> {
  const findings: Finding[] = []
  /** The check at fault that is the reason, by the check that it blocks. */
  const blocked = new Map<string, string>()
  for (const check of CHECKS) {
    const reason = check.needs.map((need) => blocked.get(need)).find((root) => root !== undefined)
    const seen =
      reason === undefined
        ? await look(
            () => check.look(framework, probes, findings),
            blocked.get(databaseBlocked.name) === databaseBlocked.name,
          )
        : [skipped(`Not looked at: see ${reason}.`)]
    const isAtFault = seen.some(({ status }) => status === 'fault')
    if (reason !== undefined || isAtFault) blocked.set(check.name, reason ?? check.name)
    findings.push(...seen.map((observation) => ({ check: check.name, ...pasteable(observation, probes) })))
  }
  return findings
}

async function look(ask: () => ReturnType<Check['look']>, isBehindLock: boolean): Promise<readonly Observation[]> {
  const seconds = isBehindLock ? BEHIND_LOCK_SECONDS : CHECK_SECONDS
  try {
    const late = () => new Error(`no answer within ${seconds} s${isBehindLock ? `; see ${databaseBlocked.name}` : ''}`)
    const seen = await withTimeLimit(seconds, late, ask)
    return [seen].flat()
  } catch (error) {
    return [fault(`The check itself failed: ${errorLine(error, 500)}`, null)]
  }
}

function pasteable(observation: Observation, { local }: DoctorProbes): Observation {
  if (local === null) return observation
  const { message, remedy } = observation
  return {
    ...observation,
    message: locallySaid(message, local),
    remedy: remedy === null ? null : locally(remedy, local),
  }
}
