/** The doctor's last look, kept by this process: many readers of a page cost one look. Rule: docs/behaviour/doctor.md, "A kept look". */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Finding } from './run-doctor.ts'

export interface Diagnosis {
  readonly findings: readonly Finding[]
  readonly lookedAt: Date
}

export interface WantedDiagnosis {
  /** A kept look that is not older will do. */
  readonly maxAgeSeconds: number
  /** After this long an older look is given, or null where none has ended yet; the new look goes on. Default: for ever. */
  readonly patienceMs?: number
}

/** @param look the doctor; looks that are wanted at the same moment are one */
export function keptDiagnosis(look: () => Promise<readonly Finding[]>) {
  let kept: Diagnosis | null = null
  let keptAt = 0
  let under: Promise<Diagnosis> | null = null
  const again = (): Promise<Diagnosis> => {
    under ??= look()
      .then((findings) => {
        kept = { findings, lookedAt: new Date() }
        keptAt = performance.now()
        return kept
      })
      .finally(() => {
        under = null
      })
    return under
  }
  return async ({ maxAgeSeconds, patienceMs }: WantedDiagnosis): Promise<Diagnosis | null> => {
    // Its moment alone would keep it for as long as the clock was set back; a machine that was suspended counted no time.
    if (
      kept !== null &&
      Math.max(Date.now() - kept.lookedAt.getTime(), performance.now() - keptAt) <= maxAgeSeconds * 1_000
    )
      return kept
    const looking = again()
    if (patienceMs === undefined) return looking
    // It never throws: what goes wrong is a finding.
    return Promise.race([looking, sleep(patienceMs, undefined, { ref: false }).then(() => kept)])
  }
}
