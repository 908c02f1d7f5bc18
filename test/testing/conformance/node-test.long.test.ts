/** The suite under node:test: some 5 s of a process of its own, so with the long tests. */
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'

const SUITE = fileURLToPath(new URL('./node-test-suite.ts', import.meta.url))
const run = (label: string) =>
  promisify(execFile)(process.execPath, ['--import', 'tsx', '--conditions=durable-source', SUITE, label])

describe('the suite under node:test', () => {
  it('passes for a provider that holds to its contracts', async () => {
    const { stdout } = await run('Tiny')
    expect(stdout).toMatch(/^# fail 0$/m)
    expect(Number(/^# pass (\d+)$/m.exec(stdout)?.[1])).toBeGreaterThan(10)
  }, 120_000)

  it('fails for one that does not, and says why', async () => {
    await expect(run('')).rejects.toMatchObject({
      code: 1,
      stdout: expect.stringContaining('label must be a text that is not empty'),
    })
  }, 120_000)
})
