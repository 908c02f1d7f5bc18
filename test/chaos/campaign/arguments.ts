/** What `npm run chaos` is asked for. */
import { parseArgs } from 'node:util'
import { seedOfRun } from '../seeded-kills.ts'
import type { FaultKind } from './faults.ts'
import { FAULT_KINDS } from './faults.ts'

export const USAGE = `Usage: npm run chaos -- [options]

Runs the whole system under load, with faults drawn from a seed, and judges every promise at the end by what the outside
servers remember. Exit code 1: a promise is broken.

  --seed <n>          an integer from 0 to 4294967295; default: CHAOS_SEED, else a new one
  --minutes <n>       from 0.5 to 240; default: 5
  --faults <kinds>    of ${FAULT_KINDS.join(',')}; default: all that this machine permits
  --per-minute <n>    faults a minute, from 1 to 60; default: 15
  --pooler            PgBouncer in transaction mode before Postgres
  --full-server       a Temporal server with a Postgres of its own, in place of the dev server
  --pictures <folder> of each page of the dashboard, at the end; needs Chromium
  --help`

const MINUTES = { least: 0.5, most: 240, usual: 5 }
const PER_MINUTE = { least: 1, most: 60, usual: 15 }

export interface CampaignArguments {
  readonly seed: number
  readonly minutes: number
  readonly perMinute: number
  /** Null: all that this machine permits. */
  readonly kinds: readonly FaultKind[] | null
  readonly hasPooler: boolean
  readonly temporalServer: 'dev' | 'full'
  /** The folder of pictures of the dashboard. Null: none are taken. */
  readonly pictures: string | null
}

/** @throws Error with what is wrong, what is allowed and what was given. @returns null: help is asked for */
export function readArguments(
  words: readonly string[],
  environment: NodeJS.ProcessEnv = process.env,
): CampaignArguments | null {
  const { values } = parseArgs({
    args: [...words],
    options: {
      seed: { type: 'string' },
      minutes: { type: 'string' },
      faults: { type: 'string' },
      'per-minute': { type: 'string' },
      pooler: { type: 'boolean', default: false },
      'full-server': { type: 'boolean', default: false },
      pictures: { type: 'string' },
      help: { type: 'boolean', default: false },
    },
    strict: true,
    allowPositionals: false,
  })
  if (values.help) return null
  return {
    seed: seedOfRun(values.seed === undefined ? environment : { CHAOS_SEED: values.seed || '-' }, '--seed'),
    minutes: numberOf('--minutes', values.minutes, MINUTES),
    perMinute: numberOf('--per-minute', values['per-minute'], PER_MINUTE),
    kinds: values.faults === undefined ? null : kindsOf(values.faults),
    hasPooler: values.pooler,
    temporalServer: values['full-server'] ? 'full' : 'dev',
    pictures: values.pictures ?? null,
  }
}

export function numberOf<Usual>(
  option: string,
  given: string | undefined,
  { least, most, usual }: { readonly least: number; readonly most: number; readonly usual: Usual },
): number | Usual {
  if (given === undefined) return usual
  const number = given.trim() === '' ? Number.NaN : Number(given)
  if (!(number >= least && number <= most))
    throw new Error(`${option}: expected a number from ${least} to ${most}, received ${JSON.stringify(given)}`)
  return number
}

function kindsOf(given: string): FaultKind[] {
  const kinds = given.split(',')
  const isKind = (kind: string): kind is FaultKind => FAULT_KINDS.some((known) => known === kind)
  if (kinds.every(isKind) && new Set(kinds).size === kinds.length) return kinds
  throw new Error(
    `--faults: expected some of ${FAULT_KINDS.join(', ')}, each once, with commas between them; received ${JSON.stringify(given)}`,
  )
}
