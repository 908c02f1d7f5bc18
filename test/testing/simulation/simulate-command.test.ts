/** The command: it finds, shrinks and keeps; the kept test fails for the bug, and passes once the host is mended. */
import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

/** Below the repository, so that the package's own name leads to its source. */
let folder: string
beforeAll(async () => {
  await mkdir('.data', { recursive: true })
  folder = await mkdtemp(resolve('.data', 'simulate-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

const HOSTS = resolve('test/testing/simulation')
const bug = (name: string): Promise<void> =>
  writeFile(
    join(folder, 'scenario.ts'),
    `import { deliveredMirror } from '${HOSTS}/mirror-host.ts'\nexport default deliveredMirror(${name})\n`,
  )

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
const simulate = (...words: string[]): Promise<Ran> =>
  run('--conditions=durable-source', '--import', 'tsx', 'src/bin/integrations.ts', 'simulate', ...words)
const vitest = async (file: string): Promise<Ran> => {
  const config = join(folder, 'vitest.config.ts')
  await writeFile(
    config,
    `export default { resolve: { conditions: ['durable-source'] }, ssr: { resolve: { conditions: ['durable-source'] } } }\n`,
  )
  return run('node_modules/vitest/vitest.mjs', 'run', '--root', folder, '--config', config, file)
}

describe('integrations simulate', () => {
  it('keeps what it finds as a test, which holds until the host is mended', async () => {
    await bug("'older overwrites newer'")
    const [scenario, found] = [join(folder, 'scenario.ts'), join(folder, 'found.test.ts')]
    const searched = await simulate(scenario, '--seeds', '200', '--out', found)
    expect(searched.out).toMatch(/seeds? in [\d.]+ s \([\d.]+ a second\)/)
    expect(searched.out).toContain('the mirror equals the shop')
    expect(searched.out).toContain(`Written: ${found}`)
    expect(searched.exitCode).toBe(1)
    expect(await readFile(found, 'utf8')).toContain("import scenario from './scenario.ts'")

    const broken = await vitest(found)
    expect(broken.out).toContain('SimulationFailed: The plan breaks:')
    expect(broken.exitCode).toBe(1)
    await bug('')
    const mended = await vitest(found)
    expect(mended.out).toContain('1 passed')
    expect(mended.exitCode).toBe(0)

    const again = await simulate(scenario, '--seeds', '2', '--json')
    expect(again.exitCode).toBe(0)
    expect(JSON.parse(again.out)).toMatchObject({ seeds: 2, found: null })
    const taken = await simulate(scenario, '--out', found)
    expect(taken.out).toContain('is there already')
    expect(taken.exitCode).toBe(1)
  }, 240_000)

  it('says what a module lacks, and where there is none', async () => {
    const bare = join(folder, 'bare.ts')
    await writeFile(bare, 'export default { host: () => ({}) }\n')
    expect((await simulate(bare)).out).toContain('has no outside, integration, invariants in its default export')
    expect((await simulate(join(folder, 'nothing.ts'))).out).toContain('There is no module')
  }, 60_000)
})
