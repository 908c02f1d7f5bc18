import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import { gzipSync } from 'node:zlib'
import { EnvHttpProxyAgent, getGlobalDispatcher, setGlobalDispatcher } from 'undici'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { classifyFailure } from '../../src/calls/failure-class-rules.ts'
import { isNeverConnected } from '../../src/calls/retry-rules.ts'
import { EgressRules } from '../../src/egress/egress-policy.ts'
import { secretsOf } from '../../src/framework/redaction.ts'
import { egress, resolver, serve } from './servers.ts'

const LOOPBACK = { allow: ['127.0.0.1'] }
const refused = (host: string, reason: unknown = expect.any(String)) =>
  expect.objectContaining({ code: 'egress_refused', name: 'EgressRefused', host, reason })

describe('what is reached', () => {
  it('is no private address, in whatever way its URL writes it', async () => {
    const server = await serve((_request, response) => response.end('private'))
    const fetch = egress().fetch()
    const { port } = server
    for (const host of [
      '127.0.0.1',
      '2130706433',
      '0x7f.1',
      '0177.0.0.1',
      '127.1',
      '127.0.0.1.',
      '127。0。0。1',
      '0.0.0.0',
    ]) {
      await expect(fetch(`http://${host}:${port}/`), host).rejects.toEqual(refused(new URL(`http://${host}`).hostname))
    }
    for (const host of ['[::1]', '[::ffff:127.0.0.1]', '[64:ff9b::7f00:1]', '[2002:7f00:1::]', '[::]']) {
      await expect(fetch(`http://${host}:${port}/`), host).rejects.toMatchObject({ code: 'egress_refused' })
    }
    await expect(fetch(`https://localhost:${port}/`)).rejects.toEqual(
      refused('localhost', expect.stringMatching(/^it resolves to (127\.0\.0\.1|::1), which is loopback/)),
    )
    const lookup = resolver({ 'localhost.': [['127.0.0.1']] })
    await expect(egress({}, { lookup }).fetch()(`http://localhost.:${port}/`)).rejects.toEqual(refused('localhost'))
    expect(server.seen).toEqual([])
  })

  it.each([
    [['127.0.0.1/32']],
    [['127.0.0.1']],
    [['127.0.0.0/8']],
    [['::ffff:127.0.0.1']],
    [['api.example.com']],
    [['*.example.com']],
    [['*.com', '10.0.0.0/8']],
  ])('is a private address that %j allows', async (allow) => {
    const server = await serve((_request, response) => response.end('hello'))
    const fetch = egress({ allow }, { lookup: resolver({ 'api.example.com': [['127.0.0.1']] }) }).fetch()
    const answer = await fetch(`http://api.example.com:${server.port}/a?b=c#d`)
    expect(answer).toBeInstanceOf(Response)
    expect(await answer.text()).toBe('hello')
    expect(answer.url).toBe(`http://api.example.com:${server.port}/a?b=c`)
    expect(server.seen).toMatchObject([{ url: '/a?b=c', headers: { host: `api.example.com:${server.port}` } }])
  })

  it.each([[['example.com']], [['*.api.example.com']], [['ample.com', '*.ample.com']], [['127.0.0.2/32', '::1/128']]])(
    'is no private address that %j does not allow',
    async (allow) => {
      const fetch = egress({ allow }, { lookup: resolver({ 'api.example.com': [['127.0.0.1']] }) }).fetch()
      await expect(fetch('https://api.example.com:8080/')).rejects.toEqual(
        refused('api.example.com', expect.stringMatching(/^it resolves to 127\.0\.0\.1, which is loopback/)),
      )
    },
  )

  it.each([
    [['api.example.com']],
    [['API.example.com.']],
    [['*.example.com']],
    [['127.0.0.1']],
    [['127.0.0.0/8']],
    [['::ffff:127.0.0.0/104']],
  ])('is nothing that %j denies, whatever is allowed', async (deny) => {
    const server = await serve((_request, response) => response.end('hello'))
    const allow = ['api.example.com', '*.example.com', '127.0.0.1/32', '0.0.0.0/0']
    const fetch = egress({ allow, deny }, { lookup: resolver({ 'api.example.com': [['127.0.0.1']] }) }).fetch()
    await expect(fetch(`http://api.example.com:${server.port}/`)).rejects.toEqual(
      refused('api.example.com', expect.stringContaining('egress.deny')),
    )
    expect(server.seen).toEqual([])
  })

  it.each<[string, readonly string[], readonly string[]]>([
    ['a name', ['http://api.example.com'], []],
    ['a name, where other addresses are allowed', ['http://api.example.com'], ['127.0.0.0/8', 'other.example.com']],
    ['an address', ['http://93.184.216.34', 'http://[2606:4700::1]'], ['127.0.0.0/8']],
  ])('is nothing public without TLS: %s', async (_, urls, allow) => {
    const lookup = resolver({ 'api.example.com': [['93.184.216.34']] })
    const fetch = egress({ allow }, { lookup }).fetch()
    for (const url of urls)
      await expect(fetch(`${url}:8080/`, { headers: { authorization: 'Bearer t' } }), url).rejects.toMatchObject({
        code: 'egress_refused',
        reason: expect.stringContaining('http: would send credentials in the clear'),
      })
  })

  it.each([[['api.example.com']], [['*.example.com']], [['93.184.216.34']], [['93.184.216.0/24']]])(
    'is public without TLS where %j allows it',
    (allow) => {
      const rules = new EgressRules({ allow })
      rules.checkHost('api.example.com', 'http:')
      expect(() => rules.checkAddresses('api.example.com', 'http:', ['93.184.216.34'])).not.toThrow()
    },
  )

  it('is no host of which one address is private', async () => {
    const addresses = ['127.0.0.1', '10.0.0.1']
    const fetch = egress(LOOPBACK, { lookup: resolver({ 'api.example.com': [addresses] }) }).fetch()
    await expect(fetch('http://api.example.com:8080/')).rejects.toEqual(
      refused('api.example.com', expect.stringMatching(/^it resolves to 10\.0\.0\.1, /)),
    )
  })

  it('is the address that was checked, although the name says another a moment later', async () => {
    const first = await serve((_request, response) => response.setHeader('connection', 'close').end('first'))
    const second = await serve((_request, response) => response.end('second'), '127.0.0.2', first.port)
    // 127.0.0.1 stands for a public address here: no other is at hand.
    const lookup = resolver({ 'api.example.com': [['127.0.0.1'], ['127.0.0.2']] })
    const fetch = egress(LOOPBACK, { lookup }).fetch()
    const url = `http://api.example.com:${first.port}/`
    expect(await (await fetch(url)).text()).toBe('first')
    expect(lookup.asked).toEqual(['api.example.com'])
    await expect(fetch(url)).rejects.toEqual(refused('api.example.com', expect.stringMatching(/127\.0\.0\.2/)))
    expect(second.seen).toEqual([])
  })

  it('is looked up once by those that ask at the same time, also when it fails', async () => {
    const server = await serve((_request, response) => response.end('here'))
    const lookup = resolver({ 'api.example.com': [['127.0.0.1']], 'gone.example.com': [] })
    const fetch = egress(LOOPBACK, { lookup }).fetch()
    const answers = Array.from({ length: 5 }, async () =>
      (await fetch(`http://api.example.com:${server.port}/`)).text(),
    )
    expect(await Promise.all(answers)).toEqual(['here', 'here', 'here', 'here', 'here'])
    expect(lookup.asked).toEqual(['api.example.com'])
    const failures = Array.from({ length: 2 }, () => fetch('https://gone.example.com/'))
    for (const { status } of await Promise.allSettled(failures)) expect(status).toBe('rejected')
    await expect(fetch('https://gone.example.com/')).rejects.toThrow()
    expect(lookup.asked).toEqual(['api.example.com', 'gone.example.com', 'gone.example.com'])
  })

  it('is no URL of another scheme or with user info', async () => {
    const fetch = egress({ allow: ['0.0.0.0/0'] }).fetch()
    for (const url of [
      'ftp://api.example.com/',
      'file:///etc/passwd',
      'data:,x',
      'https://a:secret@api.example.com/',
    ]) {
      await expect(fetch(url), url).rejects.toMatchObject({
        code: 'egress_refused',
        message: expect.not.stringContaining('secret'),
      })
    }
    await expect(fetch('/relative?token=secret')).rejects.toMatchObject({
      code: 'invalid_argument',
      message: 'Invalid url: must be an absolute http(s) URL',
    })
  })

  it('does not depend on the proxies of the environment or a dispatcher of the host', async () => {
    const proxy = await serve((_request, response) => response.end('proxied'))
    const server = await serve((_request, response) => response.end('direct'))
    for (const name of ['HTTP_PROXY', 'http_proxy', 'ALL_PROXY']) vi.stubEnv(name, proxy.url)
    const before = getGlobalDispatcher()
    const hosts = new EnvHttpProxyAgent()
    setGlobalDispatcher(hosts)
    onTestFinished(async () => {
      setGlobalDispatcher(before)
      vi.unstubAllEnvs()
      await hosts.destroy()
    })
    const fetch = egress(LOOPBACK).fetch()
    const init = { dispatcher: hosts } as object
    expect(await (await fetch(server.url, init)).text()).toBe('direct')
    expect(proxy.seen).toEqual([])
  })

  it('fails as fetch does where a name has no address, or nobody listens', async () => {
    const fetch = egress(LOOPBACK, { lookup: resolver({}) }).fetch()
    const unknown = await fetch('http://nobody.example.com/').catch((error: unknown) => error)
    expect(unknown).toMatchObject({ message: 'fetch failed', cause: { code: 'ENOTFOUND' } })
    expect(classifyFailure({ error: unknown, callerAborted: false })).toBe('upstream')
    const listening = createServer().listen(0, '127.0.0.1')
    await once(listening, 'listening')
    const { port } = listening.address() as AddressInfo
    listening.close()
    await once(listening, 'close')
    await expect(fetch(`http://127.0.0.1:${port}/`)).rejects.toMatchObject({ cause: { code: 'ECONNREFUSED' } })
  })

  it('takes no rule for granted', () => {
    expect(() => egress({ allow: ['10/8'] })).toThrow(/^Invalid egress\.allow\.0: /)
    expect(() => egress({ deny: ['a', 'https://b'] })).toThrow(/^Invalid egress\.deny\.1: /)
    expect(() => egress({ proxy: 'socks5://proxy' })).toThrow(/^Invalid egress\.proxy: /)
  })
})

