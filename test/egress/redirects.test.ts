import { describe, expect, it } from 'vitest'
import type { Hop } from '../../src/egress/redirects.ts'
import { isRedirect, nextHop } from '../../src/egress/redirects.ts'
import { EgressRefused } from '../../src/framework/errors.ts'

const BODY = new TextEncoder().encode('{}')
const hop = (method: string, body: Hop['body'] = null, url = 'https://api.example.com/a?b=c'): Hop => ({
  url: new URL(url),
  method,
  headers: new Headers({
    accept: 'text/html',
    authorization: 'Bearer t',
    cookie: 'a=b',
    'proxy-authorization': 'Basic x',
    'x-api-key': 'k',
    ...(body === null ? {} : { 'content-type': 'application/json', 'content-encoding': 'identity' }),
  }),
  body,
})
const namesOf = ({ headers }: Hop) => [...headers.keys()]

describe('a redirect', () => {
  it.each<[status: number, method: string, next: string, keepsBody: boolean]>([
    [301, 'POST', 'GET', false],
    [302, 'POST', 'GET', false],
    [303, 'POST', 'GET', false],
    [307, 'POST', 'POST', true],
    [308, 'POST', 'POST', true],
    [301, 'PUT', 'PUT', true],
    [302, 'PATCH', 'PATCH', true],
    [302, 'DELETE', 'DELETE', true],
    [303, 'PUT', 'GET', false],
    [303, 'DELETE', 'GET', false],
  ])('%i of %s is a %s', (status, method, next, keepsBody) => {
    const following = nextHop(hop(method, BODY), status, '/b', [])
    expect(following).toMatchObject({ method: next, body: keepsBody ? BODY : null })
    expect(following.url.href).toBe('https://api.example.com/b')
    expect(following.headers.has('content-type')).toBe(keepsBody)
    expect(following.headers.has('content-encoding')).toBe(keepsBody)
    expect(following.headers.get('authorization')).toBe('Bearer t')
  })

  it('to a URL in UTF-8 leads there: a header has one character a byte', () => {
    const location = Buffer.from('/files/café.pdf').toString('latin1')
    expect(nextHop(hop('GET'), 302, location, []).url.pathname).toBe('/files/caf%C3%A9.pdf')
  })

  it.each([301, 302, 303, 307, 308])('%i keeps GET and HEAD', (status) => {
    expect(nextHop(hop('GET'), status, '/b', []).method).toBe('GET')
    expect(nextHop(hop('HEAD'), status, '/b', []).method).toBe('HEAD')
  })

  it.each([
    'https://other.example.com/',
    'https://api.example.com:444/',
    '//evil.example/',
    'https://api.example.com.evil.example/',
  ])('to another origin loses what is meant for one: %s', (location) => {
    expect(namesOf(nextHop(hop('GET'), 302, location, ['x-api-key']))).toEqual(['accept'])
  })

  it.each([307, 308, 301])('of %i that asks for the body at another origin is refused', (status) => {
    const method = status === 301 ? 'PUT' : 'POST'
    expect(() => nextHop(hop(method, BODY), status, 'https://other.example.com/', [])).toThrow(EgressRefused)
    expect(nextHop(hop(method), status, 'https://other.example.com/', []).method).toBe(method)
  })

  it('from http to https of the same host is to another origin', () => {
    const following = nextHop(hop('GET', null, 'http://api.example.com/'), 302, 'https://api.example.com/', [])
    expect(following.headers.has('authorization')).toBe(false)
  })

  it('that comes back does not bring back what was dropped', () => {
    const away = nextHop(hop('GET'), 302, 'https://other.example.com/', ['x-api-key'])
    expect(namesOf(nextHop(away, 302, 'https://api.example.com/', ['x-api-key']))).toEqual(['accept'])
  })

  it.each([
    ['http://api.example.com/', 'an https URL redirects to it without TLS'],
    ['ftp://api.example.com/', 'only http and https URLs are, not ftp:'],
    ['file:///etc/passwd', 'only http and https URLs are, not file:'],
    ['data:text/plain,x', 'only http and https URLs are, not data:'],
    ['https://user:secret@api.example.com/', 'its URL holds user info'],
    ['https://[', 'it redirects to what is no URL'],
  ])('is refused to %s', (location, reason) => {
    expect(() => nextHop(hop('GET'), 302, location, [])).toThrow(
      expect.objectContaining({ code: 'egress_refused', reason, message: expect.not.stringContaining('secret') }),
    )
  })

  it.each([307, 308])('%i asks in vain for a stream again', (status) => {
    expect(() => nextHop(hop('POST', new ReadableStream()), status, '/b', [])).toThrow(EgressRefused)
    expect(nextHop(hop('POST', new ReadableStream()), 303, '/b', []).body).toBeNull()
  })

  it.each<[status: number, headers: Record<string, string>, expected: boolean]>([
    [302, { location: '/' }, true],
    [302, {}, false],
    [300, { location: '/' }, false],
    [304, { location: '/' }, false],
    [201, { location: '/' }, false],
  ])('%i with %j: %s', (status, headers, expected) => {
    expect(isRedirect({ status, headers: new Headers(headers) })).toBe(expected)
  })
})
