/**
 * The README on a stock Node 20, 22 and 24, each with the npm that it brings: Node and npm from the npm registry, a clone without
 * anything that git ignores, and the README's commands. Of `npm test` only some files: CI runs all of it on each of the three.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, expect, it } from 'vitest'
import packageJson from '../../package.json' with { type: 'json' }
import { stepsOf } from '../tutorials/steps.ts'
import type { RunningClone } from './clone.ts'
import { environmentOf, installClone, makeClone, startClone } from './clone.ts'

const README = readFileSync(fileURLToPath(new URL('../../README.md', import.meta.url)), 'utf8')
const README_LINES = 150
/** Without those that a page of GitHub's puts around it: what is seen before a reader scrolls. */
const FIRST_SCREEN_LINES = 12
const TESTS = ['test/framework/errors.test.ts', 'test/sandbox/crm.test.ts', 'test/house/repository.test.ts']
const NODE_MS = 900_000
const PAGES_THAT_INSTALL = [
  'tutorials/getting-started.md',
  'tutorials/provider-from-nothing.md',
  'writing-a-provider.md',
]
const INSTALL_LINE = /npm install --save-dev vitest@[\w./@ -]*[\w/]/g

let folder: string | undefined
let clone: RunningClone | undefined
afterEach(async () => {
  await clone?.stop()
  if (folder !== undefined) await rm(folder, { recursive: true, force: true })
})

it('has the dashboard on its first screen, and a length that is read', () => {
  const lines = README.trimEnd().split('\n')
  expect(lines.slice(0, FIRST_SCREEN_LINES).join('\n')).toContain('docs/images/dashboard/home-light.png')
  expect(lines.length).toBeLessThanOrEqual(README_LINES)
})

it('has no commands but those that are run here', () => {
  const commands = stepsOf(README).flatMap((step) => (step.kind === 'commands' ? [step.text] : []))
  expect(commands).toEqual(['npm ci && npm start\n', 'npm ci && npm test\n'])
  expect(packageJson.engines.node).toBe('>=20.20')
})

const STOCK = [
  ['20', '10'],
  ['22', '10'],
  ['24', '11'],
] as const

it.each(STOCK)(
  'is true on Node %s with npm %s',
  async (node, npm) => {
    folder = await mkdtemp(join(tmpdir(), `readme-node-${node}-`))
    const path = stockNode(join(folder, 'stock'), node, npm)
    const run = (program: string, ...args: string[]) =>
      spawnSync(program, args, { cwd: cloned, env: environmentOf(path), encoding: 'utf8', maxBuffer: 64 << 20 })
    const cloned = join(folder, 'durable-integrations')
    makeClone(cloned)

    expect(run('node', '--version').stdout).toMatch(new RegExp(`^v${node}\\.`))
    expect(run('npm', '--version').stdout).toMatch(new RegExp(`^${npm}\\.`))
    expect(installClone(cloned, path)).not.toContain('EBADENGINE')

    clone = await startClone(cloned, path)
    await clone.said(/webhook +#\d+ processed: /)
    await clone.said(/run 1 finished: success; 298 succeeded, 0 failed; cursor 2020-06-03T08:30:00Z/)
    await expectDashboard(clone)
    const doctor = run('npm', 'run', 'cli', '--', 'doctor')
    expect(doctor.status, doctor.stdout + doctor.stderr).toBe(0)

    const tests = run('npx', 'vitest', 'run', '--project', 'fast', ...TESTS)
    expect(tests.status, tests.stdout + tests.stderr).toBe(0)

    await clone.stop()
    expect(clone.lines.filter((line) => /unhandled|TypeError|ERR_|Deprecat/i.test(line))).toEqual([])
    expect(clone.lines.join('\n')).toContain('SIGINT: stopping')
  },
  NODE_MS,
)

// npm 10 ended with "Cannot read properties of null" where a page named a vitest with more peers.
it.each(STOCK)(
  'names development packages that Node %s with npm %s installs, and a vitest that runs there',
  async (node, npm) => {
    folder = await mkdtemp(join(tmpdir(), `pages-node-${node}-`))
    const env = environmentOf(stockNode(join(folder, 'stock'), node, npm))
    const lines = new Set(PAGES_THAT_INSTALL.flatMap((page) => readPage(page).match(INSTALL_LINE) ?? []))
    expect([...lines].toSorted()).toEqual([
      'npm install --save-dev vitest@4.0 @electric-sql/pglite@0.5',
      'npm install --save-dev vitest@4.0 tsx @electric-sql/pglite@0.5',
    ])
    for (const [index, line] of [...lines].entries()) {
      const cwd = join(folder, `project-${index}`)
      mkdirSync(cwd)
      writeFileSync(join(cwd, 'package.json'), JSON.stringify({ name: 'a-host', private: true, type: 'module' }))
      writeFileSync(join(cwd, 'a.test.ts'), "import { it } from 'vitest'\nit('runs', () => {})\n")
      for (const command of [line, 'npx vitest run']) {
        const { status, stdout, stderr } = spawnSync('bash', ['-c', command], { cwd, env, encoding: 'utf8' })
        expect(status, `${command}\n${stdout}${stderr}`).toBe(0)
      }
    }
  },
  NODE_MS,
)

function readPage(name: string): string {
  return readFileSync(fileURLToPath(new URL(`../../docs/${name}`, import.meta.url)), 'utf8')
}

/** @returns a PATH in which these come first */
function stockNode(folderOfStock: string, node: string, npm: string): string {
  execFileSync('npm', ['install', '--prefix', folderOfStock, '--no-audit', '--no-fund', `node@${node}`, `npm@${npm}`], {
    stdio: 'pipe',
  })
  return `${join(folderOfStock, 'node_modules/.bin')}:${process.env.PATH}`
}

/** The address that is shown signs a browser in, also to the page of the API. */
async function expectDashboard({ lines }: RunningClone): Promise<void> {
  const shown = lines.find((line) => /^ +Dashboard /.test(line)) ?? ''
  const url = /http:\S+/.exec(shown)?.[0] ?? ''
  const login = await fetch(url, { redirect: 'manual' })
  expect(login.status, shown).toBeGreaterThanOrEqual(200)
  const cookie = login.headers
    .getSetCookie()
    .map((one) => one.split(';')[0])
    .join('; ')
  for (const path of ['/operator', '/operator/api/v1/docs']) {
    const page = await fetch(new URL(path, url), { headers: { cookie } })
    expect(page.status, path).toBe(200)
    expect(await page.text()).toContain('<h1')
  }
}
