/** A window of the past: every issue whose last update lies in it, each asked for once. */
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { insideSync } from '../../../src/calls/inside-sync.ts'
import type { Integration } from '../../../src/providers/integration.ts'
import type { FakeSyncSession } from '../../../src/testing/index.ts'
import type { PlayedRepository } from './played-repository.ts'
import { answer, at, issue, keptAt, numbers, placesOf, playRepository, REPOSITORY } from './played-repository.ts'

let github: PlayedRepository
let integration: Integration
let issues: ReturnType<typeof issue>[]

beforeAll(async () => {
  github = await playRepository()
  integration = await github.integration()
}, 60_000)
afterAll(() => github.kit.close())
beforeEach(() => {
  github.forget()
  issues = numbers(1, 450).map((number) => issue(number))
  github.reply = ({ url }) => answer(200, ascending(new URL(url)))
})

/** As GitHub sorts and pages: from `since` on, oldest update first. */
function ascending({ searchParams }: URL): object[] {
  const [since, page] = [searchParams.get('since') ?? '', Number(searchParams.get('page'))]
  const from = issues.filter(({ updated_at }) => updated_at >= since)
  from.sort((a, b) => (a.updated_at < b.updated_at ? -1 : a.updated_at > b.updated_at ? 1 : a.number - b.number))
  return from.slice((page - 1) * 100, page * 100)
}

async function list(from: number, to: number, session = github.kit.syncSession(integration)): Promise<FakeSyncSession> {
  await github.provider.syncWindow(integration, session, { from: new Date(at(from)), to: new Date(at(to)) })
  return session
}

const handedIn = (session: FakeSyncSession) => session.items.map(({ externalId }) => Number(externalId))
const asked = () => github.urls().map(({ searchParams }) => [searchParams.get('since'), searchParams.get('page')])

it('begins at its beginning and stops at its end, which is no longer in it', async () => {
  expect(handedIn(await list(10, 60))).toEqual(numbers(10, 59))
  expect(asked()).toEqual([[at(10), '1']])
  expect(Object.fromEntries(github.urls()[0]?.searchParams ?? [])).toMatchObject({
    state: 'all',
    sort: 'updated',
    direction: 'asc',
  })
})

it('reads a page above what other answers may have', async () => {
  const texts = { body_html: 'x'.repeat(1_048_576) }
  issues = numbers(1, 12).map((number) => ({ ...issue(number), ...texts }))
  expect(handedIn(await list(1, 1_000))).toEqual(numbers(1, 12))
}, 30_000)

it('goes on from the last update of each page, and hands nothing in twice', async () => {
  const session = await list(1, 1_000)
  expect(handedIn(session)).toEqual(numbers(1, 450))
  expect(session.duplicatesDropped).toBe(0)
  expect(asked()).toEqual([1, 100, 199, 298, 397].map((number) => [at(number), '1']))
})

it('loses none that stand still while others are updated and move away', async () => {
  let page = 0
  github.reply = ({ url }) => {
    const body = ascending(new URL(url))
    page += 1
    // As soon as a page is read, twenty of it are updated: by page numbers the next one would begin twenty too late.
    for (const { number } of (body as typeof issues).slice(0, 20)) issues[number - 1] = issue(number, at(10_000 + page))
    return answer(200, body)
  }
  expect(handedIn(await list(1, 1_000))).toEqual(numbers(1, 450))
})

it('hands in the newer copy of one that is updated within the window while its pages are read', async () => {
  github.reply = ({ url }) => {
    const body = ascending(new URL(url)) as typeof issues
    if (new URL(url).searchParams.get('since') === at(1)) issues[4] = { ...issue(5, at(900)), title: 'edited' }
    return answer(200, body)
  }
  const session = await list(1, 1_000)
  expect(session.items.find(({ externalId }) => externalId === '5')?.event.payload).toMatchObject({ title: 'edited' })
})

it('turns pages within one second of more than a page, as after an import', async () => {
  issues = numbers(1, 250).map((number) => issue(number, at(5)))
  expect(handedIn(await list(1, 10))).toEqual(numbers(1, 250))
  expect(asked()).toEqual([
    [at(1), '1'],
    [at(5), '1'],
    [at(5), '2'],
    [at(5), '3'],
  ])
})

