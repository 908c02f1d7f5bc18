/** What lets test files share a process (vitest.config.ts): nothing of one is left for the next. */
import { readdir, readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import configuration, { ALONE, REPLACING, REPLACING_FAST, STACKS, SUITES } from '../../vitest.config.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
/**
 * The line in which the suite's checks wait for each other: what they watch (the global `fetch`) exists once in a process. And the
 * number of threads that redact: a process has so many cores, however many objects of ours.
 */
const KEPT_ON_PURPOSE = [
  'src/framework/redaction-thread.ts',
  'src/testing/conformance/bench.ts',
  'src/testing/simulation/virtual-time.ts',
]

async function filesIn(folder: string, ending: string): Promise<{ path: string; text: string }[]> {
  const names = await readdir(`${root}${folder}`, { recursive: true })
  const paths = names.filter((name) => name.endsWith(ending)).map((name) => `${folder}/${name}`)
  return Promise.all(paths.map(async (path) => ({ path, text: await readFile(`${root}${path}`, 'utf8') })))
}

describe('test files that share a process', () => {
  it('replace no module and close no network: those that do are the ones of REPLACING', async () => {
    const replacing = (await filesIn('test', '.test.ts')).filter(({ text }) =>
      /\b(vi\.(do)?[mM]ock|networkOff|playground)\(/.test(text),
    )
    expect(replacing.map(({ path }) => path).sort()).toEqual([...REPLACING, ...REPLACING_FAST].sort())
  })

  it('leave the environment as it was: they change it by vi.stubEnv(), which vitest undoes', async () => {
    const shared = (await filesIn('test', '.test.ts')).filter(
      ({ path }) => !path.endsWith('.long.test.ts') && ![...ALONE, ...STACKS].includes(path),
    )
    const changing = shared.filter(({ text }) =>
      /^\s*(delete )?process\.env(\.\w+|\[[^\]]+\])( =|$)|process\.chdir\(/m.test(text),
    )
    expect(changing.map(({ path }) => path)).toEqual([])
  })

  it('load no host, and give no logger to Temporal: those that do have a process of their own', async () => {
    const shared = (await filesIn('test', '.e2e.test.ts')).filter(({ path }) => ![...ALONE, ...STACKS].includes(path))
    const own = shared.filter(({ text }) =>
      /\b(Object\.assign\(process\.env|(start\w*Stack|startFleet|openScene|installTemporalLogger)\(|import '\.)/.test(
        text,
      ),
    )
    expect(own.map(({ path }) => path)).toEqual([])
  })
})

it('each project is run by one suite', () => {
  const projects = (configuration.test?.projects ?? []) as readonly { test: { name: string } }[]
  expect(Object.values(SUITES).flat().sort()).toEqual(projects.map(({ test }) => test.name).sort())
})

describe('fake timers', () => {
  it('are taken off again in the file that puts them on', async () => {
    const faking = (await filesIn('test', '.ts')).filter(({ text }) => /\bvi\.useFakeTimers\(/.test(text))
    expect(faking.length).toBeGreaterThan(0)
    expect(faking.filter(({ text }) => !/\bvi\.useRealTimers\(/.test(text)).map(({ path }) => path)).toEqual([])
  })
})

describe('a module of src/', () => {
  it('keeps no state but in what belongs to an object or to a call', async () => {
    const ours = (await filesIn('src', '.ts')).filter(({ path }) => !path.startsWith('src/bin/'))
    const stateful = ours.filter(({ text }) =>
      text
        .split('\n')
        .some(
          (line) => /^(export )?(let|var) /.test(line) || /^(export )?const [^=]+= new (Map|Set)(<.*>)?\(\)/.test(line),
        ),
    )
    expect(stateful.map(({ path }) => path).sort()).toEqual(KEPT_ON_PURPOSE)
  })
})
