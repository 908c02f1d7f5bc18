/** `npm run bench -- all` and `-- growth`: every bench in a process of its own, round after round. Method: docs/performance.md, "All of them". */
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { chmodSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isAlive } from '../../dev/local-process.ts'
import type { Printed } from '../frame.ts'
import { foldBench } from './fold.ts'
import type { PlanOptions, Turn } from './plan.ts'
import { GROWTH, growthOf } from './plan.ts'
import type { AllResults, Curve, GrowthResults } from './results.ts'
import type { Runner } from './run.ts'
import { runAll, runTurns } from './run.ts'
import type { Ran, State } from './state.ts'
import { dropState, keepState, openState, sourcesOf } from './state.ts'
import { table } from './table.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const FOLDER = join(ROOT, '.data/bench')
/** Only what hangs takes longer. */
const LONGEST_MINUTES = 45
const DEFAULT_ROUNDS = 5

export interface AllOptions {
  readonly quick: boolean
  readonly rounds: number | undefined
  /** Drops what an unfinished run has measured. */
  readonly fresh: boolean
  readonly growth: boolean
}

/** @returns whether every target was met */
export async function benchAll(benches: readonly string[], given: AllOptions, machine: string): Promise<boolean> {
  const options = { quick: given.quick, rounds: given.rounds ?? DEFAULT_ROUNDS }
  const folded = await inCampaign('all', options, given.fresh, (state, runner) =>
    runAll(benches, options, state, runner),
  )
  keepResults('all', options, { ...folded.head, machine, benches: folded.value } satisfies AllResults)
  for (const bench of folded.value) console.log(`\n${bench.name}\n${table(bench)}`)
  if (given.growth) await benchGrowth(given, machine)
  const missed = folded.value.flatMap(({ name, targets }) =>
    targets.filter(({ met }) => !met).map((target) => `${name}: ${target.name}`),
  )
  const targets = folded.value.reduce((sum, bench) => sum + bench.targets.length, 0)
  console.log(`\n${machine}\n${targets - missed.length} of ${targets} targets are met.`)
  for (const name of missed) console.log(`NOT MET: ${name}`)
  return missed.length === 0
}

export async function benchGrowth(given: AllOptions, machine: string): Promise<void> {
  const options = { quick: given.quick, rounds: given.rounds ?? DEFAULT_ROUNDS }
  const { head, value } = await inCampaign('growth', options, given.fresh, async (state, runner): Promise<Curve[]> => {
    const turns = growthOf(options)
    await runTurns(turns, state, runner)
    return Object.keys(GROWTH).map((name) => ({
      name,
      points: turns
        .filter(({ bench }) => bench === name)
        .map(({ key, size }) => ({ ...foldBench([state.ran[key] as Ran]), size })),
    }))
  })
  keepResults('growth', options, { ...head, machine, curves: value } satisfies GrowthResults)
}

type Head = Omit<AllResults, 'machine' | 'benches'>

async function inCampaign<T>(
  name: string,
  options: PlanOptions,
  fresh: boolean,
  work: (state: State, runner: Runner) => Promise<T>,
): Promise<{ head: Head; value: T }> {
  const suffix = options.quick ? '-quick' : ''
  const file = join(FOLDER, `${name}${suffix}.json`)
  const release = claim(`${file}.running`)
  try {
    if (fresh) dropState(file)
    const of = `${options.rounds} rounds, ${sourcesOf(ROOT)}`
    const state = openState(file, of, new Date())
    const done = Object.keys(state.ran).length
    if (done > 0)
      console.error(`going on with the run of ${state.startedAt}: ${done} turns are done (--fresh begins anew)`)
    const clone = createHash('sha256').update(ROOT).digest('hex').slice(0, 8)
    const temporary = join(tmpdir(), `durable-bench-${clone}-${name}${suffix}`)
    const value = await work(state, {
      run: (turn) => runTurn(turn, temporary),
      keep: (changed) => keepState(file, changed),
      say: (line) => console.error(`${new Date().toISOString().slice(11, 19)} ${line}`),
    })
    dropState(file)
    const { startedAt } = state
    return { head: { startedAt, endedAt: new Date().toISOString(), of, ...options }, value }
  } finally {
    release()
  }
}

/** A quick run proves that it works; its figures are not for publishing. */
function keepResults(name: string, { quick }: PlanOptions, results: AllResults | GrowthResults): void {
  const file = quick ? join(FOLDER, `results-${name}-quick.json`) : join(ROOT, `bench/results/${name}.json`)
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, `${JSON.stringify(results, null, 2)}\n`)
  console.error(`results: ${file}${quick ? '' : '; `npm run docs` makes docs/benchmarks.md of them'}`)
}

/** Servers that are ending still write. */
const REMOVED = { recursive: true, force: true, maxRetries: 10, retryDelay: 500 }

/** Its temporary files go with it, or before the next one when this process is killed: ten million rows are gigabytes. */
async function runTurn({ bench, args }: Turn, folder: string): Promise<Printed> {
  // What a killed run has left.
  rmSync(folder, REMOVED)
  mkdirSync(folder)
  // The server of a root runs as another user.
  chmodSync(folder, 0o711)
  const child = spawn(process.execPath, [...process.execArgv, join(ROOT, 'bench/main.ts'), bench, '--json', ...args], {
    cwd: ROOT,
    // It ends with this process: its channel closes then.
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
    env: { ...process.env, TMPDIR: folder, BENCH_IS_BUILT: '1' },
  })
  const timer = setTimeout(() => child.kill('SIGKILL'), LONGEST_MINUTES * 60_000)
  try {
    let stdout = ''
    child.stdout?.on('data', (chunk: Buffer) => {
      stdout += chunk
    })
    const [code, signal] = (await once(child, 'close')) as [number | null, string | null]
    if (code !== 0) throw new Error(`it ended with ${signal ?? code}`)
    return JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '') as Printed
  } finally {
    clearTimeout(timer)
    rmSync(folder, REMOVED)
  }
}

/** One run at a time: two would measure each other. */
function claim(file: string): () => void {
  mkdirSync(dirname(file), { recursive: true })
  try {
    writeFileSync(file, String(process.pid), { flag: 'wx' })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    const holder = Number(readFileSync(file, 'utf8'))
    if (holder > 0 && isAlive(holder)) throw new Error(`Process ${holder} runs this already.`)
    writeFileSync(file, String(process.pid))
  }
  return () => rmSync(file, { force: true })
}
