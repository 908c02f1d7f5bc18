import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Claims, Limits, Scope } from '../../src/access/rules.ts'
import {
  basePathOf,
  hasScope,
  isHttps,
  isLimited,
  isLocalHost,
  isLoopback,
  isSafeMethod,
  isSameOrigin,
  isSameSecret,
  isWithin,
  limitsOf,
  linkProofOf,
  MAX_LINK_SECONDS,
  originOf,
  parseAuthorization,
  personOf,
  routePathOf,
  safeNextPath,
  sha256Hex,
  signedLinkText,
  visible,
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
  ['X Bearer abc', { kind: 'malformed' }],
  [`Bearer ${'a'.repeat(1_025)}`, { kind: 'malformed' }],
  [`Bearer ${'a'.repeat(1_024)}`, { kind: 'bearer', token: 'a'.repeat(1_024) }],
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
  ['https://example.com/hub//', '/hub/operator', '/hub', '/operator'],
  ['https://example.com//hub/api', '/hub/api/operator', '//hub/api', '/hub/api/operator'],
  ['no url', '/operator', '', '/operator'],
  [null, '//operator', '', '//operator'],
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
  ['localhost:', false],
  ['localhost:123456', false],
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
  ['expires=999999999999&signature=', { expiresAtSeconds: 999_999_999_999, signature: '' }],
  ['expires=x17&signature=abc', null],
  ['expires=17x&signature=abc', null],
  ['expires=&signature=abc', null],
  ['expires=17&other=abc', null],
  ['other=17&signature=abc', null],
])('the query %j proves %j', (query, proof) => {
  expect(linkProofOf(new URLSearchParams(query))).toEqual(proof)
})

it('a link is open for a week at most', () => {
  expect(MAX_LINK_SECONDS).toBe(604_800)
})

describe('the way on after signing in', () => {
  it('never leads to another site', () => {
    const pieces = fc.constantFrom(
      '/',
      '\\',
      '.',
      '..',
      ':',
      '@',
      '%2f',
      '?',
      '#',
      '\t',
      '\n',
      ' ',
      'evil.example',
      'http:',
      '[::1]',
    )
    fc.assert(
      fc.property(fc.array(fc.oneof(pieces, fc.string({ maxLength: 2, unit: 'binary' }))), (parts) => {
        for (const base of ['https://api.example.com', 'https://api.example.com/hub/sign-in?next=x'])
          expect(new URL(safeNextPath(parts.join(''), '/operator'), base).origin).toBe('https://api.example.com')
      }),
    )
  })

  it.each([
    '/',
    '/operator',
    '/operator?after=7',
    '/~[]!',
    `/${'a'.repeat(2_047)}`,
    '/integrations/7/oauth/authorize?a=b&c=%2F%2Fd',
    '/a//b',
    '/@b',
  ])('is %s', (next) => expect(safeNextPath(next, '/operator')).toBe(next))

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
    '/a/~\u007f',
    'x/operator',
    `/${'a'.repeat(2_048)}`,
  ])('is not %j', (next) => {
    expect(safeNextPath(next, '/operator')).toBe('/operator')
  })
})

describe('what a caller is bound to', () => {
  const owner = { type: 'User', id: 7 }
  const record = { provider: 'github', ownerType: 'User', ownerId: 7 }
  it.each<[Limits | undefined, boolean, boolean]>([
    [undefined, false, true],
    [{}, false, true],
    [{ provider: 'github' }, true, true],
    [{ provider: 'stripe' }, true, false],
    [{ owner }, true, true],
    [{ owner: { type: 'Team', id: 7 } }, true, false],
    [{ owner: { type: 'User', id: 8 } }, true, false],
    [{ provider: 'github', owner }, true, true],
    [{ provider: 'stripe', owner }, true, false],
    [{ provider: 'github', owner: { type: 'User', id: 8 } }, true, false],
  ])('%j limits it: %s; lets it see the record: %s', (limits, isBound, sees) => {
    const principal = { name: 'ops', scopes: ['read' as const], via: 'token' as const, ...(limits && { limits }) }
    expect(limitsOf(principal)).toEqual(limits ?? {})
    expect([isLimited(principal), visible(principal, record), isWithin(limits ?? {}, record)]).toEqual([
      isBound,
      sees,
      sees,
    ])
  })

  it('is not met by a record without an owner', () => {
    expect(isWithin({ owner }, { provider: 'github', ownerType: null, ownerId: null })).toBe(false)
  })
})

it.each([
  ['GET', true],
  ['HEAD', true],
  ['POST', false],
  ['DELETE', false],
])('the method %s changes nothing: %s', (method, isSafe) => {
  expect(isSafeMethod(method)).toBe(isSafe)
})

