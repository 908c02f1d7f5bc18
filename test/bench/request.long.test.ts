import { describe, expect, it } from 'vitest'
import type { Printed } from '../../bench/frame.ts'
import { bench, QUICK_SECONDS } from './bench-command.ts'

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

  it.concurrent.each([[[]], [['nothing']], [['request', '--fast']], [['request', 'webhooks']]])(
    'says how it is used when it gets %j',
    async (words) => {
      const { code, stdout, stderr } = await bench(...words)
      expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
      expect(stderr).toContain('npm run bench --')
    },
  )
})
