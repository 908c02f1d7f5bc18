import { describe, expect, it } from 'vitest'
import { INSTALLATION_ID } from '../../sandbox/github/installation-tokens.ts'
import { recordedIssue, recordedRepository, recordedSingleIssue } from '../../sandbox/github/recorded.ts'
import { HOOK_ID } from '../../sandbox/github/webhook-sender.ts'
import { appJwt } from './app-jwt.ts'
import { publishedOperations, violations } from './published-description.ts'
import type { IssueAnswer, SandboxClient } from './sandbox-client.ts'
import { openSandbox, read, WIDGETS } from './sandbox-client.ts'

const FULL = { accept: 'application/vnd.github.full+json' }

const HOOK = `${WIDGETS}/hooks/${HOOK_ID}`
const INSTALLATION = `/app/installations/${INSTALLATION_ID}`

type Prepare = (sandbox: SandboxClient) => Promise<Record<string, string>>

const asApp: Prepare = async (sandbox) => ({ authorization: `Bearer ${await appJwt(sandbox)}` })
const asInstallation: Prepare = async (sandbox) => {
  const { token } = await read<{ token: string }>(
    await sandbox.send('POST', `${INSTALLATION}/access_tokens`, undefined, await asApp(sandbox)),
  )
  return { authorization: `token ${token}` }
}
const withDeliveries: Prepare = async (sandbox) => {
  await sandbox.control('POST', '/deliveries', { count: 40 })
  await sandbox.control('POST', '/deliveries', { count: 2, statusCode: 200 })
  return {}
}

const withHooks: Prepare = async (sandbox) => {
  for (const url of ['https://a.example', 'https://b.example'])
    await sandbox.send('POST', `${WIDGETS}/hooks`, { config: { url, content_type: 'json' } })
  return {}
}

/** One or more requests of every published operation; `prepare` happens first and gives headers. */
const requests: Record<string, [path: string, status: number, body?: unknown, prepare?: Prepare][]> = {
  'POST /app/installations/{installation_id}/access_tokens': [
    [`${INSTALLATION}/access_tokens`, 201, { repositories: ['widgets'] }, asApp],
    [`${INSTALLATION}/access_tokens`, 401],
    ['/app/installations/1/access_tokens', 404, undefined, asApp],
  ],
  'GET /repos/{owner}/{repo}/hooks': [
    [`${WIDGETS}/hooks`, 200, undefined, withHooks],
    [`${WIDGETS}/hooks?per_page=1&page=2`, 200, undefined, withHooks],
    ['/repos/nobody/widgets/hooks', 404],
  ],
  'POST /repos/{owner}/{repo}/hooks': [
    [`${WIDGETS}/hooks`, 201, { name: 'web', events: ['*'], config: { url: 'https://c.example', secret: 's' } }],
    [`${WIDGETS}/hooks`, 422, { config: {} }],
    [`${WIDGETS}/hooks`, 422, { config: { url: 'https://a.example' } }, withHooks],
  ],
  'PATCH /repos/{owner}/{repo}/hooks/{hook_id}': [
    [`${WIDGETS}/hooks/600000001`, 200, { active: false, events: ['issues'] }, withHooks],
    [`${WIDGETS}/hooks/600000001`, 422, { events: [] }, withHooks],
    [`${WIDGETS}/hooks/1`, 404, {}],
  ],
  'DELETE /repos/{owner}/{repo}/hooks/{hook_id}': [
    [`${WIDGETS}/hooks/600000001`, 204, undefined, withHooks],
    [`${WIDGETS}/hooks/1`, 404],
  ],
  'GET /repos/{owner}/{repo}/hooks/{hook_id}/deliveries': [
    [`${HOOK}/deliveries`, 200, undefined, withDeliveries],
    [`${HOOK}/deliveries?status=failure&per_page=5`, 200, undefined, withDeliveries],
    [`${HOOK}/deliveries?status=lost`, 422],
    [`${HOOK}/deliveries?cursor=2`, 400],
    [`${WIDGETS}/hooks/1/deliveries`, 404],
  ],
  'GET /repos/{owner}/{repo}/hooks/{hook_id}/deliveries/{delivery_id}': [
    [`${HOOK}/deliveries/3804004623172239007`, 200, undefined, withDeliveries],
    [`${HOOK}/deliveries/3804004623172239042`, 200, undefined, withDeliveries],
    [`${HOOK}/deliveries/1`, 404],
    [`${HOOK}/deliveries/3804004623172239100`, 404, undefined, withDeliveries],
  ],
  'GET /repos/{owner}/{repo}': [
    [WIDGETS, 200],
    ['/repos/octo-sandbox/gadgets', 404],
  ],
  'GET /repos/{owner}/{repo}/issues': [
    [`${WIDGETS}/issues?state=all&per_page=100`, 200],
    [`${WIDGETS}/issues?state=all&per_page=100&page=4`, 200],
    [`${WIDGETS}/issues?state=ajar`, 422],
    ['/repos/nobody/widgets/issues', 404],
  ],
  'POST /repos/{owner}/{repo}/issues': [
    [`${WIDGETS}/issues`, 201, { title: 'New', body: 'Text', labels: ['bug', 'brand new'], assignees: ['octo-ada'] }],
    [`${WIDGETS}/issues`, 422, { body: 'no title' }],
    [`${WIDGETS}/issues`, 400, []],
  ],
  'GET /repos/{owner}/{repo}/issues/{issue_number}': [
    [`${WIDGETS}/issues/1`, 200],
    [`${WIDGETS}/issues/8`, 200],
    [`${WIDGETS}/issues/13`, 200],
    [`${WIDGETS}/issues/99999`, 404],
  ],
  'PATCH /repos/{owner}/{repo}/issues/{issue_number}': [
    [`${WIDGETS}/issues/1`, 200, { state: 'closed', state_reason: 'duplicate', title: 'Renamed', labels: [] }],
    [`${WIDGETS}/issues/1`, 422, { state: 'ajar' }],
    [`${WIDGETS}/issues/99999`, 404, { state: 'closed' }],
  ],
  'GET /repos/{owner}/{repo}/issues/comments': [
    [`${WIDGETS}/issues/comments?per_page=100&sort=updated&direction=asc`, 200],
    [`${WIDGETS}/issues/comments?since=yesterday`, 422],
  ],
  'GET /repos/{owner}/{repo}/issues/{issue_number}/comments': [
    [`${WIDGETS}/issues/3/comments`, 200],
    [`${WIDGETS}/issues/99999/comments`, 404],
  ],
  'POST /repos/{owner}/{repo}/issues/{issue_number}/comments': [
    [`${WIDGETS}/issues/3/comments`, 201, { body: 'Seen.' }],
    [`${WIDGETS}/issues/3/comments`, 422, {}],
  ],
  'GET /repos/{owner}/{repo}/issues/{issue_number}/timeline': [
    [`${WIDGETS}/issues/3/timeline`, 200],
    [`${WIDGETS}/issues/15/timeline`, 200],
    [`${WIDGETS}/issues/99999/timeline`, 404],
  ],
  'GET /user': [
    ['/user', 200],
    ['/user', 403, undefined, asInstallation],
  ],
}

