import { spawnSync } from 'node:child_process'
import { chmod, cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'

const script = fileURLToPath(new URL('../../.ci/run', import.meta.url))

/** What the stand-in for npm does at each of the script's four calls: a text to print, a status to leave with. */
interface Npm {
  ci?: [string, number]
  test?: [string, number]
  stacks?: [string, number]
  check?: [string, number]
}

describe('.ci/run', () => {
  let folder: string

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'ci-run-'))
    await cp(script, join(folder, '.ci/run'))
    await mkdir(join(folder, 'node_modules'))
    await mkdir(join(folder, 'bin'))
  })

  afterEach(() => rm(folder, { recursive: true, force: true }))

  async function run({ ci = ['', 0], test = ['', 0], stacks = ['5 passed, 0 failed\\n', 0], check = ['', 0] }: Npm) {
    const answer = ([text, status]: [string, number]) => `printf '%b' '${text}'; exit ${status}`
    const npm = `#!/usr/bin/env bash\ncase "$*" in\nci) ${answer(ci)};;\ntest) ${answer(test)};;\n'run test:stacks') ${answer(stacks)};;\n'run check') ${answer(check)};;\nesac\nexit 99\n`
    await writeFile(join(folder, 'bin/npm'), npm)
    await chmod(join(folder, 'bin/npm'), 0o755)
    const { status, stdout } = spawnSync(join(folder, '.ci/run'), {
      env: { ...process.env, PATH: `${join(folder, 'bin')}:${process.env.PATH}` },
      encoding: 'utf8',
    })
    return { status, last: stdout.trimEnd().split('\n').at(-1), stdout }
  }

  const green = '12 passed, 0 failed\\n'

  it('ends with the counts of both suites and leaves with 0 when all is well', async () => {
    expect(await run({ test: [`some\\n${green}`, 0] })).toMatchObject({ status: 0, last: '17 passed, 0 failed' })
  })

  it.each<[string, Npm, string]>([
    ['tests fail', { test: ['10 passed, 2 failed\\n', 1] }, '15 passed, 2 failed'],
    ['tests leave with an error and count no failure', { test: [green, 1] }, '17 passed, 1 failed'],
    ['tests count a failure and leave with 0', { test: ['11 passed, 1 failed\\n', 0] }, '16 passed, 1 failed'],
    ['no test ran', { test: ['0 passed, 0 failed\\n', 0] }, '5 passed, 1 failed'],
    ['the tests die without their counts', { test: ['Killed\\n', 137] }, '5 passed, 1 failed'],
    ['npm ci fails', { ci: ['no\\n', 1], test: [green, 0] }, '5 passed, 1 failed'],
    ['stacks fail', { test: [green, 0], stacks: ['3 passed, 1 failed\\n', 1] }, '15 passed, 1 failed'],
    ['the stacks die without their counts', { test: [green, 0], stacks: ['Killed\\n', 137] }, '12 passed, 1 failed'],
    ['the check is red', { test: [green, 0], check: ['red\\n', 1] }, '17 passed, 1 failed'],
    ['tests and check fail', { test: ['10 passed, 2 failed\\n', 1], check: ['', 1] }, '15 passed, 3 failed'],
  ])('leaves with 1 when %s', async (_, npm, last) => {
    expect(await run(npm)).toMatchObject({ status: 1, last })
  })

  it('runs the stacks and the check also when tests fail', async () => {
    const { stdout } = await run({
      test: ['0 passed, 1 failed\\n', 1],
      stacks: ['the stacks ran\\n', 0],
      check: ['the check ran\\n', 0],
    })
    expect(stdout).toContain('the stacks ran')
    expect(stdout).toContain('the check ran')
  })
})
