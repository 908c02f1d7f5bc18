import { describe, expect, it } from 'vitest'
import { createGithubSandbox } from '../../sandbox/github/server.ts'
import type { IssueAnswer } from './sandbox-client.ts'
import { openSandbox, read, WIDGETS } from './sandbox-client.ts'

const NOW = new Date('2026-01-02T03:04:05.678Z')

describe('authentication', () => {
  it.each([
    ['a wrong token', { authorization: 'Bearer wrong' }],
    ['no token', {}],
    ['another scheme', { authorization: 'Basic sandbox-token' }],
  ])('answers 401 to %s, with the quota of a stranger', async (_, headers) => {
    const response = await createGithubSandbox().request(`${WIDGETS}/issues`, { headers })
    expect(response.status).toBe(401)
    expect(await response.json()).toEqual({
      message: 'Bad credentials',
      documentation_url: 'https://docs.github.com/rest',
      status: '401',
    })
    expect(response.headers.get('x-ratelimit-limit')).toBe('60')
  })

  it.each(['Bearer abc', 'token abc', 'bearer abc'])('lets in %j', async (authorization) => {
    const response = await createGithubSandbox({ token: 'abc' }).request('/user', { headers: { authorization } })
    expect(response.status).toBe(200)
    expect(await response.json()).toMatchObject({ login: 'octo-ada', type: 'User' })
  })
})

describe('refusals', () => {
  it.each([
    ['another repository', '/repos/octo-sandbox/gadgets/issues', 'issues#list-repository-issues'],
    ['another repository by id', '/repositories/1/issues', 'issues#list-repository-issues'],
    ['an issue that is not there', `${WIDGETS}/issues/341`, 'issues#get-an-issue'],
    ['a number that is none', `${WIDGETS}/issues/one`, 'issues#get-an-issue'],
  ])('answer 404 to %s, naming the page of the operation', async (_, path, page) => {
    const response = await openSandbox().get(path)
    expect(response.status).toBe(404)
    expect(await response.json()).toEqual({
      message: 'Not Found',
      documentation_url: `https://docs.github.com/rest/issues/${page}`,
      status: '404',
    })
  })

  it('answer 404 to a path no operation has', async () => {
    const response = await openSandbox().get('/teapots')
    expect(response.status).toBe(404)
    expect(await response.json()).toMatchObject({ message: 'Not Found' })
  })

  it.each([
    ['POST', '/issues', {}, [{ resource: 'Issue', field: 'title', code: 'missing_field' }]],
    ['POST', '/issues', { title: ' ' }, [{ resource: 'Issue', field: 'title', code: 'missing_field' }]],
    [
      'PATCH',
      '/issues/1',
      { state: 'ajar', state_reason: 'bored' },
      [
        { resource: 'Issue', field: 'state', code: 'invalid', value: 'ajar' },
        { resource: 'Issue', field: 'state_reason', code: 'invalid', value: 'bored' },
      ],
    ],
    [
      'PATCH',
      '/issues/1',
      { assignees: ['nobody'] },
      [{ resource: 'Issue', field: 'assignees', code: 'invalid', value: 'nobody' }],
    ],
    ['POST', '/issues/1/comments', {}, [{ resource: 'IssueComment', field: 'body', code: 'missing_field' }]],
  ])('answer 422 to %s %s %j', async (method, path, body, errors) => {
    const sandbox = openSandbox()
    const before = await (await sandbox.get(`${WIDGETS}/issues/1`)).text()
    const response = await sandbox.send(method, WIDGETS + path, body)
    expect(response.status).toBe(422)
    expect(await response.json()).toMatchObject({ message: 'Validation Failed', errors, status: '422' })
    expect(await (await sandbox.get(`${WIDGETS}/issues/1`)).text()).toBe(before)
  })

  it('answer 400 to a body that is not JSON', async () => {
    const response = await createGithubSandbox().request(`${WIDGETS}/issues`, {
      method: 'POST',
      headers: { authorization: 'token sandbox-token' },
      body: '{',
    })
    expect(response.status).toBe(400)
    expect(await response.json()).toMatchObject({ message: 'Problems parsing JSON' })
  })
})

