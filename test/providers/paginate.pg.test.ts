/**
 * `paginate()` against a server that misbehaves, over HTTP, as a run on a real Postgres lists it: try by try, with the bookmarks of
 * the session. Rule: docs/behaviour/sync-listing.md, "Lists of pages".
 */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { statusOf } from '../../src/calls/failure-class-rules.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { runActivity } from '../support/activities.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { Fault, HostileLists, Kind, Row, Script } from '../support/hostile-lists.ts'
import { KINDS, LIMIT, startHostileLists } from '../support/hostile-lists.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import type { PagedMetadata } from '../support/paged-provider.ts'
import { PagedProvider } from '../support/paged-provider.ts'
import { itemsOf, logOf, makeIntegration, makeRun } from '../support/rows.ts'

const ROWS = 47
/** All rows, and no others: three halves until a window has fewer than a page. */
const WINDOW = { from: '2031-01-01T00:00:00Z', to: '2031-01-01T00:16:00Z' }
/** Of the workflow: docs/behaviour/sync-listing.md, "Faults, lost workers, deferrals". */
const TRIES = 3

let database: TestDatabase
let test: TestIntegrations
let server: HostileLists

/** Waits no seconds of its class after a fault without an answer; an answer says itself when to come back. */
class PromptProvider extends PagedProvider {
  readonly retryDelayMs = (error: unknown): number | null => (statusOf(error) === null ? 0 : null)
}

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, {
    providers: { paged: new PromptProvider() },
    egress: { allow: ['127.0.0.1'] },
  })
  server = await startHostileLists()
})

afterAll(async () => {
  await server.close()
  await test.close()
  await database.drop()
})

beforeEach(() => {
  server.received.length = 0
  server.script = () => undefined
  server.rows = rowsOf(ROWS)
})

/** Minutes after the hour, three rows each: pages end within a minute. */
function rowsOf(count: number): Row[] {
  return Array.from({ length: count }, (_, n) => rowAt(n + 1, Math.floor(n / 3)))
}

function rowAt(id: number, minute: number): Row {
  return { id, updated_at: new Date(Date.UTC(2031, 0, 1, 0, minute)).toISOString() }
}

interface Listed {
  readonly ids: readonly number[]
  readonly rows: Awaited<ReturnType<typeof itemsOf>>
  readonly errors: readonly { readonly type?: string; readonly message: string }[]
  readonly metadata: Record<string, unknown>
  readonly isComplete: boolean
}

/** Tries as the workflow does, without its waits. */
async function list(kind: Kind, metadata: Partial<PagedMetadata> = {}): Promise<Listed> {
  const integration = await makeIntegration(test, 'paged', {
    metadata: { kinds: [kind], url: server.url, ...WINDOW, ...metadata },
  })
  const run = await makeRun(test, integration.id, { enumerated: false })
  const errors: { message: string }[] = []
  let isComplete = false
  for (let attempt = 1; !isComplete && errors.length < TRIES; attempt += 1) {
    const input = { integrationId: integration.id, syncLogId: run.id, attempt }
    try {
      const { kind: end } = await runActivity(test.activities.listSyncItems, input, { onStart: takeCancel })
      isComplete = end === 'listed'
      // What the workflow waits for is over.
      if (end === 'deferred') await forgetSuppression(integration)
    } catch (error) {
      errors.push(error as Error)
    }
  }
  const rows = await itemsOf(test, run.id)
  const { metadata: noted } = await logOf(test, run.id)
  const ids = rows.map(({ externalId }) => Number(externalId))
  return { ids, rows, errors, metadata: noted as Record<string, unknown>, isComplete }
}

let cancel: () => void
const takeCancel = (given: () => void) => {
  cancel = given
}

async function forgetSuppression({ id }: Integration): Promise<void> {
  await test.sql`delete from integration_cache where key like ${`%integration:${id}:%`}`
}

/** Each row that was there all the time is there once, and no item twice. */
function expectAll(
  { ids, isComplete, errors }: Listed,
  expected: readonly number[] = rowsOf(ROWS).map(({ id }) => id),
) {
  expect({ isComplete, messages: errors.map(({ message }) => message) }).toMatchObject({ isComplete: true })
  expect(ids.filter((id, at) => ids.indexOf(id) !== at)).toEqual([])
  expect(expected.filter((id) => !ids.includes(id))).toEqual([])
}

