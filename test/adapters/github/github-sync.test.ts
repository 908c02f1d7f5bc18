/** What a sync of a repository asks for, and what it hands in: each rule with the requests that it costs. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { behindComments } from '../../../src/adapters/github/comments.ts'
import type { GitHubRawComment } from '../../../src/adapters/github/index.ts'
import { GitHubClient, GitHubIssueSynced } from '../../../src/adapters/github/index.ts'
import type { Integration } from '../../../src/providers/integration.ts'
import type { FakeSyncSession } from '../../../src/testing/index.ts'
import type { PlayedRepository } from './played-repository.ts'
import { answer, at, comment, issue, keptAt, NOW, numbers, placesOf, playRepository } from './played-repository.ts'

const CURSOR = '2026-02-01T10:00:00Z'
const SINCE = '2026-02-01T09:00:00Z'

let github: PlayedRepository
let integration: Integration

beforeAll(async () => {
  github = await playRepository()
  integration = await github.integration()
}, 60_000)
afterAll(() => github.kit.close())
beforeEach(() => github.forget())

describe('a sync', () => {
  it('hands in each issue: its number as external id, its updated_at as checkpoint; every 5 minutes', async () => {
    github.issues = [issue(3), { ...issue(2), pull_request: {} }, { ...issue(1), updated_at: 'soon' }]
    const session = await list(null)
    expect(github.asked()).toEqual(['issues?page=1'])
    session.assertDispatchedCount(2)
    session.assertDispatched(
      GitHubIssueSynced,
      ({ payload }, { externalId }) => payload.number === 3 && externalId === '3',
    )
    session.assertCheckpoints([at(3), null])
    expect(github.provider.defaultSyncInterval()).toBe(5)
  })

  it.each([
    ['no cursor: everything', null, '1970-01-01T00:00:00Z'],
    ['an empty one: everything', '', '1970-01-01T00:00:00Z'],
    ['a cursor that was set: from an hour before it', '2026-02-01T10:00:00+02:00', '2026-02-01T07:00:00Z'],
    ['the cursor of a run: from an hour before it', CURSOR, SINCE],
  ])('of %s', async (_, cursor, since) => {
    await list(cursor)
    expect(github.urls().map(({ searchParams }) => searchParams.get('since'))).toEqual(github.urls().map(() => since))
  })

  it.each([
    [0, 1],
    [99, 1],
    [100, 2],
    [101, 2],
    [200, 3],
    [250, 3],
  ])('of %s issues asks for %s pages of 100, an empty last one among them', async (count, pages) => {
    github.issues = numbers(1, count).map((number) => issue(number))
    const session = await list(null)
    expect(github.asked()).toEqual(numbers(1, pages).map((page) => `issues?page=${page}`))
    expect(github.urls().every(({ searchParams }) => searchParams.get('per_page') === '100')).toBe(true)
    session.assertDispatchedCount(count)
  })
})

describe('an issue', () => {
  const MIB = 1_048_576
  const EMPTY = Buffer.byteLength(
    JSON.stringify({ ...issue(1), body: '', body_text: '', body_html: '', attachments: [] }),
  )
  const sized = (html: number, text = '', body = '') => ({
    ...issue(1),
    body,
    body_text: text,
    body_html: 'x'.repeat(html),
  })
  /** Each an attachment of its own, and none of it in the Markdown. */
  const manyPictures = () =>
    numbers(1, 30_000)
      .map((number) => `<img src="https://pictures.example/${number}.png">`)
      .join('')
  const warnings = () => github.kit.logs.filter(({ level }) => level === 'warn').map(({ fields }) => fields)

  it.each([
    ['of 1 MiB is handed in whole', sized(MIB - EMPTY), ['body', 'body_html', 'body_text'], 0],
    ['of a byte more without its renderings', sized(MIB - EMPTY + 1), ['body'], 1],
    ['of a byte more, counted in UTF-8, too', sized(MIB - EMPTY - 1, 'é'), ['body'], 1],
  ])('%s', async (_, given, kept, warned) => {
    github.issues = [issue(2), given]
    const before = warnings().length
    const session = await list(null)
    expect(session.items.map(({ externalId }) => externalId)).toEqual(['2', '1'])
    const { payload } = session.items[1]?.event ?? {}
    expect(Object.keys(payload ?? {}).filter((key) => key.startsWith('body'))).toEqual(kept)
    expect(payload).toMatchObject({ number: 1, title: 'Issue 1', updated_at: at(1) })
    const told = { integration_id: integration.id, issue_number: 1, bytes: MIB + 1, without_attachments: false }
    expect(warnings().slice(before)).toEqual(Array.from({ length: warned }, () => expect.objectContaining(told)))
  })

  it('that is too large keeps the attachments that its HTML shows', async () => {
    const url = 'https://pictures.example/1.png'
    github.issues = [{ ...issue(1), body_html: `<img src="${url}">${'x'.repeat(MIB)}` }]
    const { items } = await list(null)
    expect(items.map(({ event }) => event.payload)).toMatchObject([{ attachments: [{ plain_url: url }] }])
  })

  it('that is too large by its attachments is handed in without them', async () => {
    github.issues = [{ ...issue(1), body: 'pictures', body_html: manyPictures() }]
    const before = warnings().length
    const { items } = await list(null)
    expect(items.map(({ event }) => event.payload)).toMatchObject([{ body: 'pictures', attachments: [] }])
    expect(warnings().slice(before)).toMatchObject([{ issue_number: 1, without_attachments: true }])
  })

  it('whose updated_at is no time is told of', async () => {
    github.issues = [issue(1, 'soon')]
    const before = warnings().length
    await list(null)
    expect(warnings().slice(before)).toMatchObject([
      { integration_id: integration.id, issue_number: 1, updated_at: 'soon' },
    ])
  })
})