it('hashes a text as others do', () => {
  expect(sha256Hex('abc')).toBe('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad')
})

it.each([
  ['localhost', true],
  ['[::1]', true],
  ['127.0.0.1', true],
  ['127.255.10.9', true],
  ['127.0.0', false],
  ['127.0.0.1.evil.example', false],
  ['evil.127.0.0.1', false],
  ['10.0.0.1', false],
  ['example.com', false],
])('%s names this machine: %s', (hostname, is) => {
  expect(isLoopback(hostname)).toBe(is)
})

describe('a person from an OpenID provider', () => {
  const verified = { sub: '42', email: 'Ada@Example.com', email_verified: true }
  it.each<[string, Claims, { read?: string[]; operate?: string[] }, ReturnType<typeof personOf>]>([
    ['by the address', verified, { operate: ['ada@example.com'] }, { name: 'ada@example.com', scope: 'operate' }],
    ['by the address in capitals', verified, { read: ['ADA@EXAMPLE.COM'] }, { name: 'ada@example.com', scope: 'read' }],
    ['by the domain', verified, { read: ['@example.com'] }, { name: 'ada@example.com', scope: 'read' }],
    [
      'of both lists',
      verified,
      { read: ['@example.com'], operate: ['@example.com'] },
      { name: 'ada@example.com', scope: 'operate' },
    ],
    ['of a longer domain', verified, { read: ['@example.co'] }, null],
    ['by a part of the address', verified, { read: ['example.com'] }, null],
    ['of no list', verified, {}, null],
    ['of empty lists', verified, { read: [], operate: [] }, null],
    [
      'verified by a text',
      { ...verified, email_verified: 'true' },
      { read: ['@example.com'] },
      { name: 'ada@example.com', scope: 'read' },
    ],
    ['with an address that is not verified', { ...verified, email_verified: false }, { read: ['@example.com'] }, null],
    ['without a word on the address', { sub: '42', email: 'ada@example.com' }, { read: ['@example.com'] }, null],
    ['with an address that is no text', { ...verified, email: 7 }, { read: ['@example.com'] }, null],
    ['by a flag', { sub: '42', admin: true }, { operate: ['admin=true'] }, { name: '42', scope: 'operate' }],
    ['by a number', { sub: '42', team: 7 }, { read: ['team=7'] }, { name: '42', scope: 'read' }],
    ['by the word for a claim that is missing', { sub: '42' }, { operate: ['role=undefined'] }, null],
    ['by the word for one that is null', { sub: '42', role: null }, { operate: ['role=null'] }, null],
    [
      'by a claim that has the value',
      { sub: '42', role: 'admin' },
      { operate: ['role=admin'] },
      { name: '42', scope: 'operate' },
    ],
    [
      'by a claim that holds the value',
      { sub: '42', groups: ['a', 'b=c'] },
      { read: ['groups=b=c'] },
      { name: '42', scope: 'read' },
    ],
    ['by a claim with another value', { sub: '42', groups: ['a'] }, { read: ['groups=b'] }, null],
    ['by a claim without a name', { sub: '42', '': 'x' }, { read: ['=x'] }, { name: '42', scope: 'read' }],
    [
      'called by an address that is not verified',
      { sub: '42', email: 'a@b.c', role: 'x' },
      { read: ['role=x'] },
      { name: 'a@b.c (42)', scope: 'read' },
    ],
    [
      'called by a user name',
      { sub: '42', preferred_username: 'ada', role: 'x' },
      { read: ['role=x'] },
      { name: 'ada (42)', scope: 'read' },
    ],
    [
      'called by no text',
      { sub: '42', preferred_username: 7, role: 'x' },
      { read: ['role=x'] },
      { name: '42', scope: 'read' },
    ],
    [
      'with a colon and a line',
      { sub: 'cli:root\n', role: 'x' },
      { read: ['role=x'] },
      { name: 'cli_root_', scope: 'read' },
    ],
    [
      'with a long name',
      { sub: 'a'.repeat(300), role: 'x' },
      { read: ['role=x'] },
      { name: 'a'.repeat(255), scope: 'read' },
    ],
  ])('%s', (_, claims, lists, person) => {
    expect(personOf(claims, lists)).toEqual(person)
  })
})

it('signs a method in capitals, however it is written', () => {
  expect(signedLinkText('Post', '/x', 1)).toBe(signedLinkText('POST', '/x', 1))
})

it.each([
  ['https://api.example.com/tools', true],
  ['HTTPS://api.example.com', true],
  ['http://api.example.com', false],
  ['https', false],
  [null, false],
])('cookies are for TLS alone below the base URL %s: %s', (baseUrl, isTls) => {
  expect(isHttps(baseUrl)).toBe(isTls)
})