/** @param page from 1; windows need some requests before the first one that has all of its rows */
const on =
  (kind: Kind, page: (n: number) => Fault | undefined): Script =>
  (n) =>
    page(kind === 'windows' ? n - 3 : n)

const only = (kind: Kind, page: number, fault: Fault): Script => on(kind, (n) => (n === page ? fault : undefined))

/** Rows of the first page: the place is behind them from the second request on. */
const FIRST = [1, 2, 3]
const SURVIVORS = rowsOf(ROWS)
  .map(({ id }) => id)
  .filter((id) => !FIRST.includes(id))

describe.each(KINDS)('a list by %s', (kind) => {
  it('is listed whole, and no further', async () => {
    const listed = await list(kind)
    expectAll(listed)
    expect(listed.ids).toHaveLength(ROWS)
    expect(listed.metadata).toMatchObject({ listed: ROWS, duplicates_dropped: 0 })
  })

  it.each([0, 1, LIMIT - 1, LIMIT, LIMIT + 1, 2 * LIMIT])('of %d rows ends', async (count) => {
    server.rows = rowsOf(count)
    expect((await list(kind)).ids.toSorted((a, b) => a - b)).toEqual(rowsOf(count).map(({ id }) => id))
  })

  it.each<[string, Fault]>([
    ['a 429', { status: 429, headers: { 'retry-after': '0' } }],
    ['a 500', { status: 500, headers: { 'retry-after': '0' } }],
    ['a 503', { status: 503, headers: { 'retry-after': '0' } }],
  ])('is asked again within the call after %s', async (_, fault) => {
    server.script = on(kind, (n) => (n === 3 || n === 4 ? fault : undefined))
    const listed = await list(kind)
    expectAll(listed)
    expect(listed.errors).toEqual([])
  })

  it.each<[string, Fault, { tries: number }]>([
    ['429s that last', { status: 429, headers: { 'retry-after': '600' } }, { tries: 1 }],
    ['500s that last', { status: 500, headers: { 'retry-after': '0' } }, { tries: 3 }],
    ['HTML in place of JSON', { text: '<html>Sorry</html>' }, { tries: 1 }],
    ['JSON of another shape', { text: '{"rows":null}' }, { tries: 1 }],
  ])('goes on at its bookmark after %s', async (_, fault, { tries }) => {
    server.script = on(kind, (n) => (n >= 4 && n < 4 + tries ? fault : undefined))
    expectAll(await list(kind))
    expectNoRestart(kind)
  })

  it('goes on after a body that was cut', async () => {
    server.script = only(kind, 3, { isCut: true })
    expectAll(await list(kind))
    expectNoRestart(kind)
  })

  it('goes on at its bookmark when its worker stops in the middle', async () => {
    server.script = only(kind, 4, { hang: () => cancel() })
    const listed = await list(kind)
    expectAll(listed)
    expect(listed.errors).toHaveLength(1)
    expectNoRestart(kind)
  })

  it('takes the right page when the one before was given once more', async () => {
    server.script = only(kind, 3, { answer: (_, earlier) => ({ rows: earlier.at(-1)?.rows ?? [] }) })
    expectAll(await list(kind))
  })

  it('fails where one page is given for ever, and keeps its bookmark', async () => {
    server.script = () => ({
      answer: (_, earlier) => ({ rows: earlier[0]?.rows ?? rowsOf(LIMIT), next: `${server.received.length}` && null }),
    })
    if (kind === 'cursor')
      server.script = () => ({ answer: () => ({ rows: rowsOf(LIMIT), next: `${server.received.length}` }) })
    if (kind === 'link')
      server.script = () => ({
        answer: () => ({ rows: rowsOf(LIMIT), next: `${server.url}/link?after=${server.received.length}` }),
      })
    const listed = await list(kind, { from: '2031-01-01T00:00:00Z', to: '2031-01-01T00:16:00Z' })
    expect(listed.isComplete).toBe(false)
    expect(listed.errors.map(({ type }) => type)).toEqual(Array(TRIES).fill('pagination_failed'))
    expect(listed.metadata.bookmark).toBeDefined()
    expect(server.received.length).toBeLessThan(60)
  })

  it('loses none when rows of the first page go', async () => {
    server.script = only(kind, 2, { change: (rows) => rows.filter(({ id }) => !FIRST.includes(id)) })
    expectAll(await list(kind), SURVIVORS)
  })

  it('loses none when a whole page goes', async () => {
    server.script = only(kind, 3, { change: (rows) => rows.filter(({ id }) => id > LIMIT) })
    expectAll(
      await list(kind),
      rowsOf(ROWS)
        .map(({ id }) => id)
        .filter((id) => id > LIMIT),
    )
  })

  it('loses none when rows go before each of the next pages', async () => {
    server.script = on(kind, (n) => (n > 1 && n < 6 ? { change: (rows) => rows.slice(1) } : undefined))
    expectAll(
      await list(kind),
      rowsOf(ROWS)
        .map(({ id }) => id)
        .filter((id) => id > 4),
    )
  })

  it('loses none when rows come in front', async () => {
    server.script = only(kind, 3, {
      change: (rows) => [...Array.from({ length: 13 }, (_, n) => rowAt(-n, -1 - n)), ...rows],
    })
    expectAll(await list(kind))
  })

  it('loses none when rows come and go', async () => {
    server.script = on(kind, (n) => {
      if (n === 2) return { change: (rows) => rows.filter(({ id }) => !FIRST.includes(id)) }
      return n === 3
        ? { change: (rows) => [...Array.from({ length: 4 }, (_, n) => rowAt(-n, -1 - n)), ...rows] }
        : undefined
    })
    expectAll(await list(kind), SURVIVORS)
  })

  it('that grows without end stops at the maximum, and keeps its bookmark', async () => {
    let last = ROWS
    server.script = () => ({
      change: (rows) => {
        last += 2 * LIMIT
        return [...rows, ...Array.from({ length: 2 * LIMIT }, (_, n) => rowAt(last - n, last - n))]
      },
    })
    const listed = await list(kind, { maxPages: 12, to: '2040-01-01T00:00:00Z' })
    expect(listed.isComplete).toBe(false)
    expect(listed.errors[0]).toMatchObject({
      type: 'pagination_failed',
      message: expect.stringMatching(/has not ended after 12 pages.*maxPages/),
    })
    expect(listed.metadata.bookmark).toBeDefined()
    expect(server.received.length).toBeLessThanOrEqual(12)
  })
})