describe('answers of the GitHub sandbox', () => {
  it('cover every operation of the extracted description', () => {
    expect(Object.keys(requests).sort()).toEqual([...publishedOperations].sort())
  })

  const cases = Object.entries(requests).flatMap(([operation, list]) =>
    list.map(([path, status, body, prepare]) => ({ operation, path, status, body, prepare })),
  )
  it.each(cases)(
    'satisfy the published schema: $operation $status $path',
    async ({ operation, path, status, body, prepare }) => {
      const sandbox = openSandbox()
      const headers = await prepare?.(sandbox)
      const response = await sandbox.send(operation.split(' ')[0] as string, path, body, headers)
      expect(response.status).toBe(status)
      if (status === 204) return expect(await response.text()).toBe('')
      const answer = await response.json()
      expect(violations(operation, status, answer)).toEqual([])
      expect(response.headers.get('content-type')).toBe('application/json; charset=utf-8')
    },
  )

  it('satisfy the published schema in the full media type, over all 340 entries and 510 comments', async () => {
    const sandbox = openSandbox()
    for (let page = 1; page <= 4; page++) {
      const issues = await read(await sandbox.get(`${WIDGETS}/issues?state=all&per_page=100&page=${page}`, FULL))
      expect(violations('GET /repos/{owner}/{repo}/issues', 200, issues)).toEqual([])
    }
    for (let page = 1; page <= 6; page++) {
      const comments = await read(await sandbox.get(`${WIDGETS}/issues/comments?per_page=100&page=${page}`, FULL))
      expect(violations('GET /repos/{owner}/{repo}/issues/comments', 200, comments)).toEqual([])
    }
  })

  it('satisfy the published schema in the timeline of an issue that had every kind of change', async () => {
    const sandbox = openSandbox()
    const issue = `${WIDGETS}/issues/7`
    await sandbox.send('PATCH', issue, { title: 'Other', labels: ['bug', 'new'], assignees: ['octo-tony', 'octo-ada'] })
    await sandbox.send('PATCH', issue, { labels: [], assignees: [], state: 'closed' })
    await sandbox.send('PATCH', issue, { state: 'open' })
    await sandbox.send('POST', `${issue}/comments`, { body: 'Hm.' })
    const timeline = await read<{ event: string }[]>(await sandbox.get(`${issue}/timeline?per_page=100`))
    expect(violations('GET /repos/{owner}/{repo}/issues/{issue_number}/timeline', 200, timeline)).toEqual([])
    const events = 'assigned closed commented labeled renamed reopened unassigned unlabeled'
    expect([...new Set(timeline.map((entry) => entry.event))].sort().join(' ')).toBe(events)
  })

  it('satisfy the published schema in every other line that a timeline may have', async () => {
    const sandbox = openSandbox()
    const { events } = await read<{ events: string[] }>(await sandbox.control('POST', '/issues/history', { number: 8 }))
    const timeline = await read<{ event: string }[]>(
      await sandbox.get(`${WIDGETS}/issues/8/timeline?per_page=100`, FULL),
    )
    expect(violations('GET /repos/{owner}/{repo}/issues/{issue_number}/timeline', 200, timeline)).toEqual([])
    expect(timeline.map((entry) => entry.event)).toEqual(expect.arrayContaining(events))
    expect(events.length).toBeGreaterThan(30)
    const single = (event: string) => timeline.find((entry) => entry.event === event)
    expect(single('cross-referenced')).not.toHaveProperty('id')
    expect(single('committed')).not.toHaveProperty('actor')
    expect(single('reviewed')).not.toHaveProperty('created_at')
  })

  it('have no field more or less than the recorded answers, but those of pull requests', async () => {
    const sandbox = openSandbox()
    const [issue] = await read(await sandbox.get(`${WIDGETS}/issues?state=all&direction=asc&per_page=1`))
    const pullRequest = await read<object>(await sandbox.get(`${WIDGETS}/issues/8`))
    const repository = await read<object>(await sandbox.get(WIDGETS))
    const keys = (value: object | undefined): string[] => Object.keys(value ?? {}).sort()
    expect(keys(issue)).toEqual(keys(recordedIssue))
    expect(keys(pullRequest)).toEqual(keys({ ...recordedSingleIssue, draft: false, pull_request: {} }))
    expect(keys(repository)).toEqual(keys({ ...recordedRepository, has_discussions: false }))
  })

  it('keep no name, number or address of the recorded repository', async () => {
    const sandbox = openSandbox()
    for (const path of [WIDGETS, `${WIDGETS}/issues?state=all&per_page=100`, `${WIDGETS}/issues/3/timeline`, '/user']) {
      const text = await (await sandbox.get(path)).text()
      expect(text).not.toMatch(/octokit-fixture|tmp-scenario|hello-world|api\.github\.com|MDA6RW50aXR5/)
    }
  })

  it('are checked by schemas that refuse a wrong answer', async () => {
    const issue = await read<IssueAnswer>(await openSandbox().get(`${WIDGETS}/issues/1`))
    const operation = 'GET /repos/{owner}/{repo}/issues/{issue_number}'
    expect(violations(operation, 200, { ...issue, id: 'one' })).toEqual(['/id must be integer'])
    expect(violations(operation, 200, { ...issue, title: null })).toEqual(['/title must be string'])
    expect(violations(operation, 200, { ...issue, updated_at: 'today' })).toEqual([
      '/updated_at must match format "date-time"',
    ])
    expect(violations(operation, 200, { ...issue, body: null, state_reason: null, user: null })).toEqual([])
  })
})

