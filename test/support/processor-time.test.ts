import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { processorMs } from './processor-time.ts'

const BUSY_MS = 50
const ASLEEP_MS = 500

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'durable-schedstat-'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const busy = (): void => {
  const { user, system } = process.cpuUsage()
  for (;;) {
    const spent = process.cpuUsage({ user, system })
    if (spent.user + spent.system >= BUSY_MS * 1_000) return
  }
}

describe("the processor's time", () => {
  it('grows by what is done, and not by what is waited for', () => {
    expect(processorMs(busy)).toBeGreaterThan(0)
    expect(processorMs(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ASLEEP_MS))).toBeLessThan(
      ASLEEP_MS,
    )
  })

  it.each([
    ['a system that does not tell it of a thread', 'missing'],
    ['a system that tells it as 0', 'zero'],
  ])("is the process's on %s", (_, name) => {
    const ofTheThread = join(folder, name)
    if (name === 'zero') writeFileSync(ofTheThread, '0 0 0\n')
    expect(processorMs(busy, { ofTheThread })).toBeGreaterThanOrEqual(BUSY_MS)
  })
})
