import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { DemoSummary } from '../../dev/demo.ts'
import { runNpm } from './dev-command.ts'

let folder: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'durable-demo-'))
})

afterAll(() => rm(folder, { recursive: true, force: true }))

describe('npm run demo', () => {
  it('exits 0 with every webhook processed, every item a success and every call in a row', async () => {
    const demo = runNpm('demo', ['--data', folder])
    const { code } = await demo.exited
    expect(code, demo.lines.join('\n')).toBe(0)

    const summary = JSON.parse(demo.lines.at(-1) ?? '') as DemoSummary
    expect(summary).toMatchObject({
      ok: true,
      faults: [],
      webhooks: { sent: 329, accepted: 329, processed: 329, handlerRuns: 329 },
      // 340 entries, 42 of them pull requests.
      firstSync: { status: 'success', items: 298, succeeded: 298 },
      incrementalSync: { status: 'success' },
      issues: { atProvider: 301, stored: 301 },
    })
    expect(summary.items.success).toBe(summary.items.total)
    expect(summary.items.total).toBe(298 + summary.incrementalSync.items)
    expect(summary.incrementalSync.items).toBeGreaterThanOrEqual(10)
    expect(summary.requests.rows).toBe(summary.requests.calls)
    expect(summary.incrementalSync.cursor).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/)
  })
})
