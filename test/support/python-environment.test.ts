/** Which environment is used, and what comes in its place. Its Python is played: `bin/python3` is a script of the shell. */
import { execFileSync } from 'node:child_process'
import { chmod, mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { pythonIn, pythonTag, replaceEnvironment, usableEnvironment } from './python-environment.ts'

/** It imports `stripe` and nothing else. */
const PYTHON = '#!/bin/sh\n[ "$1 $2" = "-c import stripe" ]\n'

let parent: string
let folder: string
beforeEach(async () => {
  parent = await mkdtemp(join(tmpdir(), 'python-environment-'))
  folder = join(parent, 'environment')
})
afterEach(() => rm(parent, { recursive: true, force: true }))

async function fill(environment: string): Promise<void> {
  await mkdir(join(environment, 'bin'), { recursive: true })
  await writeFile(pythonIn(environment), PYTHON)
  await chmod(pythonIn(environment), 0o755)
}

describe('an environment', () => {
  it('is used when its Python imports the module', async () => {
    await fill(folder)
    expect(await usableEnvironment(folder, 'stripe')).toBe(pythonIn(folder))
  })

  it('is not when it can be executed but has the module no longer, as after another Python came to its place', async () => {
    await fill(folder)
    expect(await usableEnvironment(folder, 'localstripe')).toBeNull()
  })

  it('is not when its Python leads nowhere, as after the system has lost it', async () => {
    await mkdir(join(folder, 'bin'), { recursive: true })
    await symlink(join(parent, 'removed'), pythonIn(folder))
    expect(await usableEnvironment(folder, 'stripe')).toBeNull()
  })

  it('is not when it is not there', async () => {
    expect(await usableEnvironment(folder, 'stripe')).toBeNull()
  })

  it('comes to the place of one that is of no use, of which nothing is left', async () => {
    await mkdir(join(folder, 'lib', 'python3.9'), { recursive: true })
    expect(await replaceEnvironment(folder, fill)).toBe(pythonIn(folder))
    expect(await usableEnvironment(folder, 'stripe')).toBe(pythonIn(folder))
    expect(await readdir(folder)).toEqual(['bin'])
    expect(await readdir(parent)).toEqual(['environment'])
  })

  it('that cannot be made leaves what is there', async () => {
    await fill(folder)
    const broken = replaceEnvironment(folder, async () => {
      throw new Error('no network')
    })
    await expect(broken).rejects.toThrow('no network')
    expect(await usableEnvironment(folder, 'stripe')).toBe(pythonIn(folder))
    expect(await readdir(parent)).toEqual(['environment'])
  })
})

describe('the kind of a Python', () => {
  it('is what it says of itself, and null when there is none', async () => {
    const python = join(parent, 'python3')
    expect(await pythonTag(python)).toBeNull()
    // Written by another process: one that this one forks meanwhile would hold it open, and it could not be run (ETXTBSY).
    const script = `printf '#!/bin/sh\\necho cpython-313\\n' > '${python}' && chmod 755 '${python}'`
    execFileSync('/bin/sh', ['-c', script])
    expect(await pythonTag(python)).toBe('cpython-313')
  })
})
