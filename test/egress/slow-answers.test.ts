/** Answers that take long. In a file of its own: undici keeps one timer for all its connections, here by the test's clock. */
import type { ServerResponse } from 'node:http'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { occasion } from '../support/integrations.ts'
import { egress, serve } from './servers.ts'

const LONGEST_CALL_MS = 600_000

beforeAll(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }))
afterAll(() => void vi.useRealTimers())

it.each(['a connection', 'a proxy'])('an answer by %s may be as slow as the longest call', async (way) => {
  const asked = occasion()
  let answer: ServerResponse | undefined
  const server = await serve((_request, response) => {
    answer = response
    asked.happen()
  })
  const allow = ['127.0.0.1']
  const fetch = egress(way === 'a proxy' ? { allow, proxy: server.url } : { allow }).fetch()
  const answered = fetch(`${server.url}/slow`)
  await asked.happened
  vi.advanceTimersByTime(LONGEST_CALL_MS)
  answer?.write('slow')
  const response = await answered
  vi.advanceTimersByTime(LONGEST_CALL_MS)
  answer?.end('ly')
  expect(await response.text()).toBe('slowly')
})
