import { afterEach, describe, expect, it } from 'vitest'
import { createDesklineSandbox } from '../../sandbox/deskline/server.ts'
import type { LoggedRequest } from '../../sandbox/github/request-log.ts'
import type { RunningSandbox } from '../../sandbox/github/server.ts'
import { createGithubSandbox, SANDBOX_TOKEN, startGithubSandbox } from '../../sandbox/github/server.ts'
import type { IssueAnswer, SandboxClient } from './sandbox-client.ts'
import { openSandbox, read, WIDGETS } from './sandbox-client.ts'

const NOW = new Date('2026-01-02T03:04:05.678Z')

async function logged(sandbox: SandboxClient): Promise<LoggedRequest[]> {
  return (await read<{ requests: LoggedRequest[] }>(await sandbox.control('GET', '/requests'))).requests
}

describe('the request log', () => {
  it('has a line for each API request, none for the control endpoints, and can be cleared', async () => {
    const sandbox = openSandbox({ now: () => NOW })
    await sandbox.get(`${WIDGETS}/issues?per_page=1&page=2`)
    await sandbox.get('/repositories/600000001/issues/341')
    await sandbox.control('GET', '/health')
    expect(await logged(sandbox)).toMatchObject([
      { method: 'GET', path: `${WIDGETS}/issues`, query: { per_page: '1', page: '2' }, status: 200 },
      { path: '/repositories/600000001/issues/341', canonicalPath: `${WIDGETS}/issues/341`, status: 404 },
    ])
    expect((await logged(sandbox))[0]).toMatchObject({ at: NOW.toISOString(), faulted: false })
    await sandbox.control('DELETE', '/requests')
    expect(await logged(sandbox)).toEqual([])
  })

  it('names the request id the caller was given', async () => {
    const sandbox = openSandbox()
    const response = await sandbox.get('/user')
    expect((await logged(sandbox))[0]?.requestId).toBe(response.headers.get('x-github-request-id'))
  })
})

describe('the control endpoints', () => {
  it.each([
    ['the GitHub sandbox', createGithubSandbox()],
    ['Deskline', createDesklineSandbox()],
  ])('of %s take nothing from a web page, which could have them post to any address', async (_, app) => {
    const body = '{"url":"http://127.0.0.1:1/","secret":"s"}'
    const headers = { origin: 'http://attacker.example', 'content-type': 'text/plain' }
    expect((await app.request('/_sandbox/webhooks', { method: 'POST', headers, body })).status).toBe(403)
    expect((await app.request('/_sandbox/requests', { method: 'DELETE', headers })).status).toBe(403)
    expect((await app.request('/_sandbox/requests', { method: 'DELETE' })).status).toBe(200)
  })
})

describe('changing the data', () => {
  it('touches the issues that were updated longest ago', async () => {
    const sandbox = openSandbox({ now: () => NOW })
    const touched = await read<unknown>(await sandbox.control('POST', '/issues/touch', { count: 3 }))
    const updated_at = '2026-01-02T03:04:05Z'
    expect(touched).toEqual({ issues: [1, 2, 3].map((number) => ({ number, updated_at })) })
    const since = await read(await sandbox.get(`${WIDGETS}/issues?state=all&since=2026-01-01T00:00:00Z`))
    expect(since.map((issue) => issue.number).sort()).toEqual([1, 2, 3])
    const next = await read<unknown>(await sandbox.control('POST', '/issues/touch', { count: 1 }))
    expect(next).toEqual({ issues: [{ number: 4, updated_at }] })
  })

  it('adds issues of the same kind under the next numbers', async () => {
    const sandbox = openSandbox({ now: () => NOW })
    const added = await read<{ issues: { number: number }[] }>(await sandbox.control('POST', '/issues', { count: 20 }))
    expect(added.issues.map((issue) => issue.number)).toEqual(Array.from({ length: 20 }, (_, index) => 341 + index))
    const listed = await read(await sandbox.get(`${WIDGETS}/issues?state=all&since=2026-01-01T00:00:00Z`))
    expect(listed).toHaveLength(20)
    expect(listed.filter((issue) => issue.pull_request !== undefined).map((issue) => issue.number)).toEqual([
      360, 352, 344,
    ])
  })

  it('goes back to the first data', async () => {
    const sandbox = openSandbox()
    const before = await (await sandbox.get(`${WIDGETS}/issues/1`)).text()
    await sandbox.control('POST', '/issues', { count: 5 })
    await sandbox.send('PATCH', `${WIDGETS}/issues/1`, { title: 'Changed' })
    await sandbox.control('POST', '/reset')
    expect(await read(await sandbox.control('GET', '/health'))).toMatchObject({ status: 'ok', issues: 340 })
    expect(await (await sandbox.get(`${WIDGETS}/issues/1`)).text()).toBe(before)
  })

  it.each([
    ['/issues/touch', { count: 0 }],
    ['/issues', { number: 3 }],
    ['/faults', [{ match: 'nonsense' }]],
    ['/webhooks', { url: 'ftp://example.com', secret: 's' }],
  ])('answers 400 with the reason to %s %j', async (path, body) => {
    const response = await openSandbox().control('POST', path, body)
    expect(response.status).toBe(400)
    expect((await read<{ error: string }>(response)).error).toMatch(/^✖/)
  })
})

