/** What goes wrong between us and GitHub: the row that it leaves, its class, and what becomes of the sync. */
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { z } from 'zod'
import { callGitHub } from '../../../src/adapters/github/github-call.ts'
import { isGitHubRetryable } from '../../../src/adapters/github/github-failures.ts'
import { repositoryOf } from '../../../src/adapters/github/repository.ts'
import { HttpError } from '../../../src/framework/errors.ts'
import type { Integration } from '../../../src/providers/integration.ts'
import type { PlayedRepository } from './played-repository.ts'
import { answer, at, comment, issue, numbers, playRepository } from './played-repository.ts'

/** Two pages; nearly all are pull requests, so that what is timed is the listing. */
const ENTRIES = 150
const EVERY = 25

let github: PlayedRepository
let integration: Integration

beforeAll(async () => {
  github = await playRepository()
}, 60_000)
afterAll(() => github.kit.close())
beforeEach(async () => {
  github.forget()
  github.issues = entries(ENTRIES)
  integration = await github.integration()
})

function entries(count: number): object[] {
  return numbers(1, count).map((number) =>
    number % EVERY === 0 ? issue(number) : { ...issue(number), pull_request: {} },
  )
}

/** Answers the first requests for the second page so, in this order. */
function secondPage(...replies: (() => Response | Promise<Response>)[]): void {
  github.reply = ({ url }) => (new URL(url).searchParams.get('page') === '2' ? (replies.shift()?.() ?? null) : null)
}

async function sync(): Promise<{ seconds: number; rows: unknown[][] }> {
  const before = github.kit.clock.now().getTime()
  const { items, result } = await github.kit.sync(integration)
  expect(items.map(({ status }) => status)).toEqual(items.map(() => 'success'))
  const count = ENTRIES / EVERY
  expect([items.length, result.successCount, result.failureCount]).toEqual([count, count, 0])
  const rows = await github.kit.sql`
    select endpoint, status_code, failure_class from integration_requests where integration_id = ${integration.id} order by id`
  return {
    seconds: Math.round((github.kit.clock.now().getTime() - before) / 1_000),
    rows: rows.map((row) => [String(row.endpoint).replace(/^.*\?/, ''), row.status_code, row.failure_class]),
  }
}

const inSeconds = (seconds: number) => String(Math.floor(github.kit.clock.now().getTime() / 1_000) + seconds)
const asked = (...pages: number[]) => pages.map((page) => `issues?page=${page}`)

describe('a throttle in the middle of a listing puts the run off, and it goes on with the same page', () => {
  it.each<[string, () => Response, number, number]>([
    ['429 with Retry-After', () => answer(429, { message: 'Slow down' }, { 'retry-after': '90' }), 429, 90],
    ['429 without', () => answer(429, { message: 'Slow down' }), 429, 60],
    [
      'the secondary limit with Retry-After',
      () => answer(403, { message: 'You have exceeded a secondary rate limit' }, { 'retry-after': '120' }),
      403,
      120,
    ],
    [
      'the secondary limit without Retry-After: a minute',
      () => answer(403, { message: 'You have exceeded a secondary rate limit' }, { 'x-ratelimit-remaining': '4000' }),
      403,
      60,
    ],
    [
      'an exhausted bucket: until its reset, however far',
      () => {
        const headers = { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': inSeconds(2_400) }
        return answer(403, { message: 'API rate limit exceeded' }, headers)
      },
      403,
      2_400,
    ],
  ])('%s', async (_, reply, status, seconds) => {
    secondPage(reply)
    expect(await sync()).toEqual({
      seconds,
      rows: [
        ['page=1', 200, null],
        ['page=2', status, 'throttle'],
        ['page=2', 200, null],
      ],
    })
    expect(github.asked()).toEqual(asked(1, 2, 2))
    const [run] = await github.kit.sql`
      select status, metadata->'duplicates_dropped' as dropped from integration_logs
      where integration_id = ${integration.id} and operation = 'sync'`
    expect(run).toEqual({ status: 'success', dropped: 0 })
    expect((await integration.refresh()).healthStatus).toBe('healthy')
  })

  it('and as often as it takes, while pages come', async () => {
    const refused = new Set<string>()
    github.reply = ({ url }) => {
      const page = new URL(url).searchParams.get('page') ?? ''
      if (refused.has(page)) return null
      refused.add(page)
      return answer(429, { message: 'Slow down' }, { 'retry-after': '90' })
    }
    github.issues = entries(600)
    const { items } = await github.kit.sync(integration)
    expect(items).toHaveLength(600 / EVERY)
    expect(github.asked()).toEqual(asked(1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7))
  })
})

describe('trouble of GitHub’s is met by another attempt, and the listing goes on', () => {
  it.each<[string, () => Response | Promise<Response>, number | null]>([
    ['500, then 200', () => answer(500, { message: 'Server Error' }, { 'retry-after': '0' }), 500],
    ['a dropped connection', () => Promise.reject(new Error('dropped')), null],
    ['a body that breaks off', () => cutBody(), 200],
  ])('%s', async (_, reply, status) => {
    secondPage(reply)
    const { rows } = await sync()
    expect(rows).toEqual([
      ['page=1', 200, null],
      ['page=2', status, 'upstream'],
      ['page=2', 200, null],
    ])
  })
})

/** As a call has it that asks for no other: docs/behaviour/requests.md, "Options". */
const TIMEOUT_MS = 30_000

describe('an answer that does not come in time', () => {
  it('is trouble of GitHub’s: another attempt is made, and the listing goes on', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    secondPage(() => {
      vi.advanceTimersByTime(TIMEOUT_MS)
      return new Promise<Response>(() => {})
    })
    const { rows } = await sync()
    expect(rows).toEqual([
      ['page=1', 200, null],
      ['page=2', null, 'upstream'],
      ['page=2', 200, null],
    ])
  })
})

