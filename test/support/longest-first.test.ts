import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import type { TestSpecification, Vitest } from 'vitest/node'
import { LongestFirst, SECONDS } from './longest-first.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))

it('each file whose time is known is there', () => {
  const files = readdirSync(`${ROOT}test`, { recursive: true, encoding: 'utf8' }).map((path) => `test/${path}`)
  expect(files).toEqual(expect.arrayContaining(Object.keys(SECONDS)))
})

it('group by group: what waits beside what works, the longest of each first, and a project that shares its processes in one row', async () => {
  const cache = { getFileTestResults: () => undefined, getFileStats: () => undefined }
  const vitest = { config: { root: '/clone' }, cache } as unknown as Vitest
  const of = (project: string, groupOrder: number, ...paths: string[]) =>
    paths.map((path) => ({
      moduleId: `/clone/${path}`,
      project: { name: project, config: { sequence: { groupOrder } } },
    })) as unknown as TestSpecification[]
  const [kills, restarts, halfMinutes] = ['kill-worker', 'restart', 'half-minutes'].map(
    (name) => `test/e2e/${name}.e2e.test.ts`,
  ) as [string, string, string]
  const starts = 'test/temporal/remembered-starts.e2e.test.ts'
  const [outage, listing] = ['provider-outage', 'sync-listing'].map((name) => `test/workflows/${name}.workflow.test.ts`)
  const given = [
    ...of('workflows', 2, 'a.workflow.test.ts', listing as string, outage as string),
    ...of('e2e', 2, 'b.e2e.test.ts', starts, restarts, kills, halfMinutes),
    ...of('fast', 0, 'c.test.ts'),
  ]
  const sorted = await new LongestFirst(vitest).sort(given)
  expect(sorted.map(({ moduleId }) => moduleId.slice('/clone/'.length))).toEqual([
    'c.test.ts',
    ...[kills, halfMinutes, restarts, starts, 'b.e2e.test.ts'],
    ...[listing, outage, 'a.workflow.test.ts'],
  ])
})
