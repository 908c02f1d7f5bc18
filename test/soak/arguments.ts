/** What `npm run soak` is asked for. */
import { parseArgs } from 'node:util'
import { numberOf } from '../chaos/campaign/arguments.ts'

export const USAGE = `Usage: npm run soak -- [options]

Runs the whole system at a third of its capacity, measures what may leak, and judges each slope. Exit code 1: something grows,
is undecided or went wrong.

  --minutes <n>       from 3 to 1440; default: 60. Before it come about 40 s in which capacity is measured
  --per-second <n>    deliveries, from 1 to 10000; default: a third of capacity
  --help`

const MINUTES = { least: 3, most: 1_440, usual: 60 }
const PER_SECOND = { least: 1, most: 10_000, usual: null }

export interface SoakArguments {
  readonly minutes: number
  /** Null: a third of capacity. */
  readonly perSecond: number | null
}

/** @throws Error with what is wrong, what is allowed and what was given. @returns null: help is asked for */
export function readArguments(words: readonly string[]): SoakArguments | null {
  const { values } = parseArgs({
    args: [...words],
    options: {
      minutes: { type: 'string' },
      'per-second': { type: 'string' },
      help: { type: 'boolean', default: false },
    },
    strict: true,
    allowPositionals: false,
  })
  if (values.help) return null
  return {
    minutes: numberOf('--minutes', values.minutes, MINUTES),
    perSecond: numberOf('--per-second', values['per-second'], PER_SECOND),
  }
}