/** A list by page number is walked twice, where nothing shifted. */
function expectNoRestart(kind: Kind): void {
  const [first] = server.received
  expect(server.received.filter(({ url }) => url === first?.url)).toHaveLength(kind === 'page' ? 2 : 1)
}

const expectFault = ({ isComplete, errors }: Listed, message: RegExp) => {
  expect(isComplete).toBe(false)
  for (const { type, message: said } of errors)
    expect([type, said]).toEqual(['pagination_failed', expect.stringMatching(message)])
}

const leadingTo = (kind: Kind, next: (n: number) => string): Script => {
  const named = (n: number): string => (kind === 'link' ? `${server.url}/link?after=${next(n)}` : next(n))
  return (n) => ({ answer: () => ({ next: named(n) }) })
}

describe.each<Kind>(['cursor', 'link'])('a list by %s that loops', (kind) => {
  it.each<[string, readonly string[]]>([
    ['to the same page', ['20']],
    ['between two pages', ['10', '20']],
    ['over seven pages', ['5', '10', '15', '20', '25', '30', '35']],
  ])('%s ends with an error that names the place', async (_, places) => {
    server.script = leadingTo(kind, (n) => places[n % places.length] as string)
    const listed = await list(kind)
    expectFault(listed, /(leads back to|rows of the page before)/)
    expect(server.received.length).toBeLessThan(60)
    expect(listed.metadata.bookmark).toBeDefined()
  })

  it('is found also where no try gets around the loop', async () => {
    const places = ['5', '10', '15', '20', '25', '30', '35']
    const loop = leadingTo(kind, (n) => places[n % places.length] as string)
    server.script = (n) => (n % 4 === 0 ? { status: 429, headers: { 'retry-after': '600' } } : loop(n))
    expectFault(await list(kind), /leads back to/)
    expect(server.received.length).toBeLessThan(60)
  })
})

