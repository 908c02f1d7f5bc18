import { statSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, relative, resolve, sep } from 'node:path'
import { planText, testFileText } from '../../testing/simulation/plan-text.ts'
import type { Scenario } from '../../testing/simulation/scenario.ts'
import type { Simulated } from '../../testing/simulation/seed-search.ts'
import type { HostlessContext, Simulation } from '../command.ts'
import { hostlessCommand } from '../command.ts'
import { flag, optional, text, whole, withDefault } from '../fields.ts'
import { Refused } from '../refused.ts'

const MAX_PATH = 4_096
const SEEDS = 1_000
/** Between two lines of progress. */
const SAY_EVERY_MS = 1_000

/** What was found, and where it is kept. */
interface Found {
  readonly seed: number
  readonly broken: readonly { readonly name: string; readonly message: string }[]
  readonly story: readonly string[]
  readonly plan: string
  readonly file: string | null
}

export const simulate = hostlessCommand({
  name: 'simulate',
  topic: 'Development',
  summary: "Plays the host's provider and handlers with seeded faults, and shrinks a seed that fails to a test.",
  examples: [
    'integrations simulate simulation/orders.ts --seeds 1000 --out test/found.test.ts',
    'integrations simulate simulation/orders.ts --seed 4711 --seeds 1',
  ],
  places: ['scenario'],
  workflow: { none: 'it loads a module where it is called' },
  fields: {
    scenario: text('the module whose default export is made by defineScenario()', 'path', MAX_PATH),
    seeds: withDefault(whole('how many seeds are played, up to the first that fails'), SEEDS),
    seed: withDefault(whole('the first seed'), 1),
    out: optional(text('where the test of a seed that fails is written to, for vitest', 'file', MAX_PATH)),
    force: flag('overwrite what is there'),
  },
  async runWithoutHost(context, { scenario: path, seeds, seed: first, out, force }) {
    if (out !== undefined && !force && statSync(out, { throwIfNoEntry: false }) !== undefined)
      throw new Refused(
        'file_exists',
        `${out} is there already. Give another by --out, or overwrite it by --force.`,
        'out',
      )
    const { scenario, search } = await loaded(context, path)
    let saidAt = performance.now()
    let played = 0
    const onSeed = (seed: number): void => {
      played += 1
      if (performance.now() - saidAt < SAY_EVERY_MS) return
      saidAt = performance.now()
      context.progress(`Seed ${seed}: ${played} of ${seeds} played.`)
    }
    const simulated: Simulated = await search(scenario, { seeds, seed: first, signal: context.signal, onSeed })
    const { failure, seconds } = simulated
    let found: Found | null = null
    if (failure !== null) {
      const { plan, played: last, seed } = failure
      const broken = last.broken.map(({ name, message }) => ({ name, message }))
      if (out !== undefined) {
        const names = broken.map(({ name }) => name)
        await put(out, testFileText({ plan, seed, broken: names, scenario: moduleName(out, path) }))
      }
      found = { seed, broken, story: last.story, plan: planText(plan), file: out ?? null }
    }
    return {
      scenario: path,
      seeds: simulated.seeds,
      seconds: Math.round(seconds * 10) / 10,
      seeds_per_second: Math.round((simulated.seeds / seconds) * 10) / 10,
      found,
    }
  },
  show: ({ seeds, seconds, seeds_per_second: perSecond, found }) =>
    [
      `${seeds} ${seeds === 1 ? 'seed' : 'seeds'} in ${seconds} s (${perSecond} a second)${found === null ? ': all invariants hold.' : '.'}`,
      ...(found === null ? [] : findingLines(found)),
    ].join('\n'),
  hasFailed: ({ found }) => found !== null,
})

function findingLines({ seed, broken, story, plan, file }: Found): string[] {
  return [
    `Seed ${seed} breaks:`,
    ...broken.map(({ name, message }) => `  ${name}: ${message}`),
    'What happened, made as short as possible:',
    ...story.map((line) => `  ${line}`),
    'The plan:',
    plan,
    file === null ? 'Keep it as a test by --out <file>.' : `Written: ${file}`,
  ]
}

/** @throws Refused `not_loadable` */
async function loaded(
  { simulation }: HostlessContext,
  path: string,
): Promise<{ readonly scenario: Scenario; readonly search: Simulation['search'] }> {
  const file = resolve(path)
  const wanted = 'A module whose default export is made by defineScenario() is allowed'
  if (simulation === undefined || statSync(file, { throwIfNoEntry: false })?.isFile() !== true)
    throw new Refused('not_loadable', `There is no module ${path}. ${wanted}.`, 'scenario')
  const { default: scenario } = await simulation.readModule(file)
  // No more than its shape: the module may have loaded another copy of this package.
  const members = ['host', 'outside', 'integration', 'invariants'] as const
  const missing = members.filter((name) => (scenario as Partial<Scenario> | undefined)?.[name] === undefined)
  if (missing.length > 0)
    throw new Refused(
      'not_loadable',
      `${path} has no ${missing.join(', ')} in its default export. ${wanted}.`,
      'scenario',
    )
  return { scenario: scenario as Scenario, search: simulation.search }
}

async function put(file: string, content: string): Promise<void> {
  try {
    await mkdir(dirname(file), { recursive: true })
    await writeFile(file, content)
  } catch (error) {
    const { message } = error as NodeJS.ErrnoException
    throw new Refused('not_writable', `The test can't be written to ${file}: ${message}. Give another by --out.`, 'out')
  }
}

/** Of the scenario, as the test file names it. */
function moduleName(testFile: string, scenario: string): string {
  const path = relative(dirname(resolve(testFile)), resolve(scenario))
    .split(sep)
    .join('/')
  return path.startsWith('.') ? path : `./${path}`
}
