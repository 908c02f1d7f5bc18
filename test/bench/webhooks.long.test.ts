import { describe, expect, it } from 'vitest'
import type { Printed } from '../../bench/frame.ts'
import { bench, QUICK_SECONDS } from './bench-command.ts'

describe('the bench of webhooks', () => {
  it('measures quickly what it can, and says what it left out', async () => {
    const { code, stdout, stderr, seconds } = await bench('webhooks', '--quick', '--json')
    expect(stderr).not.toMatch(/Error/)
    expect(code).toBe(0)
    expect(seconds).toBeLessThan(QUICK_SECONDS)
    expect(stdout).toContain('Left out by --quick: a workflow per webhook, BullMQ and pg-boss; end to end;')
    const printed = JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '') as Printed
    expect(printed.name).toBe('webhooks')
    expect(printed.leftOut).toHaveLength(5)
    expect(printed.targets).toHaveLength(6)
    expect(printed.figures).toHaveLength(8)
    for (const { value } of printed.figures) expect(value).toBeGreaterThan(0)
  })
})
