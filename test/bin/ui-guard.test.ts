/** The guard in front of Temporal's UI: which requests it passes on. That it stands there: server.e2e.test.ts, compose.e2e.test.ts. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, it } from 'vitest'
import { refusalOf, startUiGuard } from '../../src/bin/ui-guard.ts'

const HOST = '127.0.0.1:8233'
const OWN = `http://${HOST}`
const JSON_BODY = { 'content-type': 'application/json', 'content-length': '2' }

describe('what the guard of the UI passes on', () => {
  it.each([
    ['what a browser loads', 'GET', { host: HOST }],
    ['the same by another name of this machine', 'GET', { host: 'localhost:8233' }],
    ['a link on another page', 'GET', { host: HOST, 'sec-fetch-site': 'cross-site' }],
    ['an act of a page of its own', 'POST', { host: HOST, origin: OWN, ...JSON_BODY }],
    ['an act as the UI sends it', 'POST', { host: HOST, origin: OWN, 'content-type': 'text/plain;charset=UTF-8' }],
    ['an act without a body', 'POST', { host: HOST, origin: OWN, 'content-length': '0' }],
    ['an act of a page of its own, told by the browser', 'DELETE', { host: HOST, 'sec-fetch-site': 'same-origin' }],
  ])('%s', (_, method, headers) => {
    expect(refusalOf(method, headers)).toBeNull()
  })

  it.each([
    ['a name that was re-pointed to this machine', 'GET', { host: 'attacker.example:8233' }, /Host/],
    ['no Host', 'GET', {}, /Host/],
    ['reading by another page', 'GET', { host: HOST, origin: 'http://attacker.example' }, /Another page/],
    [
      'an act of another page',
      'POST',
      { host: HOST, origin: 'http://attacker.example', ...JSON_BODY },
      /page of this UI/,
    ],
    ['an act of a page of another port', 'POST', { host: HOST, origin: 'http://127.0.0.1:5173', ...JSON_BODY }, /page/],
    ['an act of a page without an origin', 'POST', { host: HOST, origin: 'null', ...JSON_BODY }, /page of this UI/],
    ['an act of nobody knows whom', 'POST', { host: HOST, ...JSON_BODY }, /page of this UI/],
  ])('not %s', (_, method, headers, reason) => {
    expect(refusalOf(method, headers)).toMatch(reason)
  })

  it('with its method, path, headers and body, and the answer as it is', async () => {
    const ui = createServer(async (request, answer) => {
      let body = ''
      for await (const chunk of request) body += chunk
      answer.writeHead(201, { 'x-from': 'the UI' })
      answer.end([request.method, request.url, request.headers['x-csrf-token'], body].join(' '))
    })
    await new Promise<void>((resolve) => ui.listen(0, '127.0.0.1', resolve))
    const place = { host: '127.0.0.1', port: (ui.address() as AddressInfo).port }
    const guard = await startUiGuard(place, { host: '127.0.0.1', port: place.port, isPreferred: true })
    try {
      const url = `http://127.0.0.1:${guard.port}`
      const headers = { origin: url, 'content-type': 'application/json', 'x-csrf-token': 'abc' }
      const answer = await fetch(`${url}/api/v1/x?y=z`, { method: 'PUT', headers, body: '{"a":1}' })
      expect([answer.status, answer.headers.get('x-from'), await answer.text()]).toEqual([
        201,
        'the UI',
        'PUT /api/v1/x?y=z abc {"a":1}',
      ])
      ui.closeAllConnections()
      await new Promise((resolve) => ui.close(resolve))
      expect((await fetch(url)).status).toBe(502)
    } finally {
      await guard.close()
      ui.close()
    }
  })
})