describe('faults', () => {
  it('strike in the order given, as often as told, and then no more', async () => {
    const sandbox = openSandbox()
    await sandbox.control('POST', '/faults', [
      { match: `GET ${WIDGETS}/issues*`, status: 502, times: 2 },
      { match: `GET ${WIDGETS}/issues*`, status: 403, headers: { 'retry-after': '7', 'x-ratelimit-remaining': '0' } },
    ])
    const statuses: number[] = []
    for (let index = 0; index < 4; index++) statuses.push((await sandbox.get(`${WIDGETS}/issues?page=1`)).status)
    expect(statuses).toEqual([502, 502, 403, 200])
    expect((await logged(sandbox)).map((entry) => entry.faulted)).toEqual([true, true, true, false])
  })

  it('give the status, headers and body they were ordered with', async () => {
    const sandbox = openSandbox()
    const headers = { 'retry-after': '7', 'x-ratelimit-remaining': '0' }
    const body = { message: 'You have exceeded a secondary rate limit.' }
    await sandbox.control('POST', '/faults', { match: 'GET /user', status: 429, headers, body })
    const response = await sandbox.get('/user')
    expect(response.status).toBe(429)
    expect(await response.json()).toEqual(body)
    expect(response.headers.get('retry-after')).toBe('7')
    expect(response.headers.get('x-ratelimit-remaining')).toBe('0')
    expect(response.headers.get('x-github-request-id')).not.toBeNull()
  })

  it('strike what their pattern matches and nothing else', async () => {
    const sandbox = openSandbox()
    await sandbox.control('POST', '/faults', [{ match: `GET ${WIDGETS}/issues?*page=2*`, status: 500 }])
    expect((await sandbox.get('/user')).status).toBe(200)
    expect((await sandbox.get(`${WIDGETS}/issues?page=1`)).status).toBe(200)
    // GitHub's own links name the repository by id.
    expect((await sandbox.get('/repositories/600000001/issues?page=2')).status).toBe(500)
  })

  it('that only add headers let the real answer through', async () => {
    const sandbox = openSandbox()
    await sandbox.control('POST', '/faults', [{ match: 'GET /user', headers: { 'x-ratelimit-remaining': '0' } }])
    const response = await sandbox.get('/user')
    expect(response.status).toBe(200)
    expect(await response.json()).toMatchObject({ login: 'octo-ada' })
    expect(response.headers.get('x-ratelimit-remaining')).toBe('0')
  })

  it('leave no effect when they answer a write', async () => {
    const sandbox = openSandbox()
    await sandbox.control('POST', '/faults', [{ match: 'POST *', status: 503 }])
    expect((await sandbox.send('POST', `${WIDGETS}/issues`, { title: 'Lost' })).status).toBe(503)
    expect(await read(await sandbox.control('GET', '/health'))).toMatchObject({ issues: 340 })
  })

  it('can be looked at and cleared', async () => {
    const sandbox = openSandbox()
    await sandbox.control('POST', '/faults', [{ match: 'GET /user', status: 500, times: 3 }])
    await sandbox.get('/user')
    expect(await read(await sandbox.control('GET', '/faults'))).toMatchObject({ faults: [{ times: 2, status: 500 }] })
    await sandbox.control('DELETE', '/faults')
    expect((await sandbox.get('/user')).status).toBe(200)
  })
})

describe('faults on a real connection', () => {
  let sandbox: RunningSandbox
  afterEach(() => sandbox.close())

  const headers = { authorization: `Bearer ${SANDBOX_TOKEN}` }
  const order = (faults: object[]): Promise<Response> =>
    fetch(`${sandbox.url}/_sandbox/faults`, { method: 'POST', body: JSON.stringify(faults) })
  const post = (): Promise<Response> =>
    fetch(`${sandbox.url}${WIDGETS}/issues`, { method: 'POST', headers, body: JSON.stringify({ title: 'Once' }) })
  const newest = async (): Promise<IssueAnswer | undefined> =>
    (await read(await fetch(`${sandbox.url}${WIDGETS}/issues?per_page=1`, { headers })))[0]

  it('cut the connection before anything is done', async () => {
    sandbox = await startGithubSandbox()
    await order([{ match: 'POST *', drop: true }])
    await expect(post()).rejects.toThrow('fetch failed')
    expect((await newest())?.title).not.toBe('Once')
    expect((await post()).status).toBe(201)
  })

  it('cut the connection after the write took effect', async () => {
    sandbox = await startGithubSandbox()
    await order([{ match: 'POST *', drop: 'after' }])
    await expect(post()).rejects.toThrow('fetch failed')
    expect((await newest())?.title).toBe('Once')
    const { requests } = await read<{ requests: LoggedRequest[] }>(await fetch(`${sandbox.url}/_sandbox/requests`))
    expect(requests.map((entry) => [entry.method, entry.status])).toEqual([
      ['POST', null],
      ['GET', 200],
    ])
  })

  it('hold an answer back until its caller gives up', async () => {
    sandbox = await startGithubSandbox()
    await order([{ match: 'GET /user', delayMs: 60_000 }])
    const signal = AbortSignal.timeout(50)
    await expect(fetch(`${sandbox.url}/user`, { headers, signal })).rejects.toThrow(/timeout/)
  })
})
