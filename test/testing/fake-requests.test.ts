import { AssertionError } from 'node:assert'
import { beforeEach, describe, expect, it } from 'vitest'
import { z } from 'zod'
import type { Integration, RequestOptions } from '../../src/providers/integration.ts'
import { FakeRequests, sequence } from '../../src/testing/fake-requests.ts'

const one = { id: 1 } as Integration
const two = { id: 2 } as Integration

let fakes: FakeRequests
beforeEach(() => {
  fakes = new FakeRequests()
})

const ask = (endpoint: string, method = 'GET', options: RequestOptions = {}, integration = one, schema?: z.ZodType) =>
  fakes.answer({
    integration,
    endpoint,
    method,
    options,
    ...(schema === undefined ? {} : { schema }),
  })

describe('a reply', () => {
  it.each([
    ['a value', { n: 1 }, { n: 1 }],
    ['null', null, null],
    ['a list', [1, 2], [1, 2]],
    ['what a function makes of the call', ({ endpoint }: { endpoint: string }) => endpoint, 'things/7'],
    ['what a function promises', async () => 'later', 'later'],
  ])('is %s', async (_, reply, value) => {
    fakes.add({ 'GET things/*': reply })
    expect(await ask('things/7')).toEqual(value)
  })

  it('is thrown when it is an Error', async () => {
    const error = new Error('gone')
    fakes.add({ 'things/*': error })
    await expect(ask('things/7')).rejects.toBe(error)
  })

  it('of a sequence comes in turn; one call more throws', async () => {
    fakes.add({ things: sequence(1, new Error('two'), () => 3) })
    expect(await ask('things')).toBe(1)
    await expect(ask('things')).rejects.toThrow('two')
    expect(await ask('things')).toBe(3)
    await expect(ask('things')).rejects.toMatchObject({ code: 'replies_used_up', replies: 3, request: 'GET things' })
  })

  it('must fit the schema of requestAs()', async () => {
    fakes.add({ things: { n: '5' } })
    expect(await ask('things', 'GET', {}, one, z.object({ n: z.coerce.number() }))).toEqual({ n: 5 })
    await expect(ask('things', 'GET', {}, one, z.object({ n: z.number() }))).rejects.toMatchObject({
      code: 'schema_drift',
      endpoint: 'things',
      issues: [{ path: 'n' }],
    })
  })

  it('over which the schema throws does not fit it, as in production', async () => {
    fakes.add({ things: { n: '{' } })
    const schema = z.object({ n: z.string().transform((text) => JSON.parse(text) as unknown) })
    await expect(ask('things', 'GET', {}, one, schema)).rejects.toMatchObject({
      code: 'schema_drift',
      endpoint: 'things',
      issues: [{ path: '(root)', message: 'the schema threw SyntaxError' }],
    })
  })
})

describe('the fake that answers', () => {
  it('is the first by precedence, however they were given', async () => {
    fakes.add({ '*/*': 'wildcard', 'a/b': 'exact', 'GET a/*': 'method and wildcard', 'GET a/b': 'method and exact' })
    expect([await ask('a/b'), await ask('a/c'), await ask('a/b', 'POST'), await ask('x/y')]).toEqual([
      'method and exact',
      'method and wildcard',
      'exact',
      'wildcard',
    ])
  })

  it('is one of the integration before any of all', async () => {
    fakes
      .add({ 'GET a/b': 'all' })
      .add({ '*/*': 'of two' }, { integration: two })
      .add({ '*/*': 'of 3' }, { integration: 3 })
    expect([await ask('a/b'), await ask('a/b', 'GET', {}, two)]).toEqual(['all', 'of two'])
  })

  it('is replaced by a later one of the same pattern and scope', async () => {
    fakes.add({ a: 1, b: 1 }).add({ a: 2 }).add({ b: 3 }, { integration: two })
    expect([await ask('a'), await ask('b')]).toEqual([2, 1])
  })

  it('is missing: the call throws, and names itself and the fakes', async () => {
    fakes.add({ 'GET a': 1, 'b/*': 2 })
    await expect(ask('c', 'post')).rejects.toMatchObject({
      code: 'unexpected_request',
      message: 'Unexpected request POST c. No fake matches it. Fakes: GET a, b/*.',
    })
  })

  it('is asked nothing once the caller has given up', async () => {
    fakes.add({ a: 1 })
    await expect(ask('a', 'GET', { signal: AbortSignal.abort(new Error('enough')) })).rejects.toThrow('enough')
    fakes.assertNotRequested('a')
  })
})

describe('assertions', () => {
  beforeEach(async () => {
    fakes.add({ 'issues/*': null })
    await ask('issues/1', 'GET')
    await ask('issues/2', 'POST', { data: { title: 'x' } })
  })

  it('hold', () => {
    fakes.assertRequested('GET issues/1')
    fakes.assertRequested('POST issues/*', ({ data }) => (data as { title: string }).title === 'x')
    fakes.assertNotRequested('DELETE issues/*')
    fakes.assertRequestCount('issues/*', 2)
  })

  it.each([
    ['a call that was not made', () => fakes.assertRequested('GET issues/9'), /GET issues\/9 was not requested/],
    ['a predicate that never holds', () => fakes.assertRequested('issues/*', () => false), /made 2 times, but never/],
    ['a call that was made', () => fakes.assertNotRequested('issues/*'), /requested 2 times, not expected/],
    ['another count', () => fakes.assertRequestCount('GET issues/*', 2), /requested 1 times, expected 2/],
  ])('fail for %s, with what was asked', (_, assertion, message) => {
    expect(assertion).toThrow(AssertionError)
    expect(assertion).toThrow(message)
    expect(assertion).toThrow(/Requested: GET issues\/1, POST issues\/2/)
  })
})

it('after stop() nothing is faked and nothing was asked', async () => {
  fakes.add({ a: 1 })
  await ask('a')
  fakes.stop()
  expect([fakes.isActive, fakes.calls]).toEqual([false, []])
})
