/** `npm start -- …`, `npm run demo -- …`, `npm run cli -- …`: the processes, as far as they need no stack. */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { identifyProcess } from '../../dev/processes.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'start-arguments-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

function run(script: string, ...words: string[]) {
  return spawnSync(process.execPath, ['--conditions=durable-source', '--import', 'tsx', script, ...words], {
    cwd: ROOT,
    encoding: 'utf8',
  })
}

it('npm start shows its usage, and refuses an unknown option with exit code 2', () => {
  const help = run('dev/main.ts', '--help')
  expect(help).toMatchObject({ status: 0, stderr: '' })
  expect(help.stdout).toMatch(/^Usage: npm start -- \[demo] \[--data <folder>] \[--steady]\n/)
  expect(run('dev/main.ts', '--foo')).toMatchObject({
    status: 2,
    stdout: '',
    stderr: "Unknown option '--foo'. Allowed: demo, --data <folder>, --steady, --help.\n",
  })
})

describe('npm run cli', () => {
  it.each([
    [['--version'], /^\d/],
    [['--help'], /^Usage: integrations /],
    [['sync', '--help'], /^Usage: integrations sync\|/],
    [['help', 'sync'], /^Usage: integrations sync\|/],
    [['completion', 'bash'], /integrations/],
    [['keys', 'generate'], /^[\w-]+:[\w+/=-]+\n/],
  ])('answers %j where nothing runs', (words, shown) => {
    const { status, stdout, stderr } = run('dev/cli.ts', '--data', folder, ...words)
    expect({ status, stderr, stdout }).toEqual({ status: 0, stderr: '', stdout: expect.stringMatching(shown) })
  })

  it('writes a provider where nothing runs', () => {
    const { status, stderr } = run('dev/cli.ts', '--data', folder, 'make-provider', 'acme', '--dir', folder)
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
    expect(readdirSync(folder)).toEqual(['acme.test.ts', 'acme.ts'])
  })

  it('says what to run where nothing runs', () => {
    expect(run('dev/cli.ts', '--data', folder, 'list')).toMatchObject({
      status: 1,
      stdout: '',
      stderr: expect.stringMatching(
        /^Nothing runs in .*\. Run `npm start`, and this when its addresses are shown\.\n$/,
      ),
    })
  })

  it('says to wait while it starts', () => {
    const starting = { supervisor: identifyProcess(process.pid), children: [], urls: {}, environment: {} }
    writeFileSync(join(folder, 'running.json'), JSON.stringify(starting))
    expect(run('dev/cli.ts', '--data', folder, 'list')).toMatchObject({
      status: 1,
      stdout: '',
      stderr: expect.stringMatching(/^It is still starting in .*\. Wait until `npm start` shows its addresses\.\n$/),
    })
  })
})
