/** Which answers are stored as a size note. The method is told by its name before a colon. */
import { describe, expect, it } from 'vitest'
import { isUnlogged } from '../../src/calls/stored-body.ts'

describe('an answer is not logged', () => {
  it.each([
    ['files/*', 'GET', 'files/7'],
    ['files/*', 'POST', '/files/7/'],
    ['/files/*/', 'GET', 'files/7'],
    ['files/*/content', 'GET', 'files/7/content'],
    ['GET:files/*', 'GET', 'files/7'],
    ['get:files/*', 'GET', 'files/7'],
    ['files/*', 'GET', 'files/7?page=2'],
    ['files', 'GET', 'files'],
    ['*', 'GET', 'files'],
    ['files/report-*.pdf', 'GET', 'files/report-1.pdf'],
    ['https://x.example/*', 'GET', 'https://x.example/a'],
  ])('by %s: %s %s', (pattern, method, endpoint) => {
    expect(isUnlogged(pattern, method, endpoint)).toBe(true)
  })
})

describe('an answer is logged', () => {
  it.each([
    ['files/*', 'GET', 'files/7/content'],
    ['files/*', 'GET', 'files'],
    ['files/*', 'GET', 'files/'],
    ['files/*', 'GET', 'my/files/7'],
    ['GET:files/*', 'POST', 'files/7'],
    ['files/a.b', 'GET', 'files/axb'],
    ['*', 'GET', 'a/b'],
    ['Files/*', 'GET', 'files/7'],
    ['', 'GET', 'files'],
  ])('in spite of %s: %s %s', (pattern, method, endpoint) => {
    expect(isUnlogged(pattern, method, endpoint)).toBe(false)
  })
})