describe('after the list', () => {
  /** Of the two pages of comments the second names an issue that the list left out. */
  const MISSING = 900
  const UNDISTURBED = [
    'issues?page=1',
    'issues?page=2',
    'issues/comments?page=1',
    'issues/comments?page=2',
    'issues/900',
  ]
  /** A run that is put off goes on from its bookmark: before the second page of comments. */
  const AGAIN = UNDISTURBED.slice(3)
  const PLACES = [
    { where: 'the comments feed', asked: 'issues/comments?page=2' },
    { where: 'the fetch of a missing parent', asked: 'issues/900' },
  ]

  beforeEach(async () => {
    await integration.updateSyncCursor(at(0))
    github.comments = [...numbers(1, 100).map(() => comment(EVERY)), comment(MISSING)]
    github.alone = new Map([[MISSING, issue(MISSING, at(1))]])
  })

  /** Answers the first request for this so. */
  function once(place: string, reply: () => Response | Promise<Response>): void {
    let isDone = false
    github.reply = () => {
      if (isDone || github.asked().at(-1) !== place) return null
      isDone = true
      return reply()
    }
  }

  async function run(): Promise<number> {
    const before = github.kit.clock.now().getTime()
    const { items, result, syncLogId } = await github.kit.sync(integration)
    expect(items.map(({ externalId }) => Number(externalId))).toEqual([25, 50, 75, 100, 125, 150, MISSING])
    expect(result).toMatchObject({ successCount: 7, failureCount: 0 })
    const [log] = await github.kit.sql`
      select status, metadata->'duplicates_dropped' as dropped from integration_logs where id = ${syncLogId}`
    expect(log).toEqual({ status: 'success', dropped: 0 })
    return Math.round((github.kit.clock.now().getTime() - before) / 1_000)
  }

  const throttles: [string, () => Response, number][] = [
    ['429 with Retry-After', () => answer(429, { message: 'Slow down' }, { 'retry-after': '90' }), 90],
    [
      '403 with nothing remaining',
      () => {
        const headers = { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': inSeconds(2_400) }
        return answer(403, { message: 'API rate limit exceeded' }, headers)
      },
      2_400,
    ],
  ]
  it.each(
    PLACES.flatMap(({ where, asked: place }) =>
      throttles.map(([what, reply, seconds]) => [what, where, seconds, place, reply] as const),
    ),
  )('%s in %s puts the run off for %d s, and nothing is lost', async (_, __, seconds, place, reply) => {
    once(place, reply)
    expect(await run()).toBe(seconds)
    expect(github.asked()).toEqual([...UNDISTURBED.slice(0, UNDISTURBED.indexOf(place) + 1), ...AGAIN])
  })

  const troubles: [string, () => Response | Promise<Response>][] = [
    ['500, then 200', () => answer(500, { message: 'Server Error' }, { 'retry-after': '0' })],
    ['a dropped connection', () => Promise.reject(new Error('dropped'))],
  ]
  it.each(
    PLACES.flatMap(({ where, asked: place }) => troubles.map(([what, reply]) => [what, where, place, reply] as const)),
  )('%s in %s is met by another attempt', async (_, __, place, reply) => {
    once(place, reply)
    await run()
    const index = UNDISTURBED.indexOf(place)
    expect(github.asked()).toEqual([...UNDISTURBED.slice(0, index + 1), ...UNDISTURBED.slice(index)])
  })

  it('a wait of more than an hour moves the cursor past nothing that was updated meanwhile', async () => {
    const began = Date.parse(at(ENTRIES))
    github.issues.reverse()
    let isThrottled = false
    github.reply = () => {
      const place = github.asked().at(-1)
      // GitHub's own clock: the kit's runs months ahead of these issues.
      if (place === 'issues?page=1')
        return answer(200, github.issues.slice(0, 100), { date: new Date(began).toUTCString() })
      if (place !== 'issues/comments?page=2' || isThrottled) return null
      isThrottled = true
      // Not listed: the first page was read before. The missing parent is commented on later still.
      github.issues = [issue(EVERY, at(ENTRIES + 40)), ...github.issues.filter((_, index) => index !== EVERY - 1)]
      github.alone.set(MISSING, issue(MISSING, at(ENTRIES + 120)))
      return answer(429, { message: 'Slow down' }, { 'retry-after': '7200' })
    }
    const { items } = await github.kit.sync(integration)
    expect(items.find(({ externalId }) => externalId === String(MISSING))?.checkpointValue).toBe(at(ENTRIES + 120))
    const cursor = Date.parse(String((await integration.refresh()).syncCursor))
    expect(cursor).toBeLessThan(began)
    expect(cursor).toBeGreaterThan(Date.parse(at(ENTRIES - 1)))
    await github.kit.sync(integration)
    const since = github.urls().at(-UNDISTURBED.length)?.searchParams.get('since')
    expect(Date.parse(String(since))).toBe(cursor - 3_600_000)
  })

  it('a run that lists nothing moves the cursor by what it recovers', async () => {
    github.issues = []
    await github.kit.sync(integration)
    expect((await integration.refresh()).syncCursor).toBe(at(1))
  })
})

describe('a call', () => {
  const call = (options: { timeoutMs?: number; attempts?: number }) => {
    const repository = repositoryOf(integration)
    const request = repository.endpoint('GET /user', {})
    return callGitHub(repository, z.unknown(), { endpoint: 'user', request, attempts: 1, ...options })
  }
  const row = async () => {
    const [found] = await github.kit.sql`
      select status_code, failure_class, error from integration_requests where integration_id = ${integration.id} order by id desc limit 1`
    return found
  }

  it('whose answer comes past the timeout is trouble of GitHub’s, and comes out as itself', async () => {
    github.reply = () => new Promise<Response>(() => {})
    await expect(call({ timeoutMs: 20 })).rejects.toMatchObject({ code: 'request_timeout' })
    expect(await row()).toMatchObject({ status_code: null, failure_class: 'upstream' })
  })

  it('that GitHub refuses is the caller’s, made once, and trips nothing', async () => {
    github.reply = () => answer(403, { message: 'Resource not accessible by personal access token' })
    await expect(call({ attempts: 3 })).rejects.toMatchObject({ code: 'http_error', status: 403 })
    expect(github.asked()).toHaveLength(1)
    expect(await row()).toMatchObject({ status_code: 403, failure_class: 'client' })
    expect((await integration.refresh()).healthStatus).toBe('healthy')
  })

  it('outside of a sync is not made again where the wait is longer than the longest: the gate holds', async () => {
    const headers = { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': inSeconds(2_400) }
    github.reply = () => answer(403, { message: 'API rate limit exceeded' }, headers)
    await expect(call({ attempts: 3 })).rejects.toMatchObject({ code: 'http_error', status: 403 })
    await expect(call({ attempts: 3 })).rejects.toMatchObject({ code: 'rate_limit_exceeded', retryAfterSeconds: 2_400 })
    expect(github.asked()).toHaveLength(1)
  })
})

describe('another attempt', () => {
  const now = new Date('2026-03-01T12:00:00Z')
  const throttled = (seconds: number) => new HttpError(429, new Headers({ 'retry-after': String(seconds) }), null)

  it.each<[string, unknown, boolean | null]>([
    ['after the longest wait is left to the framework', throttled(600), null],
    ['after a second more is refused', throttled(601), false],
    [
      'after anything else is left to the framework',
      new HttpError(500, new Headers({ 'retry-after': '900' }), null),
      null,
    ],
  ])('%s', (_, error, verdict) => {
    expect(isGitHubRetryable(error, { now, longestSeconds: 600 })).toBe(verdict)
  })
})

/** A part of the list, and then the connection is gone. */
function cutBody(): Response {
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      controller.enqueue(new TextEncoder().encode('[{"id":1,'))
      controller.error(Object.assign(new Error('other side closed'), { code: 'UND_ERR_SOCKET' }))
    },
  })
  return new Response(body, { status: 200, headers: { 'content-type': 'application/json' } })
}
