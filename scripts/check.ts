/** `npm run check`: everything about this repository that needs no server (npm's registry once, for a changed lock). One line a step, the output of what failed, exit 1. */
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

interface Step {
  name: string
  /** A file of node_modules. */
  command: string
  args: string[]
}

interface Outcome {
  step: Step
  passed: boolean
  seconds: number
  output: string
}

const root = fileURLToPath(new URL('..', import.meta.url))

/** The folders the import rules are about; `bench/` and `examples/` come with later issues. */
const ruledFolders = ['src', 'test', 'sandbox', 'examples', 'scripts', 'bench', 'dev'].filter((folder) =>
  existsSync(new URL(`../${folder}`, import.meta.url)),
)

/** TypeScript 7 needs a third of the time of 6. 6 compiles the release, and has the API that tests and tools use. */
const TSC = 'typescript-7/bin/tsc'
/** Where steps keep what they know of files that have not changed since, by their content. */
const CACHE = 'node_modules/.cache/durable-integrations'
/** One thread: each further one makes the types that it needs again, and the other core has a step of its own. */
const TYPES = [
  ...['--noEmit', '--pretty', 'false', '--checkers', '1'],
  ...['--incremental', '--tsBuildInfoFile', `${CACHE}/types.tsbuildinfo`],
]
/** It looks at the files of the folders, and not at what says which packages there are. */
const packages = createHash('sha256')
for (const file of ['package.json', 'package-lock.json', 'tsconfig.json', '.dependency-cruiser.cjs'])
  packages.update(readFileSync(new URL(`../${file}`, import.meta.url)))
const IMPORTS = [
  ...['--config', '.dependency-cruiser.cjs', '--cache-strategy', 'content'],
  ...['--cache', `${CACHE}/imports-${packages.digest('hex').slice(0, 12)}`],
]

const staticSteps: Step[] = [
  { name: 'types', command: TSC, args: TYPES },
  // What is compiled for a host: declarations have rules of their own, and a changed public type is to be seen in review.
  {
    name: 'release types',
    command: '.bin/tsx',
    args: ['--conditions=durable-source', 'scripts/api-reports.ts', '--check'],
  },
  { name: 'lint and format', command: '.bin/biome', args: ['ci', '--colors=off', '.'] },
  { name: 'import rules', command: '.bin/depcruise', args: [...IMPORTS, ...ruledFolders] },
  { name: 'lock file', command: '.bin/tsx', args: ['--conditions=durable-source', 'scripts/check-lock.ts'] },
  {
    name: 'made of the code',
    command: '.bin/tsx',
    args: ['--conditions=durable-source', 'scripts/generate-docs.ts', '--check'],
  },
  {
    name: 'unused code',
    command: '.bin/knip',
    args: ['--no-progress', '--cache', '--cache-location', `${CACHE}/unused`],
  },
]

/** At the end: it keeps both cores busy by itself. It begins as soon as one of them has no other step to take. */
const fastTests: Step = {
  name: 'fast tests',
  command: '.bin/vitest',
  args: ['run', '--project', 'fast'],
}

/** A CI machine has two cores, and no step but the tests uses more than one. */
const AT_ONCE = 2

function run(step: Step): Promise<Outcome> {
  const startedAt = performance.now()
  return new Promise((resolve) => {
    const chunks: Buffer[] = []
    const child = spawn(`${root}node_modules/${step.command}`, step.args, {
      cwd: root,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, NO_COLOR: '1', FORCE_COLOR: undefined },
    })
    const end = (passed: boolean) =>
      resolve({
        step,
        passed,
        seconds: (performance.now() - startedAt) / 1000,
        output: Buffer.concat(chunks).toString().trim(),
      })
    child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk))
    child.stderr.on('data', (chunk: Buffer) => chunks.push(chunk))
    child.on('error', (error) => {
      chunks.push(Buffer.from(`${step.command} could not be started: ${error.message}. Run \`npm ci\` first.`))
      end(false)
    })
    child.on('close', (code) => end(code === 0))
  })
}

function report({ step, passed, seconds, output }: Outcome): void {
  console.log(`${passed ? '✓' : '✗'} ${step.name.padEnd(16)} ${seconds.toFixed(1).padStart(6)} s`)
  if (!passed) console.log(`\n${output.replaceAll(/^/gm, '    ')}\n`)
}

/** @returns the outcomes, once the first lane has nothing left to take, and once all have */
function runAll(steps: Step[], atOnce: number): { nothingLeft: Promise<void>; outcomes: Promise<Outcome[]> } {
  const waiting = [...steps]
  const outcomes: Outcome[] = []
  const lane = async () => {
    for (let step = waiting.shift(); step !== undefined; step = waiting.shift()) {
      const outcome = await run(step)
      report(outcome)
      outcomes.push(outcome)
    }
  }
  const lanes = Array.from({ length: atOnce }, lane)
  return { nothingLeft: Promise.race(lanes), outcomes: Promise.all(lanes).then(() => outcomes) }
}

const startedAt = performance.now()
const statics = runAll(staticSteps, AT_ONCE)
await statics.nothingLeft
const tests = runAll([fastTests], 1)
const outcomes = [...(await statics.outcomes), ...(await tests.outcomes)]
const broken = outcomes.filter((outcome) => !outcome.passed).map((outcome) => outcome.step.name)
const seconds = ((performance.now() - startedAt) / 1000).toFixed(1)
console.log(
  broken.length === 0
    ? `\nAll ${outcomes.length} checks passed in ${seconds} s.`
    : `\n${broken.length} of ${outcomes.length} checks failed in ${seconds} s: ${broken.join(', ')}. \`npm run format\` repairs format and import order.`,
)
process.exitCode = broken.length === 0 ? 0 : 1
