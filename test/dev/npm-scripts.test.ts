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

describe('npm start beside a running one', () => {
  const supervisor = identifyProcess(process.pid)
  const beside = (state: object) => {
    const running = { supervisor, children: [], urls: {}, environment: {}, ...state }
    writeFileSync(join(folder, 'running.json'), JSON.stringify(running))
    return run('dev/main.ts', '--data', folder)
  }

  it('prints its addresses, or that it is still starting', () => {
    const up = beside({ urls: { API: 'http://127.0.0.1:3000' } })
    expect(up.stdout).toBe(`It is running already (pid ${process.pid}):\n  API                http://127.0.0.1:3000\n`)
    const starting = beside({})
    expect(starting.stdout).toBe(`It is starting already (pid ${process.pid}): it will show its addresses.\n`)
    expect([up.status, starting.status]).toEqual([0, 0])
  })

  it('says which of its processes have ended, and what to do', () => {
    const children = [
      { name: 'Postgres', ...supervisor },
      { name: 'Temporal', pid: process.pid, startedAt: 'another time' },
    ]
    const { status, stdout } = beside({ urls: { API: 'http://127.0.0.1:3000' }, children })
    expect(stdout).toContain(`\n\nThese of its processes have ended: Temporal (pid ${process.pid}). What needs`)
    expect(stdout).toContain(`\nStop it, by Ctrl-C in its terminal or \`kill ${process.pid}\`, then start again.\n`)
    expect(status).toBe(1)
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
