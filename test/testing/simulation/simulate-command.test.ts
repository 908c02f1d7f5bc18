/** The command: it finds, shrinks and keeps; the kept test fails for the bug, and passes once the host is mended. */
import { execFile } from 'node:child_process'
import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { importModule } from '../../../src/bin/host.ts'
import { search } from '../../../src/testing/simulation/seed-search.ts'
import { runCommand } from '../../commands/cli/run.ts'

/** Below the repository, so that the package's own name leads to its source. */
let folder: string
beforeAll(async () => {
  await mkdir('.data', { recursive: true })
  folder = await mkdtemp(resolve('.data', 'simulate-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

const HOSTS = resolve('test/testing/simulation')
/** A folder for each form of the host: a process reads a module once. */
async function scenario(form: 'broken' | 'mended', bug: string): Promise<string> {
  const file = join(folder, form, 'scenario.ts')
  await mkdir(join(folder, form))
  await writeFile(
    file,
    `import { deliveredMirror } from '${HOSTS}/mirror-host.ts'\nexport default deliveredMirror(${bug})\n`,
  )
  return file
}

interface Ran {
  readonly exitCode: number
  readonly out: string
}

function run(...words: string[]): Promise<Ran> {
  return new Promise((done) => {
    const child = execFile(
      process.execPath,
      words,
      { env: { ...process.env, NO_COLOR: '1' } },
      (_error, stdout, stderr) => done({ exitCode: child.exitCode ?? -1, out: stdout + stderr }),
    )
  })
}
const program = (...words: string[]): Promise<Ran> =>
  run('--conditions=durable-source', '--import', 'tsx', 'src/bin/integrations.ts', 'simulate', ...words)
/** The same command in this process. */
const simulate = (...words: string[]) =>
  runCommand(async () => expect.unreachable('no host is needed'), ['simulate', ...words], {
    simulation: { readModule: importModule, search },
  })

/** Of vitest's json report. */
interface Report {
  readonly testResults: readonly {
    readonly name: string
    readonly assertionResults: readonly { readonly status: string; readonly failureMessages: readonly string[] }[]
  }[]
}

/** What a host's vitest says of the tests of each file. */
async function vitest(...files: string[]): Promise<Record<string, Report['testResults'][number]['assertionResults']>> {
  const [config, outputFile] = [join(folder, 'vitest.config.ts'), join(folder, 'report.json')]
  await writeFile(
    config,
    `export default { resolve: { conditions: ['durable-source'] }, ssr: { resolve: { conditions: ['durable-source'] } } }\n`,
  )
  const reporter = ['--reporter=json', `--outputFile=${outputFile}`]
  await run('node_modules/vitest/vitest.mjs', 'run', '--root', folder, '--config', config, ...reporter, ...files)
  const { testResults } = JSON.parse(await readFile(outputFile, 'utf8')) as Report
  return Object.fromEntries(testResults.map(({ name, assertionResults }) => [name, assertionResults]))
}

describe('integrations simulate', () => {
  it('keeps what it finds as a test, which holds until the host is mended', async () => {
    const [broken, mended] = [await scenario('broken', "'older overwrites newer'"), await scenario('mended', '')]
    const [found, kept] = [broken, mended].map((file) => join(file, '../found.test.ts')) as [string, string]
    const searched = await program(broken, '--seeds', '200', '--out', found)
    expect(searched.out).toMatch(/seeds? in [\d.]+ s \([\d.]+ a second\)/)
    expect(searched.out).toContain('the mirror equals the shop')
    expect(searched.out).toContain(`Written: ${found}`)
    expect(searched.exitCode).toBe(1)
    expect(await readFile(found, 'utf8')).toContain("import scenario from './scenario.ts'")

    await copyFile(found, kept)
    expect(await vitest(found, kept)).toEqual({
      [found]: [
        expect.objectContaining({
          status: 'failed',
          failureMessages: [expect.stringContaining('SimulationFailed: The plan breaks:')],
        }),
      ],
      [kept]: [expect.objectContaining({ status: 'passed' })],
    })

    const again = await simulate(mended, '--seeds', '2', '--json')
    expect(again.exitCode).toBe(0)
    expect(again.json()).toMatchObject({ seeds: 2, found: null })
    const taken = await simulate(mended, '--out', found)
    expect(taken.err).toContain('is there already')
    expect(taken.exitCode).toBe(1)
  }, 240_000)

  it('says what a module lacks, and where there is none', async () => {
    const bare = join(folder, 'bare.ts')
    await writeFile(bare, 'export default { host: () => ({}) }\n')
    expect((await simulate(bare)).err).toContain('has no outside, integration, invariants in its default export')
    expect((await simulate(join(folder, 'nothing.ts'))).err).toContain('There is no module')
  }, 60_000)
})