it('leaves pull requests out', async () => {
  issues = [issue(1), Object.assign(issue(2), { pull_request: {} }), issue(3)]
  expect(handedIn(await list(1, 10))).toEqual([1, 3])
})

it('goes on from a bookmark', async () => {
  const session = github.kit.syncSession(integration)
  await session.bookmark(keptAt({ since: at(298), page: 1 }))
  expect(handedIn(await list(1, 1_000, await session.nextTry()))).toEqual(numbers(298, 450))
  expect(asked()).toEqual([298, 397].map((number) => [at(number), '1']))
})

it('begins at the beginning where the bookmark is of another repository', async () => {
  const session = github.kit.syncSession(integration)
  await session.bookmark(keptAt({ since: at(298), page: 1 }, REPOSITORY.replace('widgets', 'gadgets')))
  expect(handedIn(await list(290, 1_000, await session.nextTry()))).toEqual(numbers(290, 450))
})

it('hands in an issue whose updated_at is no time, without a checkpoint, and tells of it', async () => {
  issues = [issue(1), issue(2, 'soon'), issue(3)]
  github.reply = () => answer(200, issues)
  const before = github.kit.logs.length
  const session = await list(1, 3)
  expect(handedIn(session)).toEqual([1, 2])
  session.assertCheckpoints([at(1), null])
  const warnings = github.kit.logs.slice(before).filter(({ level }) => level === 'warn')
  expect(warnings).toMatchObject([{ fields: { integration_id: integration.id, issue_number: 2, updated_at: 'soon' } }])
})

it('goes on from the last time of a page that can be read', async () => {
  const rest = issues
  github.reply = ({ url }) => {
    const page = ascending(new URL(url)) as typeof issues
    return answer(
      200,
      page.map((each) => (each.number === 100 ? issue(100, 'soon') : each)),
    )
  }
  issues = rest.slice(0, 150)
  expect(handedIn(await list(1, 1_000))).toEqual(numbers(1, 150))
  expect(asked()).toEqual([1, 99].map((number) => [at(number), '1']))
})

it('turns the page by number where none of its times can be read', async () => {
  issues = numbers(1, 150).map((number) => issue(number, at(1)))
  github.reply = ({ url }) => {
    const page = ascending(new URL(url)) as typeof issues
    return answer(
      200,
      page.map(({ number }) => issue(number, 'soon')),
    )
  }
  expect(handedIn(await list(1, 1_000))).toEqual(numbers(1, 150))
  expect(asked()).toEqual(['1', '2'].map((page) => [at(1), page]))
})

it('hands an issue of more than 1 MiB in without its renderings', async () => {
  issues = [issue(1), Object.assign(issue(2), { body: 'long', body_html: 'x'.repeat(1_048_576) })]
  const session = await list(1, 10)
  expect(handedIn(session)).toEqual([1, 2])
  expect(session.items[1]?.event.payload).toMatchObject({ body: 'long' })
  expect(session.items[1]?.event.payload).not.toHaveProperty('body_html')
})

it('that is put off keeps a bookmark of each page, and goes on with the one that was refused', async () => {
  const refused = [answer(429, { message: 'Slow down' }, { 'retry-after': '90' })]
  github.reply = ({ url }) => {
    const { searchParams } = new URL(url)
    return (searchParams.get('since') === at(199) ? refused.pop() : undefined) ?? answer(200, ascending(new URL(url)))
  }
  const first = github.kit.syncSession(integration)
  const put = insideSync({ signal: first.signal }, () => list(1, 300, first))
  await expect(put).rejects.toMatchObject({ code: 'rate_limit_exceeded', retryAfterSeconds: 90 })
  expect(placesOf(first)).toEqual([100, 199].map((number) => ({ since: at(number), page: 1 })))
  github.kit.clock.advance(90)
  const next = await list(1, 300, await first.nextTry())
  expect(handedIn(next)).toEqual(numbers(1, 299))
  expect(next.duplicatesDropped).toBe(0)
  expect(asked()).toEqual([1, 100, 199, 199, 298].map((number) => [at(number), '1']))
})