describe('the rate limit', () => {
  const quota = (response: Response): string[] =>
    ['limit', 'remaining', 'used', 'resource'].map((name) => response.headers.get(`x-ratelimit-${name}`) ?? '')

  it('counts down with each request, failing ones too', async () => {
    const sandbox = openSandbox()
    expect(quota(await sandbox.get('/user'))).toEqual(['5000', '4999', '1', 'core'])
    expect(quota(await sandbox.get(`${WIDGETS}/issues/341`))).toEqual(['5000', '4998', '2', 'core'])
    await sandbox.control('GET', '/health')
    expect(quota(await sandbox.get('/user'))).toEqual(['5000', '4997', '3', 'core'])
  })

  it('refuses with 403 when nothing remains, until its hour is over', async () => {
    let now = NOW
    const sandbox = openSandbox({ rateLimit: 2, now: () => now })
    const first = await sandbox.get('/user')
    await sandbox.get('/user')
    const refused = await sandbox.get('/user')
    expect(refused.status).toBe(403)
    expect(await refused.json()).toMatchObject({ message: 'API rate limit exceeded for user ID 9000001.' })
    expect(quota(refused)).toEqual(['2', '0', '2', 'core'])

    const reset = Number(first.headers.get('x-ratelimit-reset'))
    expect(reset).toBe(Math.ceil(NOW.getTime() / 1000) + 3600)
    now = new Date(reset * 1000)
    expect(quota(await sandbox.get('/user'))).toEqual(['2', '1', '1', 'core'])
  })

  it('charges nothing for 304', async () => {
    const sandbox = openSandbox()
    const first = await sandbox.get(`${WIDGETS}/issues`)
    const again = await sandbox.get(`${WIDGETS}/issues`, { 'if-none-match': first.headers.get('etag') ?? '' })
    expect(again.status).toBe(304)
    expect(await again.text()).toBe('')
    expect(quota(again)).toEqual(['5000', '4999', '1', 'core'])
  })
})

describe('every answer', () => {
  it('has a request id of its own', async () => {
    const sandbox = openSandbox()
    const responses = await Promise.all(Array.from({ length: 50 }, () => sandbox.get('/user')))
    const ids = responses.map((response) => response.headers.get('x-github-request-id') ?? '')
    expect(new Set(ids).size).toBe(50)
    expect(ids.every((id) => /^[0-9A-F]{4}:[0-9A-F]{5}:[0-9A-F]{7}:[0-9A-F]{7}:[0-9A-F]{8}$/.test(id))).toBe(true)
  })

  it('leads its addresses back to the sandbox', async () => {
    const sandbox = openSandbox()
    const issue = await read<Record<string, string>>(await sandbox.get(`${WIDGETS}/issues/3`))
    for (const key of ['url', 'repository_url', 'comments_url', 'timeline_url']) {
      expect((await sandbox.get(issue[key] ?? '')).status).toBe(200)
    }
  })

  it('finds the repository whatever the case of its name', async () => {
    expect((await openSandbox().get('/repos/Octo-Sandbox/WIDGETS')).status).toBe(200)
  })
})

describe('writing', () => {
  it('closes and reopens an issue, with its reason and who did it', async () => {
    const sandbox = openSandbox({ now: () => NOW })
    const path = `${WIDGETS}/issues/1`
    const closed = await read<IssueAnswer>(
      await sandbox.send('PATCH', path, { state: 'closed', state_reason: 'not_planned' }),
    )
    expect(closed).toMatchObject({
      state: 'closed',
      state_reason: 'not_planned',
      closed_at: '2026-01-02T03:04:05Z',
      updated_at: '2026-01-02T03:04:05Z',
      closed_by: { login: 'octo-ada' },
    })
    const reopened = await read<IssueAnswer>(await sandbox.send('PATCH', path, { state: 'open' }))
    expect(reopened).toMatchObject({ state: 'open', state_reason: 'reopened', closed_at: null, closed_by: null })
  })

  it('leaves updated_at alone when nothing changes', async () => {
    const sandbox = openSandbox({ now: () => NOW })
    const before = await read<IssueAnswer>(await sandbox.get(`${WIDGETS}/issues/1`))
    const { title, body, state } = before
    expect(await read(await sandbox.send('PATCH', `${WIDGETS}/issues/1`, { title, body, state }))).toEqual(before)
  })

  it('opens an issue under the next number and says where', async () => {
    const sandbox = openSandbox({ now: () => NOW })
    const response = await sandbox.send('POST', `${WIDGETS}/issues`, { title: 'A new one', labels: ['bug', 'fresh'] })
    expect(response.status).toBe(201)
    expect(response.headers.get('location')).toBe(`http://localhost${WIDGETS}/issues/341`)
    const issue = await read<IssueAnswer>(response)
    expect(issue).toMatchObject({ number: 341, id: 3_000_000_341, title: 'A new one', body: null, state: 'open' })
    expect(issue.labels.map(({ name, color }) => [name, color])).toEqual([
      ['bug', 'd73a4a'],
      ['fresh', 'ededed'],
    ])
    expect(await read(await sandbox.get(`${WIDGETS}/issues/341`))).toEqual(issue)
  })

  it('comments on an issue, which moves its updated_at', async () => {
    const sandbox = openSandbox({ now: () => NOW })
    const response = await sandbox.send('POST', `${WIDGETS}/issues/4/comments`, { body: 'Seen.' })
    expect(response.status).toBe(201)
    expect(await response.json()).toMatchObject({ body: 'Seen.', issue_url: `http://localhost${WIDGETS}/issues/4` })
    const issue = await read<IssueAnswer>(await sandbox.get(`${WIDGETS}/issues/4`))
    expect(issue).toMatchObject({ comments: 1, updated_at: '2026-01-02T03:04:05Z' })
  })
})
