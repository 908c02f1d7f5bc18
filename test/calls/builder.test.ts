/** Where the data of a call by URL goes. */
import { describe, expect, it } from 'vitest'
import { callByUrl } from '../../src/calls/builder.ts'
import type { RequestContext, RequestOptions } from '../../src/providers/integration.ts'

type Data = RequestOptions['data']
const URL_GIVEN = 'https://api.example/things?a=0'
const HEADER = 'Idempotency-Key'

describe('data', () => {
  it.each(['GET', 'head', 'DELETE'])('is the query of %s, after what the URL has', async (method) => {
    const sent = await send(method, { page: 2, open: true, ids: ['x', 'y&z'], none: null })
    expect(sent.url).toBe('https://api.example/things?a=0&page=2&open=true&ids=x&ids=y%26z')
    expect(sent.body).toBeUndefined()
    expect(sent.method).toBe(method.toUpperCase())
  })

  it.each(['POST', 'PUT', 'PATCH'])('is the JSON body of %s', async (method) => {
    const sent = await send(method, { page: 2, inner: [{ a: null }] })
    expect(sent).toMatchObject({ url: URL_GIVEN, body: '{"page":2,"inner":[{"a":null}]}' })
    expect(sent.headers.get('content-type')).toBe('application/json')
  })

  it.each<[string, Data]>([
    ['a text', 'a=1'],
    ['bytes', new Uint8Array([1, 2])],
  ])('that is %s is the raw body, of DELETE too', async (_, data) => {
    for (const method of ['POST', 'DELETE']) {
      const sent = await send(method, data)
      expect(sent).toMatchObject({ url: URL_GIVEN, body: data })
      expect(sent.headers.get('content-type')).toBeNull()
    }
  })

  it('that is missing leaves URL and body alone', async () => {
    for (const method of ['GET', 'POST']) expect(await send(method, undefined)).toMatchObject({ url: URL_GIVEN })
  })

  it.each<[string, string, unknown]>([
    ['a text with GET', 'GET', 'raw'],
    ['bytes with HEAD', 'HEAD', new Uint8Array(1)],
    ['a list with GET', 'GET', [1]],
    ['a number with DELETE', 'DELETE', 7],
    ['an object within the query', 'GET', { filter: { a: 1 } }],
    ['a circle', 'POST', circle()],
    ['a bigint', 'POST', { n: 1n }],
  ])('is refused: %s', (_, method, data) => {
    expect(() => prepare(method, data as Data)).toThrow(expect.objectContaining({ code: 'invalid_argument' }))
  })
})

describe('a URL', () => {
  it.each(['things', '/things', '', 'ftp://api.example/', 'file:///etc/passwd', 'https://me:secret@api.example/'])(
    'is refused: %s',
    (target) => {
      const refused = () => callByUrl({ method: 'GET', target, data: undefined, key: null })
      expect(refused).toThrow(expect.objectContaining({ code: 'invalid_argument', argument: 'url' }))
      expect(refused).not.toThrow(/secret/)
    },
  )

  it('that is an object is not changed', async () => {
    const target = new URL(URL_GIVEN)
    callByUrl({ method: 'GET', target, data: { page: 2 }, key: null })
    expect(target.href).toBe(URL_GIVEN)
  })
})

describe('an idempotency key', () => {
  it('goes into its header', async () => {
    const sent = await send('POST', {}, { header: HEADER, value: 'order 7' })
    expect(sent.headers.get(HEADER)).toBe('order 7')
    expect((await send('POST', {})).headers.get(HEADER)).toBeNull()
  })

  it.each(['ключ', 'a\nb', ' a', 'a '])('is refused when a header would not carry it as it is: %j', (value) => {
    expect(() => prepare('POST', {}, { header: HEADER, value })).toThrow(
      expect.objectContaining({ argument: 'idempotencyKey' }),
    )
  })
})

function prepare(method: string, data: Data, key: { header: string; value: string } | null = null) {
  return callByUrl({ method, target: URL_GIVEN, data, key })
}

/** What reaches `fetch`. */
async function send(method: string, data: Data, key: { header: string; value: string } | null = null) {
  const sent: { url: string; method: string | undefined; body: unknown; headers: Headers }[] = []
  const fetch = async (url: URL, init: RequestInit) => {
    sent.push({ url: url.href, method: init.method, body: init.body, headers: new Headers(init.headers) })
  }
  await prepare(method, data, key).call({ fetch } as unknown as RequestContext)
  const [only] = sent
  if (only === undefined || sent.length !== 1) throw new Error(`${sent.length} requests were sent`)
  return only
}

function circle(): unknown {
  const self: Record<string, unknown> = {}
  self.self = self
  return self
}