describe('the comments feed', () => {
  it.each([
    ['not without a cursor', null, ['issues?page=1']],
    ['not with an empty one', '', ['issues?page=1']],
    ['after the issues with one', CURSOR, ['issues?page=1', 'issues/comments?page=1']],
  ])('is read %s', async (_, cursor, asked) => {
    await list(cursor)
    expect(github.asked()).toEqual(asked)
  })

  it('is asked for with the same since, oldest update first', async () => {
    await list(CURSOR)
    expect(Object.fromEntries(github.urls().at(-1)?.searchParams ?? [])).toEqual({
      since: SINCE,
      sort: 'updated',
      direction: 'asc',
      per_page: '100',
      page: '1',
    })
  })

  it.each([
    [0, 1],
    [99, 1],
    [100, 2],
    [101, 2],
    [300, 4],
  ])('of %s comments costs %s requests, an empty last page among them', async (count, pages) => {
    github.issues = [issue(7)]
    github.comments = numbers(1, count).map((id) => comment(7, { id }))
    await list(CURSOR)
    expect(github.asked()).toEqual([
      'issues?page=1',
      ...numbers(1, pages).map((page) => `issues/comments?page=${page}`),
    ])
  })

  it('goes by page number, the same since with each, also where the times differ', async () => {
    github.comments = numbers(1, 250).map((id) => comment(7, { id, updated_at: at(id) }))
    const listed: unknown[] = []
    await new GitHubClient(integration).comments.since(SINCE, ({ id }) => listed.push(id))
    expect(listed).toEqual(numbers(1, 250))
    expect(github.urls().map(({ searchParams: sent }) => [sent.get('since'), sent.get('page')])).toEqual(
      ['1', '2', '3'].map((page) => [SINCE, page]),
    )
  })

  const full = (minutes: number[]) => minutes.map((minute) => comment(7, { updated_at: at(minute) }))
  const hundred = numbers(1, 100)
  const oneSecond = full(hundred.map(() => 60))

  /** A position: the minute of its time, and the page. */
  type Place = readonly [number, number]
  const positionOf = ([minute, page]: Place) => ({ since: at(minute), page })

  it.each<[string, GitHubRawComment[], Place, Place | null]>([
    ['with the next number', full(hundred), [0, 99], [0, 100]],
    ['nowhere, where it is not full', full(numbers(1, 99)), [0, 100], null],
    ['of GitHub’s last number at its last update time', full(hundred), [0, 100], [100, 1]],
    ['of that number and of one second at the next page of that second', oneSecond, [0, 100], [60, 2]],
    ['with a higher number, where all pages have one second', oneSecond, [60, 100], [60, 101]],
    ['with a higher number, where no time is told', hundred.map(() => comment(7)), [0, 100], [0, 101]],
  ])('goes on behind a page %s', (_, comments, place, next) => {
    expect(behindComments(comments, positionOf(place))).toEqual(next === null ? null : positionOf(next))
  })

  it('fetches each missing parent once, as they came, and hands it in through the same session', async () => {
    github.issues = [issue(7)]
    github.comments = [comment(9), comment(7), comment(8), comment(9), comment(9)]
    github.alone = new Map([8, 9].map((number) => [number, issue(number)]))
    const session = await list(CURSOR)
    expect(github.asked()).toEqual(['issues?page=1', 'issues/comments?page=1', 'issues/9', 'issues/8'])
    expect(session.items.map(({ externalId }) => externalId)).toEqual(['7', '9', '8'])
    expect(session.duplicatesDropped).toBe(0)
  })

  it.each<[string, object[], string, string | null]>([
    ['its updated_at, where the list has later ones', [issue(7), issue(12)], at(9), at(9)],
    ['its updated_at, where the list has only earlier ones', [issue(7), issue(8)], at(9), at(9)],
    ['its updated_at, where the list is empty', [], at(9), at(9)],
    ['its updated_at as GitHub writes it', [], '2026-01-01T02:09:00+02:00', '2026-01-01T02:09:00+02:00'],
    ['null where its updated_at is no time', [issue(7), issue(12)], 'soon', null],
  ])('gives a recovered issue as checkpoint %s', async (_, listed, updatedAt, checkpoint) => {
    github.issues = listed
    github.comments = [comment(9)]
    github.alone = new Map([[9, issue(9, updatedAt)]])
    const { items } = await list(CURSOR)
    expect(items.at(-1)).toMatchObject({ externalId: '9', checkpointValue: checkpoint })
  })

  it.each<[string, object, string[]]>([
    ['of a pull request', comment(9, { html_url: 'https://github.com/octo/widgets/pull/9#issuecomment-1' }), []],
    ['without a parent', comment(9, { issue_url: undefined }), []],
    [
      'whose parent is no number',
      comment(9, { issue_url: 'https://api.github.com/repos/octo/widgets/issues/nine' }),
      [],
    ],
    ['whose parent is 0', comment(9, { issue_url: 'https://api.github.com/repos/octo/widgets/issues/0' }), []],
    ['whose parent is no whole number of ours', comment(9, { issue_url: `https://x/issues/${'9'.repeat(20)}` }), []],
    ['whose parent is gone', comment(9), ['issues/9']],
    ['whose parent has moved on', comment(4), ['issues/4']],
    ['whose parent turns out to be a pull request', comment(5), ['issues/5']],
    [
      'in a repository called "pull"',
      comment(6, { html_url: 'https://github.com/octo/pull/issues/6#c' }),
      ['issues/6'],
    ],
  ])('a comment %s', async (_, given, fetched) => {
    github.comments = [given]
    github.alone = new Map<number, object>([
      [4, issue(44)],
      [5, { ...issue(5), pull_request: { url: 'https://x' } }],
      [6, issue(6)],
    ])
    const session = await list(CURSOR)
    expect(github.asked()).toEqual(['issues?page=1', 'issues/comments?page=1', ...fetched])
    session.assertDispatchedCount(fetched.includes('issues/6') ? 1 : 0)
  })

  it('tells of each issue that it recovered in a warning', async () => {
    github.comments = [comment(8), comment(9), comment(9)]
    github.alone = new Map([8, 9].map((number) => [number, issue(number)]))
    const before = github.kit.logs.length
    await list(CURSOR)
    const warnings = github.kit.logs.slice(before).filter(({ level }) => level === 'warn')
    expect(warnings.map(({ fields }) => fields)).toEqual(
      [8, 9].map((number) =>
        expect.objectContaining({ integration_id: integration.id, issue_number: number, since: SINCE }),
      ),
    )
  })

  it.each([
    ['of the feed', /issues\/comments/],
    ['of a missing parent', /issues\/9$/],
  ])('a fault %s fails the listing', async (_, match) => {
    github.comments = [comment(9)]
    github.reply = ({ url }) => (match.test(new URL(url).pathname) ? answer(403, { message: 'No' }) : null)
    await expect(list(CURSOR)).rejects.toMatchObject({ code: 'http_error', status: 403 })
  })
})

