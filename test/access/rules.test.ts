import { describe, expect, it } from 'vitest'
import type { Scope } from '../../src/access/rules.ts'
import {
  basePathOf,
  hasScope,
  isLocalHost,
  isSameOrigin,
  isSameSecret,
  linkProofOf,
  originOf,
  parseAuthorization,
  routePathOf,
  safeNextPath,
  signedLinkText,
} from '../../src/access/rules.ts'

it.each<[Scope[], Scope, boolean]>([
  [['read'], 'read', true],
  [['read'], 'operate', false],
  [['operate'], 'read', true],
  [['operate'], 'operate', true],
  [['read', 'operate'], 'operate', true],
  [[], 'read', false],
])('the scopes %j allow %s: %s', (scopes, needed, allowed) => {
  expect(hasScope(scopes, needed)).toBe(allowed)
})

it.each([
  [null, { kind: 'none' }],
  [undefined, { kind: 'none' }],
  ['Bearer abc', { kind: 'bearer', token: 'abc' }],
  ['bearer abc', { kind: 'bearer', token: 'abc' }],
  ['BEARER   a-b._~+/9==', { kind: 'bearer', token: 'a-b._~+/9==' }],
  ['', { kind: 'malformed' }],
  ['Bearer', { kind: 'malformed' }],
  ['Bearer ', { kind: 'malformed' }],
  ['Bearer a b', { kind: 'malformed' }],
  ['Bearer a, Bearer b', { kind: 'malformed' }],
  ['Bearer =', { kind: 'malformed' }],
  ['Basic YTpi', { kind: 'malformed' }],
  ['abc', { kind: 'malformed' }],
  [`Bearer ${'a'.repeat(2_000)}`, { kind: 'malformed' }],
])('the header %j is %j', (header, authorization) => {
  expect(parseAuthorization(header)).toEqual(authorization)
})

it.each([
  ['a', 'a', true],
  ['', '', true],
  ['a', 'b', false],
  ['a', 'aa', false],
  ['', 'a', false],
])('the secrets %j and %j are the same: %s', (given, expected, same) => {
  expect(isSameSecret(given, expected)).toBe(same)
})

const OWN = 'https://api.example.com'

describe('a request from a page of ours', () => {
  const nothing = { origin: null, secFetchSite: null, ownOrigin: OWN, hasBearer: false, hasCookie: true }
  it.each([
    ['with our origin', { origin: OWN }, true],
    ['with our origin, whatever the site', { origin: OWN, secFetchSite: 'cross-site' }, true],
    ['with another origin', { origin: 'https://evil.example' }, false],
    [
      'with another origin that says same-origin',
      { origin: 'https://evil.example', secFetchSite: 'same-origin' },
      false,
    ],
    ['with our host over http', { origin: 'http://api.example.com' }, false],
    ['with our host on another port', { origin: `${OWN}:8443` }, false],
    ['with a sibling', { origin: 'https://app.example.com' }, false],
    ['with the origin null', { origin: 'null' }, false],
    ['with an empty origin', { origin: '' }, false],
    ['without an origin, same-origin', { secFetchSite: 'same-origin' }, true],
    ['without an origin, same-site', { secFetchSite: 'same-site' }, false],
    ['without an origin, cross-site', { secFetchSite: 'cross-site' }, false],
    ['without an origin, none (typed in)', { secFetchSite: 'none' }, false],
    ['without either', {}, false],
    ['with a token and no cookie', { hasBearer: true, hasCookie: false }, true],
    [
      'with a token and no cookie, foreign',
      { hasBearer: true, hasCookie: false, origin: 'https://evil.example' },
      true,
    ],
    ['with a token and a cookie', { hasBearer: true }, false],
    ['with neither token nor cookie', { hasCookie: false }, false],
    ['our origin unknown, same-origin', { ownOrigin: null, origin: OWN, secFetchSite: 'same-origin' }, true],
    ['our origin unknown, cross-site', { ownOrigin: null, origin: OWN, secFetchSite: 'cross-site' }, false],
    ['our origin unknown, nothing said', { ownOrigin: null, origin: OWN }, false],
  ])('%s', (_, evidence, isOurs) => {
    expect(isSameOrigin({ ...nothing, ...evidence })).toBe(isOurs)
  })
})

it.each([
  [null, null],
  ['no url', null],
  ['https://api.example.com/some/path', 'https://api.example.com'],
  ['http://127.0.0.1:3000', 'http://127.0.0.1:3000'],
  ['https://api.example.com:443', 'https://api.example.com'],
])('the origin of %j is %j', (url, origin) => {
  expect(originOf(url)).toBe(origin)
})

it.each([
  [null, '/operator', '', '/operator'],
  ['https://api.example.com', '/operator', '', '/operator'],
  ['https://example.com/hub', '/operator', '/hub', '/operator'],
  ['https://example.com/hub', '/hub/operator', '/hub', '/operator'],
  ['https://example.com/hub', '/hubble/operator', '/hub', '/hubble/operator'],
])('under the base URL %j the path %s has the base %j and is our route %s', (baseUrl, path, base, route) => {
  expect([basePathOf(baseUrl), routePathOf(path, baseUrl)]).toEqual([base, route])
})

it.each([
  ['localhost:3000', true],
  ['127.0.0.1:3000', true],
  ['[::1]:3000', true],
  ['LOCALHOST', true],
  ['evil.example:3000', false],
  ['evil.localhost', false],
  ['localhost.evil.example', false],
  ['localhost:3000@evil.example', false],
  ['127.0.0.2', false],
  ['', false],
  [undefined, false],
])('the Host %j is a name of this machine alone: %s', (host, isLocal) => {
  expect(isLocalHost(host)).toBe(isLocal)
})

it('signs method, path and moment, each on a line of its own', () => {
  expect(signedLinkText('get', '/integrations/7/oauth/authorize', 1_700_000_000)).toBe(
    'GET\n/integrations/7/oauth/authorize\n1700000000',
  )
})

it.each([
  ['expires=1700000000&signature=abc', { expiresAtSeconds: 1_700_000_000, signature: 'abc' }],
  ['signature=abc&expires=1', { expiresAtSeconds: 1, signature: 'abc' }],
  ['', null],
  ['expires=1', null],
  ['signature=abc', null],
  ['expires=1&signature=abc&force=true', null],
  ['expires=1&expires=2&signature=abc', null],
  ['expires=1&signature=abc&signature=abd', null],
  ['expires=01&signature=abc', null],
  ['expires=1e9&signature=abc', null],
  ['expires=-1&signature=abc', null],
  ['expires=1.5&signature=abc', null],
  ['expires=9999999999999&signature=abc', null],
])('the query %j proves %j', (query, proof) => {
  expect(linkProofOf(new URLSearchParams(query))).toEqual(proof)
})

describe('the way on after signing in', () => {
  it.each(['/', '/operator', '/operator?after=7', '/integrations/7/oauth/authorize?a=b&c=%2F%2Fd', '/a//b', '/@b'])(
    'is %s',
    (next) => expect(safeNextPath(next, '/operator')).toBe(next),
  )

  it.each([
    undefined,
    null,
    '',
    'operator',
    '//evil.example',
    '///evil.example',
    '/\\evil.example',
    '\\\\evil.example',
    '/\t/evil.example',
    '/\n/evil.example',
    ' //evil.example',
    '/a b',
    '/a\\b',
    'https://evil.example/',
    'javascript:alert(1)',
    '/ü',
    `/${'a'.repeat(2_048)}`,
  ])('is not %j', (next) => {
    expect(safeNextPath(next, '/operator')).toBe('/operator')
  })
})