describe('a page in the middle', () => {
  const EMPTY: Fault = { answer: () => ({ rows: [] }) }
  const hidden = (id: number): boolean => id > 10 && id <= 20

  it.each<Kind>(['cursor', 'link'])('that is empty does not end a list by %s', async (kind) => {
    server.script = only(kind, 2, EMPTY)
    expectAll(await list(kind), SOME)
  })

  const SOME = rowsOf(ROWS)
    .map(({ id }) => id)
    .filter((id) => !hidden(id))

  it.each(['more', 'pages'] as const)('that is empty does not end a list by page number with `%s`', async (endsBy) => {
    server.script = only('page', 2, EMPTY)
    // The second walk finds what it should have had.
    expectAll(await list('page', { endsBy }))
  })

  it.each<Kind>(['cursor', 'link', 'ids'])('that is an older one is asked for again, in a list by %s', async (kind) => {
    server.script = only(kind, 4, { answer: (_, earlier) => ({ rows: earlier[0]?.rows ?? [] }) })
    expectAll(await list(kind))
    // By ids an empty page ends the list.
    expect(server.received).toHaveLength(kind === 'ids' ? 7 : 6)
  })

  it.each(KINDS)('has a row twice: it is one item, in a list by %s', async (kind) => {
    server.script = only(kind, 2, { answer: ({ rows }) => ({ rows: [...rows, ...rows.slice(-1)] }) })
    expectAll(await list(kind))
  })
})

describe('the link to the next page', () => {
  it.each([
    ['another host', 'https://api.evil.example/link?after=10'],
    ['another port', 'http://127.0.0.1:1/link?after=10'],
    ['another scheme', 'ftp://127.0.0.1/link'],
    ['user info', 'http://me:secret@127.0.0.1/link'],
    ['no URL', 'http://[/'],
  ])('to %s is refused, and nothing is sent there', async (_, next) => {
    server.script = only('link', 2, { answer: () => ({ next }) })
    const listed = await list('link')
    // Asked again it is right: a fault of the server's, not of the list.
    expectAll(listed)
    expect(listed.errors).toMatchObject([
      { type: 'pagination_failed', message: expect.stringContaining('must lead to') },
    ])
  })

  it.each(['/link?after=10', '?after=10', 'link?after=10'])('may be relative: %s', async (next) => {
    server.script = only('link', 1, { answer: () => ({ next }) })
    expectAll(await list('link'))
  })
})

describe('a list by page number', () => {
  it.each(['more', 'pages', 'size'] as const)('that ends by `%s` asks for no page behind the last', async (endsBy) => {
    expectAll(await list('page', { endsBy, walks: 1 }))
    expect(server.received.map(({ url }) => url)).toEqual([1, 2, 3, 4, 5].map((page) => `/page?page=${page}`))
  })

  it('of one page is walked once', async () => {
    server.rows = rowsOf(LIMIT)
    await list('page', { endsBy: 'pages' })
    expect(server.received).toHaveLength(1)
  })

  it('that is walked once may lose a row: why it is walked again', async () => {
    server.script = only('page', 2, { change: (rows) => rows.filter(({ id }) => !FIRST.includes(id)) })
    const { ids } = await list('page', { walks: 1 })
    expect(SURVIVORS.filter((id) => !ids.includes(id))).toEqual([11, 12, 13])
  })

  it('that never comes to rest is left after five walks, with a warning', async () => {
    let last = ROWS
    server.script = () => {
      last += 1
      return { change: (rows) => [...rows.slice(1), rowAt(last, last)] }
    }
    const listed = await list('page', { endsBy: 'size' })
    expect(listed.isComplete).toBe(true)
    expect(server.received).toHaveLength(25)
    const warnings = test.lines.filter(({ fields }) => fields.event === 'sync.provider_warning')
    expect(warnings.at(-1)?.message).toContain('changed in each of 5 walks')
  })
})

describe('a list by keyset', () => {
  it('loses no row of a second that ends a page', async () => {
    server.rows = [...rowsOf(6), ...Array.from({ length: 8 }, (_, n) => rowAt(7 + n, 3)), rowAt(15, 4)]
    expectAll(
      await list('times'),
      server.rows.map(({ id }) => id),
    )
  })

  it('with more rows of one time than a page holds is refused, and not left short', async () => {
    server.rows = [...rowsOf(6), ...Array.from({ length: 12 }, (_, n) => rowAt(7 + n, 3)), rowAt(20, 4)]
    expectFault(await list('times'), /several rows have the same updated_at.*10 rows or more/)
  })

  it('whose rows do not ascend is refused', async () => {
    server.script = only('times', 2, { answer: ({ rows }) => ({ rows: rows.toReversed() }) })
    const listed = await list('times')
    expectAll(listed)
    expect(listed.errors).toMatchObject([{ message: expect.stringContaining('must ascend by updated_at') }])
  })

  it('takes the newer copy of a row that moves behind the place', async () => {
    server.script = only('times', 3, { change: (rows) => rows.map((row) => (row.id === 2 ? rowAt(2, 59) : row)) })
    const listed = await list('times')
    expectAll(listed)
    expect(listed.rows.find(({ externalId }) => externalId === '2')?.checkpointValue).toBe(rowAt(2, 59).updated_at)
  })
})