describe('a listing that was cut off', () => {
  const linked = (page: number) => ({ link: `<${linkTo(page)}>; rel="next"` })
  const linkTo = (page: number) =>
    `https://github.example.com/api/v3/repositories/5/issues?per_page=100&after=c${page}&page=${page}`

  it('has a bookmark after each page but the last: the next one’s number and link', async () => {
    github.issues = numbers(1, 250).map((number) => issue(number))
    github.reply = ({ url }) => {
      const page = Number(new URL(url).searchParams.get('page'))
      return page === 1 ? answer(200, github.issues.slice(0, 100), linked(2)) : null
    }
    const session = await list(null)
    expect(placesOf(session)).toEqual([
      { page: 2, url: linkTo(2) },
      { page: 3, url: null },
    ])
  })

  it.each([
    ['by its link', linkTo(3), 'api/v3/repositories/5/issues'],
    ['by its number', null, 'api/v3/repos/octo/widgets/issues'],
    [
      'by its number where the link leads elsewhere',
      'https://elsewhere.example/issues?page=3',
      'api/v3/repos/octo/widgets/issues',
    ],
  ])('goes on with the next page, %s', async (_, url, path) => {
    github.issues = numbers(1, 250).map((number) => issue(number))
    const session = github.kit.syncSession(integration, null)
    await session.bookmark(keptAt({ page: 3, url }))
    const next = await session.nextTry()
    await github.provider.syncIncremental(integration, next)
    expect(github.urls().map(({ origin, pathname }) => origin + pathname)).toEqual([
      `https://github.example.com/${path}`,
    ])
    expect(github.asked()[0]).toMatch(/\?page=3$/)
    next.assertDispatchedCount(50)
  })

  it.each<[string, object, object]>([
    ['the repository was changed', { repo: 'gadgets' }, {}],
    ['the owner was changed', { owner: 'hexa' }, {}],
    ['the server was changed', { base_url: 'https://other.example.com/api/v3' }, {}],
    ['what is kept has another shape', {}, { page: 'three' }],
  ])('begins at the beginning where %s', async (_, metadata, position) => {
    const own = await github.integration({ metadata: { ...metadata } })
    github.issues = numbers(1, 250).map((number) => issue(number))
    const session = github.kit.syncSession(own, null)
    await session.bookmark(keptAt({ page: 3, url: linkTo(3), ...position }))
    const next = await session.nextTry()
    await github.provider.syncIncremental(own, next)
    const { owner, repo } = own.metadata
    expect(github.urls().map(({ pathname, searchParams }) => [pathname, searchParams.get('page')])).toEqual(
      ['1', '2', '3'].map((page) => [`/api/v3/repos/${owner}/${repo}/issues`, page]),
    )
    next.assertDispatchedCount(250)
  })

  it('goes on in the comments feed, behind pages whose missing parents it has handed in', async () => {
    github.issues = [issue(7)]
    github.comments = numbers(1, 201).map((id) => comment(7 + Math.ceil(id / 100), { id }))
    github.alone = new Map([8, 9, 10].map((number) => [number, issue(number)]))
    let isRefused = true
    github.reply = ({ url }) => {
      const { pathname, searchParams } = new URL(url)
      const isThird = pathname.endsWith('/comments') && searchParams.get('page') === '3'
      return isThird && isRefused ? answer(403, { message: 'No' }) : null
    }
    const session = github.kit.syncSession(integration, CURSOR)
    await expect(github.provider.syncIncremental(integration, session)).rejects.toMatchObject({ status: 403 })
    expect(github.asked()).toEqual([
      ...['issues?page=1', 'issues/comments?page=1', 'issues/8', 'issues/comments?page=2', 'issues/9'],
      'issues/comments?page=3',
    ])
    isRefused = false
    const before = github.asked().length
    const next = await session.nextTry()
    await github.provider.syncIncremental(integration, next)
    expect(github.asked().slice(before)).toEqual(['issues/comments?page=3', 'issues/10'])
    next.assertCheckpoints([7, 8, 9, 10].map((number) => at(number)))
    expect(next.duplicatesDropped).toBe(0)
  })

  it('asks for no parent that an earlier try has listed', async () => {
    const session = github.kit.syncSession(integration, CURSOR)
    github.issues = [issue(7)]
    await github.provider.syncIncremental(integration, session)
    await session.bookmark(keptAt({ page: 2, url: null }))
    github.forget()
    github.comments = [comment(7), comment(8)]
    github.alone = new Map([7, 8].map((number) => [number, issue(number)]))
    const next = await session.nextTry()
    await github.provider.syncIncremental(integration, next)
    expect(github.asked()).toEqual(['issues?page=2', 'issues/comments?page=1', 'issues/8'])
    next.assertCheckpoints([at(7), at(8)])
    expect(next.duplicatesDropped).toBe(0)
  })
})