describe('what is sent', () => {
  it.each<[name: string, input: (url: string) => Parameters<typeof fetch>, seen: object]>([
    ['a text', (url) => [url, { method: 'POST', body: 'é' }], { body: 'é', headers: { 'content-length': '2' } }],
    [
      'a form',
      (url) => [url, { method: 'PUT', body: new URLSearchParams({ a: 'b' }) }],
      { method: 'PUT', body: 'a=b' },
    ],
    [
      'a request',
      (url) => [new Request(url, { method: 'POST', body: 'r', headers: { a: 'b' } })],
      { body: 'r', headers: { a: 'b' } },
    ],
    [
      'a stream',
      (url) => [url, { method: 'POST', body: new Blob(['s']).stream(), duplex: 'half' } as RequestInit],
      { body: 's' },
    ],
    ['nothing', (url) => [new URL(url)], { method: 'GET', body: '' }],
  ])('is %s', async (_name, input, seen) => {
    const server = await serve((_request, response) => response.end())
    await egress(LOOPBACK).fetch()(...input(server.url))
    expect(server.seen).toMatchObject([seen])
  })

  it('is a form with files, with its boundary', async () => {
    const server = await serve((_request, response) => response.end())
    const form = new FormData()
    form.set('file', new Blob(['content']), 'a.txt')
    await egress(LOOPBACK).fetch()(server.url, { method: 'POST', body: form })
    const [request] = server.seen
    const boundary = /boundary=(.+)$/.exec(request?.headers['content-type'] ?? '')?.[1]
    expect(request?.body).toContain(`--${boundary}`)
    expect(request?.body).toContain('content')
  })
})

