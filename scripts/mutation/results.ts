/** What the last runs of `npm run mutate` found, kept in the repository: docs/mutation.md is made of it. */
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** A mutant that no test noticed. */
export interface Survivor {
  readonly line: number
  /** The line's text: it finds the survivor again when lines move. */
  readonly source: string
  readonly mutator: string
  /** `from → to`. */
  readonly change: string
}

export interface FileResult {
  /** Of the file and of the tests that ran: a result with another one is of an older text. */
  readonly hash: string
  /** UTC. */
  readonly date: string
  readonly killed: number
  /** Of these, the ones whose tests did not end in their time. */
  readonly timedOut: number
  /** Mutants that the database or the compiler refuses: these can't reach a user, and do not count. */
  readonly invalid: number
  /** Mutants that the time did not reach. */
  readonly notRun: number
  readonly survivors: readonly Survivor[]
}

/** By the file's path from the root. */
export type Results = Readonly<Record<string, FileResult>>

export const root = fileURLToPath(new URL('../..', import.meta.url))
const RESULTS = `${root}scripts/mutation/results.generated.json`

export function readResults(): Results {
  return existsSync(RESULTS) ? (JSON.parse(readFileSync(RESULTS, 'utf8')) as Results) : {}
}

/** Written after each file, so that a run that is stopped loses no more than the file that it was at. */
export function keepResult(file: string, result: FileResult): void {
  const results = Object.entries({ ...readResults(), [file]: result }).sort(([a], [b]) => a.localeCompare(b, 'en'))
  writeFileSync(RESULTS, `${JSON.stringify(Object.fromEntries(results), null, 1)}\n`)
}

export function hashOf(files: readonly string[]): string {
  const hash = createHash('sha256')
  for (const file of files) hash.update(file).update(readFileSync(root + file))
  return hash.digest('hex').slice(0, 12)
}

const SHOWN_LENGTH = 90

/** A piece of code on one line, short enough for a table. */
export function shortened(code: string): string {
  const text = code.replace(/\s+/g, ' ').trim()
  return text.length > SHOWN_LENGTH ? `${text.slice(0, SHOWN_LENGTH - 1)}…` : text
}

/** Share of mutants that a test noticed, in percent, rounded down: 89.9 is not 90. */
export function killedPercent(results: readonly FileResult[]): number {
  const killed = results.reduce((sum, each) => sum + each.killed, 0)
  const survived = results.reduce((sum, each) => sum + each.survivors.length, 0)
  return killed + survived === 0 ? 100 : Math.floor((killed / (killed + survived)) * 1000) / 10
}