describe('the hourly bucket', () => {
  const resetAt = new Date(Date.parse(NOW) + 40 * 60_000)
  const exhausted = { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String(resetAt.getTime() / 1_000) }

  it.each([
    ['of the core resource', { ...exhausted, 'x-ratelimit-resource': 'core' }],
    ['of an unnamed resource', exhausted],
  ])('%s that runs out keeps requests back until its reset: nothing is sent', async (_, headers) => {
    const own = await github.integration()
    github.reply = () => answer(200, [], headers)
    await github.provider.syncIncremental(own, github.kit.syncSession(own, null))
    await expect(github.provider.syncIncremental(own, github.kit.syncSession(own, null))).rejects.toMatchObject({
      code: 'rate_limit_exceeded',
      retryAfterSeconds: 2_400,
    })
    expect(github.asked()).toEqual(['issues?page=1'])
    expect((await own.rateLimit()).suppressedUntil).toEqual(resetAt)
  })

  it.each<[string, object, number]>([
    ['is named by a secondary limit is waited for by every call, though something is left', {}, 1],
    ['belongs to another resource holds no call back', { 'x-ratelimit-resource': 'search' }, 2],
  ])('whose reset %s', async (_, more, sent) => {
    const own = await github.integration()
    const headers = { ...exhausted, 'x-ratelimit-remaining': '4000', ...more }
    github.reply = () => answer(403, { message: 'You have exceeded a secondary rate limit.' }, headers)
    const { issues } = new GitHubClient(own)
    await expect(issues.get(7)).rejects.toMatchObject({ code: 'http_error', status: 403 })
    await expect(issues.get(8)).rejects.toMatchObject(
      sent === 1 ? { code: 'rate_limit_exceeded', retryAfterSeconds: 2_400 } : { code: 'http_error', status: 403 },
    )
    expect(github.asked()).toEqual(['issues/7', 'issues/8'].slice(0, sent))
    expect((await own.rateLimit()).suppressedUntil).toEqual(sent === 1 ? resetAt : null)
  })

  it.each([
    ['of another resource', { ...exhausted, 'x-ratelimit-resource': 'search' }],
    ['with something left', { ...exhausted, 'x-ratelimit-remaining': '1' }],
  ])('%s keeps nothing back', async (_, headers) => {
    const own = await github.integration()
    github.reply = () => answer(200, [], headers)
    for (let run = 0; run < 2; run += 1) await github.provider.syncIncremental(own, github.kit.syncSession(own, null))
    expect(github.asked()).toHaveLength(2)
  })
})

async function list(cursor: string | null): Promise<FakeSyncSession> {
  const session = github.kit.syncSession(integration, cursor)
  await github.provider.syncIncremental(integration, session)
  return session
}
