import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, symlinkSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, expect, it } from 'vitest'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
let folder: string

afterEach(() => rm(folder, { recursive: true, force: true }))

it('npm start, without Temporal and without Go, says in one sentence what to do, and leaves nothing running', () => {
  folder = mkdtempSync(join(tmpdir(), 'cold-start-'))
  const path = join(folder, 'bin')
  mkdirSync(path)
  // By which Postgres, started by root, finds the user to run as.
  symlinkSync('/usr/bin/id', join(path, 'id'))
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ['--conditions=durable-source', '--import', 'tsx', 'dev/main.ts', 'demo', '--data', join(folder, 'data')],
    {
      cwd: ROOT,
      // No other program on PATH, no cache, and an address that no one answers for a machine without a way out.
      env: { PATH: path, HOME: folder, XDG_CACHE_HOME: join(folder, 'cache'), HTTPS_PROXY: 'http://127.0.0.1:9' },
      encoding: 'utf8',
    },
  )
  expect(status).toBe(1)
  expect(stdout).toContain('✓  Postgres')
  expect(stderr.trim()).toMatch(/^There is no Temporal server on this machine: install [^\n]*TEMPORAL_ADDRESS[^\n]*\.$/)
  expect(stderr.trim()).not.toMatch(/[.!?] /)
}, 120_000)
