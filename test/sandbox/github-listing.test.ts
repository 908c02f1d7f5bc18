import { describe, expect, it } from 'vitest'
import { recordedLinks } from '../../sandbox/github/recorded.ts'
import type { IssueAnswer, SandboxClient } from './sandbox-client.ts'
import { links, openSandbox, read, WIDGETS } from './sandbox-client.ts'

async function everyPage(sandbox: SandboxClient, first: string): Promise<IssueAnswer[][]> {
  const pages: IssueAnswer[][] = []
  for (let next: string | undefined = first; next !== undefined; ) {
    const response = await sandbox.get(next)
    pages.push(await read(response))
    next = links(response).next
  }
  return pages
}

describe('listing issues', () => {
  it('gives three full pages of 100 and a rest, each entry once, by following Link: next', async () => {
    const pages = await everyPage(openSandbox(), `${WIDGETS}/issues?state=all&sort=updated&direction=asc&per_page=100`)
    expect(pages.map((page) => page.length)).toEqual([100, 100, 100, 40])
    expect(pages.flat().map((issue) => issue.number)).toEqual(Array.from({ length: 340 }, (_, index) => index + 1))
  })

  it('has 42 pull requests among the entries, told apart by their key', async () => {
    const entries = (await everyPage(openSandbox(), `${WIDGETS}/issues?state=all&per_page=100`)).flat()
    const pullRequests = entries.filter((entry) => entry.pull_request !== undefined)
    expect(pullRequests).toHaveLength(42)
    expect(pullRequests.every((entry) => entry.html_url.endsWith(`/pull/${entry.number}`))).toBe(true)
    expect(pullRequests.some((entry) => entry.pull_request?.merged_at !== null)).toBe(true)
  })

  it('has unique ids above 32 bits, several users, labels and assignees, and equal moments', async () => {
    const entries = (await everyPage(openSandbox(), `${WIDGETS}/issues?state=all&per_page=100`)).flat()
    expect(new Set(entries.map((entry) => entry.id)).size).toBe(340)
    expect(new Set(entries.map((entry) => entry.node_id)).size).toBe(340)
    expect(Math.min(...entries.map((entry) => entry.id))).toBeGreaterThan(2 ** 31)
    expect(new Set(entries.flatMap((entry) => entry.labels.map((label) => label.name))).size).toBe(5)
    expect(new Set(entries.flatMap((entry) => entry.assignees.map((user) => user.login))).size).toBe(5)
    expect(new Set(entries.map((entry) => entry.updated_at)).size).toBe(340 - 34)
    expect(entries.every((entry) => entry.created_at <= entry.updated_at)).toBe(true)
    expect(entries.every((entry) => (entry.closed_at !== null) === (entry.state === 'closed'))).toBe(true)
  })

  it('is the same in two sandboxes', async () => {
    const path = `${WIDGETS}/issues?state=all&per_page=100&page=2`
    const [one, other] = await Promise.all([openSandbox().get(path), openSandbox().get(path)])
    expect(await one.text()).toBe(await other.text())
  })

  it.each([
    ['', 30, 'open'],
    ['?state=closed&per_page=100', 100, 'closed'],
  ])('of %j gives %i entries that are %s, newest first', async (query, count, state) => {
    const issues = await read(await openSandbox().get(`${WIDGETS}/issues${query}`))
    expect(issues).toHaveLength(count)
    expect(issues.every((issue) => issue.state === state)).toBe(true)
    expect(issues.map((issue) => issue.number)).toEqual(issues.map((issue) => issue.number).sort((a, b) => b - a))
  })

  it('sorts by the number of comments', async () => {
    const path = `${WIDGETS}/issues?state=all&sort=comments&direction=desc&per_page=100`
    const counts = (await everyPage(openSandbox(), path)).flat().map((issue) => issue.comments)
    expect(counts).toEqual([...counts].sort((a, b) => b - a))
    expect([counts[0], counts.at(-1)]).toEqual([3, 0])
  })

  it('since a moment lists what was updated at that very moment and after', async () => {
    const sandbox = openSandbox()
    const { updated_at: since } = await read<IssueAnswer>(await sandbox.get(`${WIDGETS}/issues/320`))
    const path = `${WIDGETS}/issues?state=all&sort=updated&direction=asc&per_page=100&since=`
    const issues = await read(await sandbox.get(path + since))
    // 320 shares its moment with 319.
    expect(issues.map((issue) => issue.number)).toEqual(Array.from({ length: 22 }, (_, index) => 319 + index))
    const justAfter = new Date(Date.parse(since) + 1).toISOString()
    expect((await read(await sandbox.get(path + justAfter)))[0]?.number).toBe(321)
  })

  it('filters by creator, assignee and labels', async () => {
    const sandbox = openSandbox()
    const path = `${WIDGETS}/issues?state=all&creator=octo-barbara&assignee=octo-grace&labels=BUG`
    const issues = await read(await sandbox.get(path))
    expect(issues.length).toBeGreaterThan(0)
    for (const issue of issues) {
      expect(issue.labels.map((label) => label.name)).toContain('bug')
      expect(issue.assignees.map((user) => user.login)).toContain('octo-grace')
    }
  })

  it('takes a page size above 100 as 100, and nonsense as 30', async () => {
    const sandbox = openSandbox()
    expect(await read(await sandbox.get(`${WIDGETS}/issues?state=all&per_page=500`))).toHaveLength(100)
    expect(await read(await sandbox.get(`${WIDGETS}/issues?state=all&per_page=none&page=0`))).toHaveLength(30)
  })

  it('shows a change at once, in its new place', async () => {
    const sandbox = openSandbox()
    const path = `${WIDGETS}/issues?state=all&sort=updated&per_page=1`
    expect((await read(await sandbox.get(path)))[0]?.number).toBe(340)
    await sandbox.send('PATCH', `${WIDGETS}/issues/5`, { title: 'Later' })
    expect((await read(await sandbox.get(path)))[0]).toMatchObject({ number: 5, title: 'Later' })
  })
})