describe('a list by time windows', () => {
  it('asks for a window that is full again in halves, down to a second', async () => {
    server.rows = [
      ...Array.from({ length: 9 }, (_, n) => rowAt(1 + n, 3)),
      ...Array.from({ length: 9 }, (_, n) => ({ ...rowAt(11 + n, 3), updated_at: '2031-01-01T00:03:01.000Z' })),
    ]
    const listed = await list('windows', { from: '1971-01-01T00:00:00Z', to: '2040-01-01T00:00:00Z' })
    expectAll(
      listed,
      server.rows.map(({ id }) => id),
    )
    expect(server.received.length).toBeLessThan(100)
  })

  it('with more rows in a second than an answer holds is refused, and not left short', async () => {
    server.rows = [...rowsOf(6), ...Array.from({ length: 12 }, (_, n) => rowAt(7 + n, 3))]
    const listed = await list('windows')
    expectFault(listed, /2031-01-01T00:03:00.000Z has 10 rows/)
    // What came before is whole.
    expect(listed.metadata.bookmark).toMatchObject({ count: 6 })
  })

  it.each([
    ['grow over times without rows', '1971-01-01T00:00:00Z', 60],
    ['need no more than the rows ask for', '2031-01-01T00:00:00Z', 14],
  ])('%s', async (_, from, most) => {
    expectAll(await list('windows', { from }))
    expect(server.received.length).toBeLessThanOrEqual(most)
  })

  it('whose end is not after its beginning is refused at once', async () => {
    const { errors } = await list('windows', { to: '2031-01-01T00:00:00Z' })
    expect(errors[0]).toMatchObject({ type: 'invalid_argument', nonRetryable: true })
    expect(server.received).toEqual([])
  })
})

describe('two lists of a session', () => {
  it('are one after the other, and a try goes on in the second one', async () => {
    server.script = (n) => (n === 8 ? { text: '<html>' } : undefined)
    const listed = await list('cursor', { kinds: ['cursor', 'offset'] })
    expectAll(listed)
    const paths = server.received.map(({ url }) => url)
    expect(paths.filter((url) => url === '/cursor?after=0')).toHaveLength(1)
    expect(paths.filter((url) => url === '/offset?offset=0')).toHaveLength(1)
  })

  it('need names of their own', async () => {
    const { errors } = await list('cursor', { kinds: ['cursor', 'cursor'] })
    expect(errors[0]).toMatchObject({ type: 'invalid_argument', message: expect.stringContaining('name of its own') })
  })
})

describe('a worker that is lost without a word', () => {
  it.each(KINDS)('leaves the next try its bookmark, and can store no more itself: a list by %s', async (kind) => {
    const integration = await makeIntegration(test, 'paged', {
      metadata: { kinds: [kind], url: server.url, ...WINDOW },
    })
    const run = await makeRun(test, integration.id, { enumerated: false })
    const input = (attempt: number) => ({ integrationId: integration.id, syncLogId: run.id, attempt })
    let isThere: () => void
    const hanging = new Promise<void>((resolve) => {
      isThere = resolve
    })
    let letGo: () => void = () => {}
    server.script = only(kind, 4, {
      hold: (go) => {
        letGo = go
        isThere()
      },
    })
    const lost = runActivity(test.activities.listSyncItems, input(1)).catch((error: unknown) => error)
    await hanging
    expect(await runActivity(test.activities.listSyncItems, input(2))).toMatchObject({ kind: 'listed', listed: ROWS })
    letGo()
    expect(await lost).toMatchObject({ type: 'listing_superseded' })
    const ids = (await itemsOf(test, run.id)).map(({ externalId }) => Number(externalId))
    expect(ids.toSorted((a, b) => a - b)).toEqual(rowsOf(ROWS).map(({ id }) => id))
  })
})