describe('bodies in the media type asked for', () => {
  const body = async (number: number, accept: string): Promise<Record<string, string>> =>
    await read(await openSandbox().get(`${WIDGETS}/issues/${number}`, { accept }))

  it.each([
    ['application/vnd.github+json', ['body']],
    ['application/vnd.github.raw+json', ['body']],
    ['application/vnd.github.text+json', ['body_text']],
    ['application/vnd.github.html+json', ['body_html']],
    ['application/vnd.github.v3.full+json', ['body', 'body_html', 'body_text']],
  ])('%s gives %j', async (accept, fields) => {
    const issue = await body(1, accept)
    expect(
      Object.keys(issue)
        .filter((key) => key.startsWith('body'))
        .sort(),
    ).toEqual(fields)
  })

  it('renders an image behind the proxy with its own address beside it', async () => {
    const { body_html: html } = await body(25, FULL.accept)
    expect(html).toContain('src="https://camo.githubusercontent.com/')
    expect(html).toContain('data-canonical-src="https://images.example.com/bearing-25.png"')
  })

  it('renders an upload with a signed address that holds the same UUID', async () => {
    const { body: raw, body_html: html } = await body(30, FULL.accept)
    const uuid = /assets\/([0-9a-f-]{36})/.exec(raw ?? '')?.[1]
    expect(html).toContain(`src="https://private-user-images.githubusercontent.com/9000001/${uuid}.png?jwt=`)
  })

  it('renders an attached file as a link', async () => {
    const { body_html: html } = await body(15, FULL.accept)
    expect(html).toContain('<a href="https://github.com/user-attachments/files/15/drawing.pdf"')
  })

  it('escapes what is no markup', async () => {
    const { body_html: html } = await body(1, FULL.accept)
    expect(html).toContain('&lt; 0.1 mm &amp; &quot;no play&quot;')
  })
})