describe('redirects', () => {
  it('are followed, each with its own check', async () => {
    const server = await serve((request, response) => {
      if (request.url === '/end') response.end('end')
      else response.writeHead(307, { location: '/end' }).end('moved')
    })
    const answer = await egress(LOOPBACK).fetch()(server.url, { method: 'POST', body: 'again' })
    expect(answer).toMatchObject({ status: 200, redirected: true, url: `${server.url}/end` })
    expect(await answer.text()).toBe('end')
    expect(server.seen).toMatchObject([
      { method: 'POST', url: '/', body: 'again' },
      { method: 'POST', url: '/end', body: 'again' },
    ])
  })

  it.each(['http://127.0.0.2', 'http://0x7f.2', 'http://[::ffff:127.0.0.2]', 'http://internal.example.com'])(
    'to a private address are refused: %s',
    async (target) => {
      const server = await serve((_request, response) =>
        response.writeHead(302, { location: `${target}:${server.port}/` }).end(),
      )
      const inside = await serve((_request, response) => response.end('private'), '127.0.0.2', server.port)
      const lookup = resolver({ 'internal.example.com': [['127.0.0.2']] })
      await expect(egress(LOOPBACK, { lookup }).fetch()(server.url)).rejects.toMatchObject({ code: 'egress_refused' })
      expect(inside.seen).toEqual([])
    },
  )

  it('to another origin take no token along', async () => {
    const other = await serve((_request, response) => response.end('other'))
    const server = await serve((_request, response) => response.writeHead(302, { location: other.url }).end())
    const fetch = egress(LOOPBACK).fetch({ secretHeaders: ['X-Api-Key'] })
    const headers = { authorization: 'Bearer canary', cookie: 'a=canary', 'x-api-key': 'canary', accept: 'text/plain' }
    await fetch(server.url, { headers })
    expect(server.seen).toMatchObject([{ headers }])
    expect(other.seen).toMatchObject([{ headers: { accept: 'text/plain', host: `127.0.0.1:${other.port}` } }])
    expect(JSON.stringify(other.seen)).not.toContain('canary')
  })

  it('to another origin take no header along that holds a secret, whatever its name', async () => {
    const other = await serve((_request, response) => response.end('other'))
    const server = await serve((request, response) =>
      response.writeHead(302, { location: request.url === '/' ? '/again' : other.url }).end(),
    )
    const fetch = egress(LOOPBACK).fetch({ secrets: () => ['canary'] })
    const headers = { 'x-api-key': 'Key canary, v1', 'x-note': 'kept' }
    await fetch(server.url, { headers })
    expect(server.seen).toMatchObject([{ headers }, { headers }])
    expect(other.seen).toMatchObject([{ headers: { 'x-note': 'kept' } }])
    expect(JSON.stringify(other.seen)).not.toContain('canary')
  })

  it('to another origin take no header along in which a secret is encoded', async () => {
    const other = await serve((_request, response) => response.end('other'))
    const server = await serve((_request, response) => response.writeHead(302, { location: other.url }).end())
    const secret = 'canary/in+the mine'
    const headers = {
      'x-auth': `Basic ${Buffer.from(`user:${secret}`).toString('base64')}`,
      'x-key': encodeURIComponent(secret).toLowerCase(),
      'x-note': 'kept',
    }
    await egress(LOOPBACK).fetch({ secrets: () => secretsOf({ secret }) })(server.url, { headers })
    expect(server.seen).toMatchObject([{ headers }])
    const [seen] = other.seen
    expect([seen?.headers['x-auth'], seen?.headers['x-key'], seen?.headers['x-note']]).toEqual([
      undefined,
      undefined,
      'kept',
    ])
  })

  it('in a circle end after 5', async () => {
    const server = await serve((_request, response) => response.writeHead(302, { location: '/' }).end())
    await expect(egress(LOOPBACK).fetch()(server.url)).rejects.toEqual(
      refused('127.0.0.1', 'it redirects after 5 redirects'),
    )
    expect(server.seen).toHaveLength(6)
  })

  it('may be 5', async () => {
    const server = await serve((request, response) => {
      const number = Number(request.url?.slice(1))
      if (number === 5) response.end('arrived')
      else response.writeHead(302, { location: `/${number + 1}` }).end()
    })
    expect(await (await egress(LOOPBACK).fetch()(`${server.url}/0`)).text()).toBe('arrived')
  })

  it.each<[string, Parameters<ReturnType<typeof egress>['fetch']>[0], RequestInit]>([
    ['a keyed write', { followRedirects: false }, { method: 'POST', body: 'x' }],
    ['a call that asks for it', {}, { redirect: 'manual' }],
  ])('are the answer of %s', async (_name, options, init) => {
    const server = await serve((_request, response) => response.writeHead(303, { location: '/next' }).end('see there'))
    const answer = await egress(LOOPBACK).fetch(options)(server.url, init)
    expect(answer).toMatchObject({ status: 303, redirected: false, ok: false })
    expect(answer.headers.get('location')).toBe('/next')
    expect(await answer.text()).toBe('see there')
    expect(server.seen).toHaveLength(1)
  })

  it('fail a call that follows none', async () => {
    const server = await serve((_request, response) => response.writeHead(302, { location: '/next' }).end())
    await expect(egress(LOOPBACK).fetch()(server.url, { redirect: 'error' })).rejects.toEqual(refused('127.0.0.1'))
    expect(server.seen).toHaveLength(1)
  })
})

