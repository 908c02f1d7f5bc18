import { describe, expect, it } from 'vitest'
import { byPrecedence, matches, parsePattern } from '../../src/testing/request-pattern.ts'

describe('a pattern', () => {
  it.each([
    ['GET issues/*', 'GET', 'issues/7', true],
    ['GET issues/*', 'get', '/issues/7/', true],
    ['get issues/*', 'GET', 'issues/7', true],
    ['GET issues/*', 'POST', 'issues/7', false],
    ['GET issues/*', 'GET', 'issues', false],
    ['GET issues/*', 'GET', 'issues/7/comments', false],
    ['issues/*', 'DELETE', 'issues/7', true],
    ['repos/*/*/issues', 'GET', 'repos/octo/widgets/issues', true],
    ['issues/v*', 'GET', 'issues/v2', true],
    ['issues/v*', 'GET', 'issues/2', false],
    ['*', 'GET', 'ping', true],
    ['*', 'GET', 'ping/pong', false],
    ['a.b', 'GET', 'axb', false],
    ['GET issues', 'GET', 'issues?page=2', true],
    ['GET issues?page=2', 'GET', 'issues?page=2', true],
    ['GET issues?page=2', 'GET', 'issues?page=3', false],
    ['GET issues?page=*', 'GET', 'issues?page=3', true],
    ['GET issues?page=2', 'GET', 'issues', false],
  ])('%s and %s %s: %s', (pattern, method, endpoint, expected) => {
    expect(matches(parsePattern(pattern), { method, endpoint })).toBe(expected)
  })

  it.each([[''], ['  '], ['/']])('is not %o', (text) => {
    expect(() => parsePattern(text)).toThrow(RangeError)
  })
})

describe('precedence', () => {
  it.each([
    ['method and exact', 'GET a/b', 'method and wildcard', 'GET a/*'],
    ['method and wildcard', 'GET a/*', 'exact', 'a/b'],
    ['exact', 'a/b', 'wildcard', 'a/*'],
    ['method and a wildcard of fewer segments', 'GET *', 'an exact one of more', 'a/b/c'],
    ['more segments', 'GET a/*/c', 'fewer', 'GET a/*'],
    ['more segments with more stars', '*/*/*', 'fewer segments', 'a/*'],
    ['fewer stars', 'a/b/*', 'more stars', 'a/*/*'],
    ['one that names a query', 'GET a?x=1', 'one that does not', 'GET a'],
  ])('%s (%s) goes before %s (%s)', (_, first, __, second) => {
    const [a, b] = [parsePattern(first), parsePattern(second)]
    expect(byPrecedence(a, b)).toBeLessThan(0)
    expect(byPrecedence(b, a)).toBeGreaterThan(0)
  })

  it('leaves equals in their order', () => {
    const given = ['GET a/*/c', 'GET a/b/*'].map(parsePattern)
    expect(given.toSorted(byPrecedence)).toEqual(given)
  })
})
