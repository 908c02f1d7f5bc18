/** A check, its observations, and the command lines that it names as remedies. */
import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { SQL } from 'drizzle-orm'
import { sql } from 'drizzle-orm'
import type { Framework } from '../../framework/context.ts'
import { shellWord } from '../../framework/shell-word.ts'
import type { DoctorProbes, Finding } from './run-doctor.ts'

/** A finding; the doctor adds the name of its check. */
export type Observation = Omit<Finding, 'check'>

export interface Check {
  readonly name: string
  /** Earlier checks. When one of them is at fault, this one can't be made, or would say the same again. */
  readonly needs: readonly string[]
  /** @param earlier what the checks before it have found */
  look(
    framework: Framework,
    probes: DoctorProbes,
    earlier?: readonly Finding[],
  ): Promise<Observation | readonly Observation[]>
}

/** The integration that a finding is about, and since when it is so. */
export type About = Partial<Pick<Finding, 'integrationId' | 'stream' | 'since'>>

const NO_INTEGRATION = { integrationId: null, stream: null, since: null }

export const ok = (message: string): Observation => ({ status: 'ok', message, remedy: null, ...NO_INTEGRATION })
export const warning = (message: string, remedy: string, about: About = {}): Observation => ({
  ...{ status: 'warning', message, remedy, ...NO_INTEGRATION },
  ...about,
})
export const fault = (message: string, remedy: string | null, about: About = {}): Observation => ({
  ...{ status: 'fault', message, remedy, ...NO_INTEGRATION },
  ...about,
})
export const skipped = (message: string): Observation => ({
  status: 'skipped',
  message,
  remedy: null,
  ...NO_INTEGRATION,
})

/** Findings of one check: a flood hides what matters. */
export const MAX_FINDINGS = 10
/** Candidates of one check: each may cost a question to Temporal. */
export const MAX_LOOKED_AT = 100

/** Ten observations at most; the last one says that there are more, and is a fault if one of those is. */
export function capped(observations: readonly Observation[], whenNone: string): readonly Observation[] {
  if (observations.length === 0) return [ok(whenNone)]
  if (observations.length <= MAX_FINDINGS) return observations
  const left = observations.slice(MAX_FINDINGS)
  return [
    ...observations.slice(0, MAX_FINDINGS),
    {
      ...NO_INTEGRATION,
      status: left.some(({ status }) => status === 'fault') ? 'fault' : 'warning',
      message: `And at least ${left.length} more such. Mend these first.`,
      remedy: 'integrations doctor',
    },
  ]
}

/** `1 webhook`, `2 webhooks`. */
export const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`

/** A moment in UTC, in whole seconds. */
export const moment = (at: Date): string => `${at.toISOString().slice(0, 19)}Z`

/**
 * The line that starts this package's worker, for a POSIX shell with the host's environment. The package may lie in a host's
 * node_modules or be a checkout.
 */
export function workerCommand(): string {
  const isSource = import.meta.url.endsWith('.ts')
  const worker = fileURLToPath(new URL(`../../bin/worker.${isSource ? 'ts' : 'js'}`, import.meta.url))
  return `node ${isSource ? '--conditions=durable-source --import tsx ' : ''}${shellWord(relative(process.cwd(), worker))}`
}

/** Lists the integrations of a provider that this process does not know. */
export const listOfProvider = (provider: string): string => `integrations list --provider ${shellWord(provider)}`

/** Runs SQL that names tables by `quotedName()`. */
export function psqlCommand(sql: string): string {
  return `psql "$DATABASE_URL" -c ${shellWord(sql)}`
}

/** By the database's clock. */
export const secondsAgo = (seconds: number): SQL =>
  sql`clock_timestamp() - make_interval(secs => ${seconds}::double precision)`
