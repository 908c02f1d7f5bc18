import { describe, expect, it } from 'vitest'
import type { Printed } from '../../bench/frame.ts'
import { bench, QUICK_SECONDS } from './bench-command.ts'

describe('the bench of the GitHub adapter', () => {
  it('measures quickly what it can, after it has counted requests and issues', async () => {
    const { code, stdout, stderr, seconds } = await bench('github', '--quick', '--json')
    expect(stderr).not.toMatch(/Error/)
    expect(code).toBe(0)
    expect(seconds).toBeLessThan(QUICK_SECONDS)
    const printed = JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '') as Printed
    expect(printed.name).toBe('github')
    expect(printed.targets).toHaveLength(3)
    expect(printed.figures.map(({ name }) => name)).toContain('requests of the larger sync')
    expect(printed.figures.find(({ name }) => name === 'requests of the larger sync')?.value).toBe(21)
  })
})
