import { expect, it } from 'vitest'
import type { Stack } from '../../dev/stack.ts'
import { keepTrafficGoing } from '../../dev/traffic.ts'

it('goes on after a failure at its beginning', async () => {
  const stop = new AbortController()
  const reported: string[] = []
  const start = () => Promise.reject(new Error('the sync does not start'))
  await keepTrafficGoing({ integrations: { syncs: { start } }, integrationId: 1 } as unknown as Stack, {
    signal: stop.signal,
    isSteady: true,
    report: (line) => {
      reported.push(line)
      stop.abort()
    },
  })
  expect(reported).toEqual(['the sync does not start'])
})
