/** What a check is, and what it may say. */
import type { Framework } from '../../framework.ts'
import type { DoctorProbes, Finding } from '../doctor.ts'

/** What a check has seen; the doctor adds its name. */
export type Observation = Omit<Finding, 'check'>

export interface Check {
  readonly name: string
  /** Checks before it; when one of them is at fault, this one can't be looked at, or would say the same again. */
  readonly needs: readonly string[]
  look(framework: Framework, probes: DoctorProbes): Promise<Observation | readonly Observation[]>
}

export const ok = (message: string): Observation => ({ status: 'ok', message, remedy: null })
export const warning = (message: string, remedy: string): Observation => ({ status: 'warning', message, remedy })
export const fault = (message: string, remedy: string | null): Observation => ({ status: 'fault', message, remedy })
export const skipped = (message: string): Observation => ({ status: 'skipped', message, remedy: null })

/** Findings of one check at most: a flood hides what matters. */
export const MAX_FINDINGS = 10
/** As many candidates are looked at, each may cost a question to Temporal. */
export const MAX_LOOKED_AT = 100

/** At most so many; the last one says that there are more. */
export function capped(observations: readonly Observation[], whenNone: string): readonly Observation[] {
  if (observations.length === 0) return [ok(whenNone)]
  if (observations.length <= MAX_FINDINGS) return observations
  const [first] = observations as [Observation]
  const more = observations.length - MAX_FINDINGS
  return [
    ...observations.slice(0, MAX_FINDINGS),
    {
      status: first.status,
      message: `And at least ${more} more such. Mend these first.`,
      remedy: 'integrations doctor',
    },
  ]
}

/** `1 webhook`, `2 webhooks`. */
export const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`

/** A moment as people at different places read it alike: UTC, whole seconds. */
export const moment = (at: Date): string => `${at.toISOString().slice(0, 19)}Z`
