import { describe, expect, it } from 'vitest'
import type { Printed } from '../../bench/frame.ts'
import { bench, QUICK_SECONDS } from './bench-command.ts'

describe('the bench of syncs', () => {
  it('measures quickly what it can, and says what it left out', async () => {
    const { code, stdout, stderr, seconds } = await bench('sync', '--quick', '--json')
    expect(stderr).not.toMatch(/Error/)
    expect(code).toBe(0)
    expect(seconds).toBeLessThan(QUICK_SECONDS)
    expect(stdout).toContain('Left out by --quick: 100,000 items; 1,000 integrations due at once.')
    const printed = JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '') as Printed
    expect(printed.name).toBe('sync')
    expect(printed.targets).toHaveLength(5)
    expect(printed.figures).toHaveLength(9)
    // A run without a failure may do without a local activity, and all else takes time.
    for (const { name, value } of printed.figures)
      if (name !== 'a run of 200 items: local ones') expect(value, name).toBeGreaterThan(0)
  })
})
