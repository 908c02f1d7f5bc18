import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { byWorker } from '../../../src/commands/cli/by-worker.ts'
import type { HostlessContext } from '../../../src/commands/command.ts'
import { occasion } from '../../support/integrations.ts'

let said: string[]
const context: HostlessContext = {
  from: undefined,
  terminal: {} as never,
  json: false,
  by: 'cli:test',
  signal: new AbortController().signal,
  progress: (text) => said.push(`progress: ${text}`),
  warn: (text) => said.push(`warning: ${text}`),
}

beforeEach(() => {
  said = []
  vi.useFakeTimers()
})
afterEach(() => vi.useRealTimers())

it('says that it waits, and after ten seconds that there may be no worker', async () => {
  const work = occasion<string>()
  const waiting = byWorker(context, work.happened)
  expect(said).toEqual(['progress: Waiting for a worker ...'])
  vi.advanceTimersByTime(9_999)
  expect(said).toHaveLength(1)
  vi.advanceTimersByTime(1)
  expect(said[1]).toMatch(/^warning: Still waiting: .* no worker runs\. `integrations doctor`/)
  vi.advanceTimersByTime(600_000)
  expect(said).toHaveLength(2)
  work.happen('done')
  expect(await waiting).toBe('done')
})

it('says no more when the work is over, or has failed', async () => {
  expect(await byWorker(context, Promise.resolve(7))).toBe(7)
  await expect(byWorker(context, Promise.reject(new Error('away')))).rejects.toThrow('away')
  expect(vi.getTimerCount()).toBe(0)
})