describe('answers', () => {
  it.each([204, 304, 404, 500, 999])('of status %i are handed over', async (status) => {
    const server = await serve((_request, response) => {
      response.setHeader('set-cookie', ['a=1', 'b=2'])
      response.writeHead(status, 'In Words').end(status === 204 || status === 304 ? undefined : 'text')
    })
    const answer = await egress(LOOPBACK).fetch()(server.url)
    expect(answer).toMatchObject({ status, ok: status === 204, statusText: 'In Words' })
    expect(answer.headers.getSetCookie()).toEqual(['a=1', 'b=2'])
    expect(await answer.text()).toBe(status === 204 || status === 304 ? '' : 'text')
  })

  it.each([
    ['Latin-1', 'Requête incorrecte', 'Requ\uFFFDte incorrecte'],
    ['UTF-8', Buffer.from('未找到').toString('latin1'), '未找到'],
  ])('with words in %s are handed over', async (_encoding, words, statusText) => {
    const server = createServer((socket) => {
      socket.on('error', () => {})
      socket.once('data', () => {
        socket.end(`HTTP/1.1 404 ${words}\r\ncontent-length: 4\r\n\r\ntext`, 'latin1')
      })
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    onTestFinished(() => void server.close())
    const answer = await egress(LOOPBACK).fetch()(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`)
    expect(answer).toMatchObject({ status: 404, ok: false, statusText })
    expect(await answer.text()).toBe('text')
  })

  it.each([
    ['as it is', (body: Buffer) => body, {}],
    ['compressed', gzipSync, { 'content-encoding': 'gzip' }],
  ])('may have as many bytes as allowed, %s', async (_name, encode, headers) => {
    const body = randomBytes(40_000)
    const server = await serve((_request, response) => response.writeHead(200, headers).end(encode(body)))
    const read = async (maxBytes: number) =>
      Buffer.from(await (await egress(LOOPBACK).fetch({ maxBytes })(server.url)).arrayBuffer())
    expect((await read(body.length)).equals(body)).toBe(true)
    await expect(read(body.length - 1)).rejects.toMatchObject({ code: 'response_too_large', maxBytes: body.length - 1 })
  })

  it('that grow when they are decoded are cut off', async () => {
    const bomb = gzipSync(Buffer.alloc(30_000_000))
    expect(bomb.length).toBeLessThan(100_000)
    const server = await serve((_request, response) =>
      response.writeHead(200, { 'content-encoding': 'gzip' }).end(bomb),
    )
    const answer = await egress(LOOPBACK).fetch()(server.url)
    await expect(answer.text()).rejects.toMatchObject({ code: 'response_too_large', maxBytes: 10 * 1024 * 1024 })
  })

  it('without an end are cut off, and the connection closed', async () => {
    let onClose = () => {}
    const closed = new Promise<void>((resolve) => {
      onClose = resolve
    })
    const server = await serve((_request, response) => {
      const chunk = Buffer.alloc(1000)
      const write = () => {
        while (!response.destroyed && response.write(chunk));
      }
      response.on('drain', write).on('close', onClose)
      write()
    })
    const answer = await egress(LOOPBACK).fetch({ maxBytes: 5000 })(server.url)
    await expect(answer.text()).rejects.toMatchObject({ code: 'response_too_large' })
    await closed
  })
})

describe('time', () => {
  it('for a connection is short: a handshake that is not answered', async () => {
    const silent = createServer(() => {})
    silent.listen(0, '127.0.0.1')
    await once(silent, 'listening')
    onTestFinished(() => void silent.close())
    const fetch = egress(LOOPBACK, { connectTimeoutMs: 50 }).fetch()
    const error = await fetch(`https://127.0.0.1:${(silent.address() as AddressInfo).port}/`).catch(
      (fault: unknown) => fault,
    )
    expect(error).toMatchObject({ cause: { code: 'UND_ERR_CONNECT_TIMEOUT' } })
    expect(classifyFailure({ error, callerAborted: false })).toBe('upstream')
  })

  it('for a connection is short: a name that is not resolved', async () => {
    const fetch = egress({}, { connectTimeoutMs: 50, lookup: () => {} }).fetch()
    await expect(fetch('https://api.example.com/')).rejects.toMatchObject({
      cause: { code: 'UND_ERR_CONNECT_TIMEOUT' },
    })
  })

  it.each<[name: string, (signal: AbortSignal) => [object, RequestInit]]>([
    ['the attempt', (signal) => [{ signal }, {}]],
    ['the call', (signal) => [{}, { signal }]],
    ['the attempt, where the call has one too', (signal) => [{ signal }, { signal: new AbortController().signal }]],
    ['the call, where the attempt has one too', (signal) => [{ signal: new AbortController().signal }, { signal }]],
  ])('is up when the signal of %s says so: before, waiting, reading', async (_name, given) => {
    const arrived: (() => void)[] = []
    const server = await serve((request, response) => {
      if (request.url === '/body') response.write('begun')
      arrived.shift()?.()
    })
    const reason = new Error('enough')

    const early = new AbortController()
    early.abort(reason)
    const [earlyOptions, earlyInit] = given(early.signal)
    await expect(egress(LOOPBACK).fetch(earlyOptions)(server.url, earlyInit)).rejects.toBe(reason)
    expect(server.seen).toEqual([])

    const waiting = new AbortController()
    arrived.push(() => waiting.abort(reason))
    const [waitingOptions, waitingInit] = given(waiting.signal)
    await expect(egress(LOOPBACK).fetch(waitingOptions)(server.url, waitingInit)).rejects.toBe(reason)

    const reading = new AbortController()
    const [readingOptions, readingInit] = given(reading.signal)
    const answer = await egress(LOOPBACK).fetch(readingOptions)(`${server.url}/body`, readingInit)
    const text = answer.text()
    reading.abort(reason)
    await expect(text).rejects.toBe(reason)
  })
})

describe('a proxy', () => {
  it('gets what was checked before', async () => {
    const proxy = await serve((_request, response) => response.end('by proxy'))
    const lookup = resolver({ 'api.example.com': [['93.184.216.34']], 'internal.example.com': [['10.0.0.1']] })
    const allow = ['93.184.216.34']
    const fetch = egress({ proxy: proxy.url, allow, deny: ['denied.example.com'] }, { lookup }).fetch()
    expect(await (await fetch('http://api.example.com/a')).text()).toBe('by proxy')
    expect(proxy.seen).toMatchObject([{ method: 'GET', url: 'http://api.example.com/a' }])
    for (const host of ['internal.example.com', '10.0.0.1', 'denied.example.com']) {
      await expect(fetch(`http://${host}/`), host).rejects.toEqual(refused(host))
    }
    expect(proxy.seen).toHaveLength(1)
  })

  it('is told who asks by its own URL, never by the call', async () => {
    const proxy = await serve((_request, response) => response.end('by proxy'))
    const url = proxy.url.replace('//', '//user:p%40ss@')
    const lookup = resolver({ 'api.example.com': [['93.184.216.34']] })
    const fetch = egress({ proxy: url, allow: ['api.example.com'] }, { lookup }).fetch()
    await fetch('http://api.example.com/', { headers: { authorization: 'Bearer t' } })
    const basic = `Basic ${Buffer.from('user:p@ss').toString('base64')}`
    expect(proxy.seen).toMatchObject([{ headers: { 'proxy-authorization': basic, authorization: 'Bearer t' } }])
    await expect(fetch('http://api.example.com/', { headers: { 'proxy-authorization': 'x' } })).rejects.toThrow(
      'fetch failed',
    )
    expect(proxy.seen).toHaveLength(1)
  })

  it('resolves a host that is allowed by name itself, and an address is not resolved', async () => {
    const proxy = await serve((_request, response) => response.end('by proxy'))
    const lookup = resolver({})
    const fetch = egress({ proxy: proxy.url, allow: ['*.internal', '10.0.0.0/8'] }, { lookup }).fetch()
    expect(await (await fetch('http://wiki.internal/')).text()).toBe('by proxy')
    expect(await (await fetch('http://10.0.0.5/')).text()).toBe('by proxy')
    expect(lookup.asked).toEqual([])
  })

  it('is asked for nothing public without TLS', async () => {
    const proxy = await serve((_request, response) => response.end('by proxy'))
    const lookup = resolver({ 'api.example.com': [['93.184.216.34']] })
    const fetch = egress({ proxy: proxy.url, allow: ['10.0.0.0/8'] }, { lookup }).fetch()
    for (const host of ['api.example.com', '93.184.216.34'])
      await expect(fetch(`http://${host}/`), host).rejects.toEqual(refused(host, expect.stringContaining('http:')))
    expect(proxy.seen).toEqual([])
  })

  it('is asked for a tunnel to an https URL', async () => {
    const asked: string[] = []
    const proxy = createServer((socket) => {
      socket.once('data', (data) => {
        asked.push(data.toString().split('\r\n')[0] ?? '')
        socket.end('HTTP/1.1 403 Forbidden\r\n\r\n')
      })
    })
    proxy.listen(0, '127.0.0.1')
    await once(proxy, 'listening')
    onTestFinished(() => void proxy.close())
    const lookup = resolver({ 'api.example.com': [['93.184.216.34']] })
    const fetch = egress({ proxy: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}` }, { lookup }).fetch()
    await expect(fetch('https://api.example.com/')).rejects.toThrow('fetch failed')
    expect(asked).toEqual(['CONNECT api.example.com:443 HTTP/1.1'])
  })

  it.each([
    ['refuses the tunnel', 'HTTP/1.1 503 Service Unavailable\r\n\r\n', 'ECONNREFUSED'],
    ['closes the connection', '', 'ECONNREFUSED'],
    ['does not answer', null, 'UND_ERR_CONNECT_TIMEOUT'],
  ])('that %s has made no connection, and nothing was sent', async (_, answer, code) => {
    const proxy = createServer((socket) => {
      socket.on('error', () => {})
      socket.once('data', () => {
        if (answer !== null) socket.end(answer)
      })
    })
    proxy.listen(0, '127.0.0.1')
    await once(proxy, 'listening')
    onTestFinished(() => void proxy.close())
    const url = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`
    const lookup = resolver({ 'api.example.com': [['93.184.216.34']] })
    const fetch = egress({ proxy: url }, { lookup, connectTimeoutMs: 200 }).fetch()
    const error = await fetch('https://api.example.com/', { method: 'POST', body: '{}' }).catch(
      (fault: unknown) => fault,
    )
    expect(error).toMatchObject({ message: 'fetch failed', cause: { code } })
    expect([classifyFailure({ error, callerAborted: false }), isNeverConnected(error)]).toEqual(['upstream', true])
  })

  it('does not hold up a call that is aborted while its name is resolved', async () => {
    const abort = new AbortController()
    const reason = new Error('enough')
    const fetch = egress({ proxy: 'http://127.0.0.1:1' }, { lookup: () => abort.abort(reason) }).fetch()
    await expect(fetch('https://api.example.com/', { signal: abort.signal })).rejects.toBe(reason)
  })
})

describe('a call that may reach private addresses', () => {
  it.each(['http://127.0.0.1', 'http://[::ffff:127.0.0.1]', 'http://api.example.com'])('reaches %s', async (origin) => {
    const server = await serve((_request, response) => response.end('hello'))
    const { fetch } = egress({}, { lookup: resolver({ 'api.example.com': [['127.0.0.1']] }) })
    const answer = await fetch({ allowPrivate: true })(`${origin}:${server.port}/`)
    expect(await answer.text()).toBe('hello')
  })

  it.each([['127.0.0.0/8'], ['api.example.com'], ['::ffff:127.0.0.1']])(
    'reaches nothing that %s denies',
    async (rule) => {
      const server = await serve((_request, response) => response.end('hello'))
      const policy = { allow: ['0.0.0.0/0', 'api.example.com'], deny: [rule] }
      const { fetch } = egress(policy, { lookup: resolver({ 'api.example.com': [['127.0.0.1']] }) })
      await expect(fetch({ allowPrivate: true })(`http://api.example.com:${server.port}/`)).rejects.toEqual(
        refused('api.example.com', expect.stringContaining('egress.deny')),
      )
      expect(server.seen).toEqual([])
    },
  )

  it('leaves no connection behind on which a call that may not gets there', async () => {
    const server = await serve((_request, response) => response.end('hello'))
    const own = egress()
    const answer = await own.fetch({ allowPrivate: true })(server.url)
    await answer.text()
    await expect(own.fetch()(server.url)).rejects.toMatchObject({ code: 'egress_refused' })
    expect(server.seen).toHaveLength(1)
  })

  it('fails after the end as any other', async () => {
    const server = await serve((_request, response) => response.end('hello'))
    const own = egress()
    const fetch = own.fetch({ allowPrivate: true })
    await (await fetch(server.url)).text()
    await own.close()
    await expect(fetch(server.url)).rejects.toMatchObject({ cause: { code: 'UND_ERR_DESTROYED' } })
  })
})

it('ends what is under way when it is closed', async () => {
  const server = await serve((_request, response) => void response.write('begun'))
  const own = egress(LOOPBACK)
  const answer = await own.fetch()(server.url)
  const text = answer.text()
  await Promise.all([own.close(), expect(text).rejects.toThrow()])
})

describe('after its end', () => {
  const destroyed = { message: 'fetch failed', cause: { code: 'UND_ERR_DESTROYED' } }

  it.each(['directly', 'by a proxy'])('every call fails, and nobody is dialled: %s', async (way) => {
    const server = await serve((_request, response) => response.end())
    const isDirect = way === 'directly'
    const policy = isDirect ? LOOPBACK : { proxy: server.url, allow: ['10.0.0.5'] }
    const url = isDirect ? server.url : 'http://10.0.0.5/'

    const unused = egress(policy)
    await unused.close()
    await expect(unused.fetch()(url)).rejects.toMatchObject(destroyed)
    await expect(unused.fetch()(url)).rejects.toMatchObject(destroyed)
    expect(server.seen).toEqual([])

    const used = egress(policy)
    const fetch = used.fetch()
    expect((await fetch(url)).status).toBe(200)
    await used.close()
    await expect(fetch(url)).rejects.toMatchObject(destroyed)
    expect(server.seen).toHaveLength(1)

    const ending = egress(policy)
    const underWay = expect(ending.fetch()(url)).rejects.toMatchObject(destroyed)
    await ending.close()
    await underWay
    expect(server.seen).toHaveLength(1)
  })
})
