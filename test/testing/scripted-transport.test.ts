import { AssertionError } from 'node:assert'
import { describe, expect, it } from 'vitest'
import { classifyFailure, FailureClass } from '../../src/calls/failure-class-rules.ts'
import { ManualClock } from '../../src/testing/manual-clock.ts'
import { scriptedTransport } from '../../src/testing/scripted-transport.ts'

const URL_OF_A = 'https://api.example.com/a?x=1'

describe('a scripted transport', () => {
  it('answers in order, and keeps what was sent', async () => {
    const { fetch, requests } = scriptedTransport([
      { body: { n: 1 } },
      { status: 404, headers: { 'x-request-id': 'r2' }, body: 'gone' },
      { status: 204 },
    ])
    const first = await fetch(URL_OF_A)
    const second = await fetch(new Request(URL_OF_A, { method: 'POST', body: 'sent', headers: { 'x-key': 'k' } }))
    expect([first.status, first.headers.get('content-type'), await first.json()]).toEqual([
      200,
      'application/json',
      { n: 1 },
    ])
    expect([second.status, second.headers.get('x-request-id'), await second.text()]).toEqual([404, 'r2', 'gone'])
    expect((await fetch(URL_OF_A)).status).toBe(204)
    expect(requests.map(({ method, url, body }) => [method, url.search, body])).toEqual([
      ['GET', '?x=1', ''],
      ['POST', '?x=1', 'sent'],
      ['GET', '?x=1', ''],
    ])
    expect(requests[1]?.headers.get('x-key')).toBe('k')
  })

  it('answers by what was asked', async () => {
    const { fetch } = scriptedTransport([async (request) => ({ body: (await request.text()).toUpperCase() })])
    expect(await (await fetch(URL_OF_A, { method: 'PUT', body: 'abc' })).text()).toBe('ABC')
  })

  it('breaks the connection as undici does', async () => {
    const { fetch } = scriptedTransport(['cut'])
    const error = await fetch(URL_OF_A).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ name: 'TypeError', message: 'fetch failed', cause: { code: 'ECONNRESET' } })
    expect(classifyFailure({ error, callerAborted: false })).toBe(FailureClass.Upstream)
  })

  it('hangs until the caller gives up', async () => {
    const { fetch } = scriptedTransport(['hang'])
    const caller = new AbortController()
    const answer = fetch(URL_OF_A, { signal: caller.signal })
    caller.abort(new Error('too long'))
    await expect(answer).rejects.toThrow('too long')
  })

  it('takes its time by the clock', async () => {
    const clock = new ManualClock('2026-01-01T00:00:00Z')
    const transport = scriptedTransport([{ delayMs: 90_000 }])
    transport.useClock(clock)
    await transport.fetch(URL_OF_A)
    expect(clock.now()).toEqual(new Date('2026-01-01T00:01:30Z'))
  })

  it('takes real time, unless the caller gives up before', async () => {
    const { fetch } = scriptedTransport([{ delayMs: 60_000, delay: 'real' }])
    await expect(fetch(URL_OF_A, { signal: AbortSignal.timeout(1) })).rejects.toMatchObject({ name: 'AbortError' })
  })

  it('refuses a request more than it has replies', async () => {
    const { fetch } = scriptedTransport([{}])
    await fetch(URL_OF_A)
    await expect(fetch(URL_OF_A)).rejects.toMatchObject({ code: 'replies_used_up', request: `GET ${URL_OF_A}` })
  })

  it('gives each of two requests at once a reply of its own', async () => {
    const { fetch, requests, assertDone } = scriptedTransport([{ body: { n: 1 } }, { body: { n: 2 } }])
    const both = await Promise.all([fetch(URL_OF_A, { method: 'POST', body: 'sent' }), fetch(URL_OF_A)])
    expect(await Promise.all(both.map((answer) => answer.json()))).toEqual([{ n: 1 }, { n: 2 }])
    expect(requests.map(({ body }) => body)).toEqual(['sent', ''])
    assertDone()
  })

  it('says which replies nobody asked for', async () => {
    const { fetch, assertDone } = scriptedTransport([{}, {}])
    await fetch(URL_OF_A)
    expect(assertDone).toThrow(AssertionError)
    expect(assertDone).toThrow('1 of 2 scripted replies were never asked for')
    await fetch(URL_OF_A)
    assertDone()
  })
})
