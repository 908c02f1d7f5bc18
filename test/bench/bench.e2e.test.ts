import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const QUICK_SECONDS = 60

interface Printed {
  readonly name: string
  readonly machine: string
  readonly figures: readonly { readonly name: string; readonly value: number; readonly unit: string }[]
  readonly targets: readonly { readonly value: number; readonly goal: number; readonly met: boolean }[]
}

/** As `npm run bench` runs it. */
function bench(...words: string[]): Promise<{ code: number; stdout: string; stderr: string; seconds: number }> {
  const startedAt = performance.now()
  const script = ['--import', 'tsx', '--conditions=durable-source', 'bench/main.ts', ...words]
  return new Promise((resolve) => {
    execFile(process.execPath, script, { cwd: ROOT, timeout: 150_000 }, (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === 'number' ? error.code : -1
      resolve({ code, stdout, stderr, seconds: (performance.now() - startedAt) / 1_000 })
    })
  })
}

describe('the bench command', () => {
  it('measures outbound calls quickly, and says so in a line of JSON', async () => {
    const { code, stdout, stderr, seconds } = await bench('request', '--quick', '--json')
    expect(stderr).not.toMatch(/Error/)
    expect(code).toBe(0)
    expect(seconds).toBeLessThan(QUICK_SECONDS)
    const printed = JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '') as Printed
    expect(printed.name).toBe('request')
    expect(printed.machine).toContain(`Node ${process.versions.node}`)
    expect(printed.targets).toHaveLength(5)
    expect(printed.figures.length).toBeGreaterThanOrEqual(11)
    for (const { value } of printed.figures) expect(value).toBeGreaterThan(0)
    for (const { value } of printed.targets) expect(value).toBeTypeOf('number')
  })

  it.each([[[]], [['nothing']], [['request', '--fast']], [['request', 'webhooks']]])(
    'says how it is used when it gets %j',
    async (words) => {
      const { code, stdout, stderr } = await bench(...words)
      expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
      expect(stderr).toContain('npm run bench --')
    },
  )
})