describe('the Link header', () => {
  it('is as recorded on all five pages of a list', async () => {
    const sandbox = openSandbox({ owner: 'octokit-fixture-org', repository: 'paginate-issues', entries: 13 })
    const pages = [1, 2, 3, 4, 5].map((page) => (page === 1 ? 'per_page=3' : `per_page=3&page=${page}`))
    const given = await Promise.all(
      pages.map(async (query) => {
        const response = await sandbox.get(`/repos/octokit-fixture-org/paginate-issues/issues?${query}&state=all`)
        return (response.headers.get('link') ?? '').replaceAll('&state=all', '')
      }),
    )
    const recorded = recordedLinks.map((link) =>
      link.replaceAll('https://api.github.com/repositories/1000', 'http://localhost/repositories/600000001'),
    )
    expect(given).toEqual(recorded)
  })

  it('is absent when everything fits on one page', async () => {
    const response = await openSandbox().get(`${WIDGETS}/issues/3/comments`)
    expect(response.headers.get('link')).toBeNull()
  })

  it('leads back to the last page from beyond the end', async () => {
    const response = await openSandbox().get(`${WIDGETS}/issues?state=all&per_page=100&page=9`)
    expect(await read(response)).toEqual([])
    expect(Object.keys(links(response))).toEqual(['prev', 'first'])
    expect(links(response).prev).toContain('page=4')
  })

  it('pages through a timeline and through comments', async () => {
    const sandbox = openSandbox()
    const timeline = await everyPage(sandbox, `${WIDGETS}/issues/15/timeline?per_page=1`)
    expect(timeline.length).toBeGreaterThan(3)
    const comments = (await everyPage(sandbox, `${WIDGETS}/issues/comments?per_page=100`)).flat()
    expect(comments).toHaveLength(510)
  })
})

describe('listing comments', () => {
  it('since a moment is inclusive, updated ascending', async () => {
    const sandbox = openSandbox()
    const path = `${WIDGETS}/issues/comments?sort=updated&direction=asc&per_page=100`
    const last = (await everyPage(sandbox, path)).flat().at(-3)
    const since = await read(await sandbox.get(`${path}&since=${last?.updated_at}`))
    expect(since[0]?.id).toBe(last?.id)
    expect(since).toHaveLength(3)
  })

  it('counts as many for an issue as its entry says', async () => {
    const sandbox = openSandbox()
    for (const number of [1, 2, 3, 4]) {
      const issue = await read<IssueAnswer>(await sandbox.get(`${WIDGETS}/issues/${number}`))
      expect(await read(await sandbox.get(`${WIDGETS}/issues/${number}/comments`))).toHaveLength(issue.comments)
    }
  })
})
