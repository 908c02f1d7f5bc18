/** Downloads of the GitHub adapter: what leaves for which host, and what is refused. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { AssetLimits, GitHubAsset } from '../../../src/adapters/github/assets.ts'
import { downloadAsset } from '../../../src/adapters/github/assets.ts'
import { GitHubProvider } from '../../../src/adapters/github/index.ts'
import { createEgress } from '../../../src/egress/guarded-fetch.ts'
import type { LookupAll } from '../../../src/egress/route.ts'
import type { Integration } from '../../../src/providers/integration.ts'
import type { TestIntegrations } from '../../../src/testing/index.ts'
import { createTestIntegrations } from '../../../src/testing/index.ts'

const TOKEN = 'ghp_the-token-of-the-test'
const ASSET = 'https://github.com/user-attachments/assets/5a0d80c5-0000-4000-8000-000000000010'
const PNG = new Uint8Array([0x89, 0x50, 0x4e, 0x47, 0, 0xff])

type Answer = (request: Request) => Response | Promise<Response>

/** What each URL, without its query, answers. Any other goes the real way out, to the addresses that `names` has. */
let answers: Record<string, Answer>
let names: Record<string, readonly string[]>
let sent: { url: string; authorization: string | null; everything: string }[]

const lookup: LookupAll = (hostname, _options, callback) => {
  const found = names[hostname] ?? []
  setImmediate(() =>
    callback(
      null,
      found.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })),
    ),
  )
}
const wayOut = createEgress({}, { lookup })

let kit: TestIntegrations
let integration: Integration
let ofEnterprise: Integration

beforeAll(async () => {
  const guarded = wayOut.fetch()
  kit = await createTestIntegrations({
    providers: { github: new GitHubProvider() },
    egress: { allow: ['ghe.example.com'] },
    transport: {
      requests: [],
      useClock() {},
      fetch: async (input, init) => {
        const request = new Request(input, init)
        const answer = answers[request.url.replace(/\?.*$/, '')]
        if (answer === undefined) return guarded(input, init)
        const headers = [...request.headers].map(([name, value]) => `${name}: ${value}`)
        const authorization = request.headers.get('authorization')
        sent.push({ url: request.url, authorization, everything: [request.url, ...headers].join('\n') })
        return answer(request)
      },
    },
  })
  integration = await create('public', {})
  ofEnterprise = await create('enterprise', { base_url: 'http://ghe.example.com:8443/api/v3' })
}, 60_000)

function create(name: string, metadata: object): Promise<Integration> {
  return kit.integrations.create({
    provider: 'github',
    name,
    credentials: { token: TOKEN },
    metadata: { owner: 'octo', repo: 'widgets', ...metadata },
  })
}

beforeEach(() => {
  answers = {}
  names = {}
  sent = []
})

afterAll(async () => {
  await kit.close()
  await wayOut.close()
})

const image: Answer = () => new Response(PNG, { headers: { 'content-type': 'image/png' } })
const to =
  (location: string, status = 302): Answer =>
  () =>
    new Response(null, { status, headers: { location } })

function download(url: string, from = integration): Promise<GitHubAsset | null> {
  return downloadAsset(from, url)
}

async function rows(): Promise<{ endpoint: string; status: number | null; response: string | null; error: string }[]> {
  return kit.sql`
    select endpoint, status_code as status, response_data as response, error from integration_requests
    order by id`
}

async function lastRow() {
  return (await rows()).at(-1)
}

describe('a download', () => {
  it('gives the bytes and their type, and its row says how many there were and not what the query held', async () => {
    answers[ASSET] = to('https://store.example.com/a/10.png?X-Amz-Signature=abc&X-Amz-Expires=300')
    answers['https://store.example.com/a/10.png'] = image
    const asset = await download(`${ASSET}?secret=1`)
    expect(asset).toEqual({ bytes: Buffer.from(PNG), contentType: 'image/png' })
    const row = await lastRow()
    expect(row).toMatchObject({ endpoint: ASSET, status: 200 })
    expect(row?.response).toMatch(/^\[binary, 6 bytes, sha256 [0-9a-f]{64}\]$/)
    expect(JSON.stringify(row)).not.toMatch(/secret|X-Amz/)
  })

  it('is redirected to a URL in UTF-8', async () => {
    answers[ASSET] = to(Buffer.from('https://store.example.com/café.png').toString('latin1'))
    answers['https://store.example.com/caf%C3%A9.png'] = image
    expect(await download(ASSET)).toMatchObject({ contentType: 'image/png' })
  })

  it.each([404, 410])('of what is gone, %i, is null', async (status) => {
    answers[ASSET] = () => new Response('Not Found', { status })
    expect(await download(ASSET)).toBeNull()
    expect(await lastRow()).toMatchObject({ status })
  })

  it('that fails otherwise throws what it got, of a long answer its beginning', async () => {
    answers[ASSET] = () => new Response('No. '.repeat(5_000), { status: 403 })
    const body = 'No. '.repeat(1_024)
    await expect(download(ASSET)).rejects.toMatchObject({ code: 'http_error', status: 403, body })
  })

  it('is told the request id of GitHub, which the store behind it does not know', async () => {
    answers[ASSET] = () =>
      new Response(null, {
        status: 302,
        headers: { location: 'https://store.example.com/x', 'x-github-request-id': 'A:1' },
      })
    answers['https://store.example.com/x'] = image
    await download(ASSET)
    const [row] = await kit.sql`
      select provider_request_id as id from integration_requests order by integration_requests.id desc limit 1`
    expect(row?.id).toBe('A:1')
  })

  it.each(['', 'none', '/user-attachments/assets/1', 'https://'])(
    'of %j is refused before anything is stored',
    async (url) => {
      const before = (await rows()).length
      await expect(download(url)).rejects.toMatchObject({ code: 'invalid_argument', argument: 'url' })
      expect(await rows()).toHaveLength(before)
    },
  )
})

describe('the token', () => {
  it.each([
    ASSET,
    'https://github.com/user-attachments/files/1/a.pdf',
    'https://github.com/user-attachments/files/1/50%25%20of%20it.pdf',
    'https://GitHub.com/Octo/Widgets/files/12/a.zip',
    'https://github.com/octo/another/assets/7/5A0D80C5-0000-4000-8000-000000000010',
    'https://user-images.githubusercontent.com/1/a.png',
    'https://private-user-images.githubusercontent.com/1/a.png',
  ])('goes to an upload, %s', async (url) => {
    answers[new URL(url).href] = image
    await download(url)
    expect(sent.map(({ authorization }) => authorization)).toEqual([`Bearer ${TOKEN}`])
  })

  it.each([
    'https://github.com.evil.example/a.png',
    'https://notgithub.com/a.png',
    'https://github.com./a.png',
    'https://evil.example/github.com/a.png',
    'https://githubusercontent.com.evil.example/a.png',
    'https://camo-githubusercontent.com/a.png',
    'https://images.example.com/a.png',
    'https://github.co/a.png',
    // What the token may read, and the author of the issue may not.
    'https://api.github.com/repos/octo/private/contents/secret',
    'https://api.github.com/user-attachments/assets/5a0d80c5-0000-4000-8000-000000000010',
    'https://raw.githubusercontent.com/octo/widgets/main/a.png',
    'https://github.com/octo/widgets/raw/main/a.png',
    'https://github.com/octo/widgets/archive/main.zip',
    'https://github.com/octo/private/files/12/a.zip',
    'https://github.com/octo/private/assets/7/a.png',
    'https://github.com/octo/private/raw/main/assets/7/5a0d80c5-0000-4000-8000-000000000010',
    'https://github.com/user-attachments/files/1/..%2F..%2F..%2Focto%2Fprivate%2Farchive%2Fmain.zip',
    'https://github.com/user-attachments/files/1/..%5C..%5Csecret',
    'https://github.com/user-attachments/assets/a/b',
    'https://media.githubusercontent.com/media/octo/private/main/a.png',
    'https://codeload.github.com/octo/private/zip/main',
    'https://githubusercontent.com/a.png',
  ])('does not go to %s', async (url) => {
    answers[url] = image
    await download(url)
    expect(sent).toHaveLength(1)
    expect(sent[0]?.everything).not.toContain(TOKEN)
  })

  it('goes along a redirect from one upload to another, not to what is none', async () => {
    answers[ASSET] = to('https://user-images.githubusercontent.com/a')
    answers['https://user-images.githubusercontent.com/a'] = to('https://store.example.com/a')
    answers['https://store.example.com/a'] = image
    await download(ASSET)
    expect(sent.map(({ authorization }) => authorization)).toEqual([`Bearer ${TOKEN}`, `Bearer ${TOKEN}`, null])
  })

  it('does not come back once a redirect has led away', async () => {
    answers[ASSET] = to('https://evil.example/a')
    answers['https://evil.example/a'] = to(`${ASSET}0`)
    answers[`${ASSET}0`] = image
    await download(ASSET)
    expect(sent.map(({ authorization }) => authorization)).toEqual([`Bearer ${TOKEN}`, null, null])
  })

  it('is not given by a redirect that leads to the tracker', async () => {
    answers['https://evil.example/a'] = to(ASSET)
    answers[ASSET] = image
    await download('https://evil.example/a')
    expect(sent.map(({ authorization }) => authorization)).toEqual([null, null])
  })

  it.each(['X-Amz-Signature=abc', 'x-amz-signature=abc', 'se=1&sig=abc', 'jwt=abc', 'token=abc', 'Signature=abc'])(
    'does not go with a URL that bears its own permission: %s',
    async (query) => {
      const host = 'https://objects.githubusercontent.com/a'
      answers[ASSET] = to(`${host}?${query}`)
      answers[host] = image
      await download(ASSET)
      await download(`${host}?${query}`)
      expect(sent.map(({ authorization }) => authorization)).toEqual([`Bearer ${TOKEN}`, null, null])
    },
  )

  it('of an Enterprise server goes to its host alone', async () => {
    const own = 'http://ghe.example.com:8443/user-attachments/assets/1'
    answers[own] = image
    answers['https://github.com/a'] = image
    answers['https://ghe.example.com/a'] = image
    answers['https://media.ghe.example.com/a'] = image
    await download(own, ofEnterprise)
    await download('https://github.com/a', ofEnterprise)
    await download('https://ghe.example.com/a', ofEnterprise)
    await download('https://media.ghe.example.com/a', ofEnterprise)
    expect(sent.map(({ authorization }) => authorization)).toEqual([`Bearer ${TOKEN}`, null, null, null])
  })

  it('of an Enterprise server goes to its uploads alone', async () => {
    const own = 'http://ghe.example.com:8443'
    const uploads = [
      '/user-attachments/files/1/a.pdf',
      '/storage/user/5/files/5a0d80c5-0000-4000-8000-000000000010',
      '/octo/widgets/files/1/a.pdf',
    ]
    const others = [
      '/api/v3/repos/octo/private/contents/secret',
      '/raw/octo/private/main/a.png',
      '/octo/private/raw/main/a.png',
      '/octo/private/files/1/a.pdf',
      '/storage/user/5/files/1',
    ]
    for (const path of [...uploads, ...others]) {
      answers[own + path] = image
      await download(own + path, ofEnterprise)
    }
    const expected = [...uploads.map(() => `Bearer ${TOKEN}`), ...others.map(() => null)]
    expect(sent.map(({ authorization }) => authorization)).toEqual(expected)
  })

  it('does not come back after what is no upload, though it is the tracker’s', async () => {
    answers[ASSET] = to('https://github.com/octo/widgets/raw/main/a.png')
    answers['https://github.com/octo/widgets/raw/main/a.png'] = to(`${ASSET}0`)
    answers[`${ASSET}0`] = image
    await download(ASSET)
    expect(sent.map(({ authorization }) => authorization)).toEqual([`Bearer ${TOKEN}`, null, null])
  })

  it('is shown to no host but the tracker’s, in no header and no URL, wherever a chain leads', async () => {
    const chain = [ASSET, 'https://a.example/1', 'https://github.com/2', 'https://b.example/3', 'https://c.github.io/4']
    for (const [at, url] of chain.entries())
      answers[url] = at === chain.length - 1 ? image : to(chain[at + 1] ?? '', 307)
    await download(ASSET)
    expect(sent.filter(({ everything }) => everything.includes(TOKEN)).map(({ url }) => url)).toEqual([ASSET])
  })
})

describe('a URL', () => {
  it.each([
    ['http://github.com/a.png', 'an asset is fetched from https URLs only, not http:'],
    ['ftp://github.com/a.png', 'an asset is fetched from https URLs only, not ftp:'],
    ['file:///etc/passwd', 'an asset is fetched from https URLs only, not file:'],
    ['https://github.com:8443/a.png', 'an asset is fetched from port 443 only, not 8443'],
    ['https://user:hunter2@github.com/a.png', 'its URL holds user info'],
    ['https://hunter2@github.com/a.png', 'its URL holds user info'],
  ])('%s is refused, also behind a redirect, with a row and without a request', async (url, reason) => {
    await expect(download(url)).rejects.toMatchObject({ code: 'egress_refused', reason })
    expect(sent).toEqual([])
    expect((await lastRow())?.error).toContain('EgressRefused')
    answers[ASSET] = to(url)
    await expect(download(ASSET)).rejects.toMatchObject({ code: 'egress_refused' })
    expect(sent).toHaveLength(1)
    expect(JSON.stringify(await rows())).not.toContain('hunter2')
  })

  it('of the API’s own origin is what metadata says, and no redirect goes there from https', async () => {
    answers['https://elsewhere.example/a'] = to('http://ghe.example.com:8443/a')
    await expect(download('https://elsewhere.example/a', ofEnterprise)).rejects.toMatchObject({
      code: 'egress_refused',
      reason: 'an https URL redirects to it without TLS',
    })
    await expect(download('http://ghe.example.com:8080/a', ofEnterprise)).rejects.toMatchObject({
      code: 'egress_refused',
    })
  })

  it('that redirects five times is followed, the sixth is refused', async () => {
    for (let hop = 0; hop < 6; hop += 1) answers[`https://github.com/${hop}`] = to(`/${hop + 1}`)
    answers['https://github.com/6'] = image
    expect(await download('https://github.com/1')).toMatchObject({ contentType: 'image/png' })
    await expect(download('https://github.com/0')).rejects.toMatchObject({
      code: 'egress_refused',
      reason: 'it redirects after 5 redirects',
    })
  })

  it('that redirects to what is no URL is refused', async () => {
    answers[ASSET] = to('https://[')
    await expect(download(ASSET)).rejects.toMatchObject({ code: 'egress_refused' })
  })
})

describe('an address', () => {
  const FORBIDDEN: [what: string, address: string][] = [
    ['loopback', '127.0.0.1'],
    ['loopback', '::1'],
    ['private', '10.1.2.3'],
    ['private', '172.16.0.1'],
    ['private', '192.168.1.1'],
    ['unique local', 'fd00::1'],
    ['link-local, of a cloud’s metadata', '169.254.169.254'],
    ['link-local', 'fe80::1'],
    ['shared by carriers', '100.64.0.1'],
    ['NAT64 of a private one', '64:ff9b::a00:1'],
    ['NAT64 of the metadata service', '64:ff9b::a9fe:a9fe'],
    ['a network’s own NAT64', '64:ff9b:1::1'],
    ['IPv4-mapped loopback', '::ffff:127.0.0.1'],
    ['IPv4-mapped private', '::ffff:192.168.0.1'],
    ['unspecified', '0.0.0.0'],
  ]

  it.each(FORBIDDEN)('that is %s is refused, as what a name resolves to: %s', async (_, address) => {
    names['cdn.example.com'] = [address]
    await expect(download('https://cdn.example.com/a.png')).rejects.toMatchObject({ code: 'egress_refused' })
    names['cdn.example.com'] = ['8.8.8.8', address]
    await expect(download('https://cdn.example.com/a.png')).rejects.toMatchObject({ code: 'egress_refused' })
  })

  it.each(FORBIDDEN)('that is %s is refused, in the URL and behind a redirect: %s', async (_, address) => {
    const url = `https://${address.includes(':') ? `[${address}]` : address}/a.png`
    await expect(download(url)).rejects.toMatchObject({ code: 'egress_refused' })
    answers[ASSET] = to(url)
    await expect(download(ASSET)).rejects.toMatchObject({ code: 'egress_refused' })
    names['cdn.example.com'] = [address]
    answers[ASSET] = to('https://cdn.example.com/a.png')
    await expect(download(ASSET)).rejects.toMatchObject({ code: 'egress_refused' })
    expect((await lastRow())?.error).toContain('EgressRefused')
  })

  it('of a host of the tracker is looked at as any other', async () => {
    names['github.com'] = ['127.0.0.1']
    await expect(download(ASSET)).rejects.toMatchObject({ code: 'egress_refused', host: 'github.com' })
  })
})

describe('a download that takes too long', () => {
  const QUICK: AssetLimits = { maxBytes: 1_000, totalMs: 60_000, idleMs: 40 }
  /** Sends a byte at each interval. */
  const slow =
    (everyMs: number): Answer =>
    () => {
      let timer: NodeJS.Timeout
      const body = new ReadableStream<Uint8Array>({
        start: (controller) => {
          timer = setInterval(() => controller.enqueue(PNG), everyMs)
        },
        cancel: () => clearInterval(timer),
      })
      return new Response(body)
    }
  const patiently = (limits: AssetLimits) => downloadAsset(integration, ASSET, { attempts: 1 }, limits)

  it('without a byte is given up', async () => {
    answers[ASSET] = () => new Response(new ReadableStream())
    await expect(patiently(QUICK)).rejects.toThrow(/^The download of an asset sent nothing for 40 ms/)
  })

  it('in all is given up, though bytes come', async () => {
    answers[ASSET] = slow(5)
    // A machine that stands still sends none either: that is to be no reason here.
    const limits = { ...QUICK, totalMs: 100, idleMs: 60_000 }
    await expect(patiently(limits)).rejects.toThrow(/^The download of an asset took longer than 100 ms/)
  })
})

describe('another host', () => {
  const ELSEWHERE = 'https://images.example.com/a.png'

  beforeEach(async ({ task }) => {
    integration = await create(task.id, {})
  })

  it.each([500, 503, 429, 403, 401])(
    'that answers %i opens no circuit, holds nothing back and is asked once',
    async (status) => {
      const headers = { 'retry-after': '3600', 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '9999999999' }
      answers[ELSEWHERE] = () => new Response('No.', { status, headers })
      await expect(download(ELSEWHERE)).rejects.toMatchObject({
        code: 'github_asset_unavailable',
        host: 'images.example.com',
        status,
      })
      expect(sent).toHaveLength(1)
      const [row] = await kit.sql`
      select failure_class as class, status_code as status, response_data as body
      from integration_requests order by id desc limit 1`
      expect(row).toEqual({ class: 'unknown', status, body: null })
      expect(await integration.rateLimit()).toMatchObject({ suppressedUntil: null })
      expect(await integration.circuit()).toMatchObject({ state: 'closed', failures: 0 })
    },
  )

  it('that can’t be reached or breaks off is no fault of GitHub’s either', async () => {
    names['images.example.com'] = []
    await expect(download(ELSEWHERE)).rejects.toMatchObject({
      code: 'github_asset_unavailable',
      status: null,
      reason: 'fetch failed (ENOTFOUND)',
    })
    answers[ELSEWHERE] = () =>
      new Response(
        new ReadableStream({
          start: (controller) => controller.error(new TypeError('terminated')),
        }),
      )
    await expect(download(ELSEWHERE)).rejects.toMatchObject({ code: 'github_asset_unavailable', reason: 'terminated' })
    expect(await integration.circuit()).toMatchObject({ failures: 0 })
  })

  it('that is asked no longer, the caller has given up, fails with the caller’s reason', async () => {
    const stop = new AbortController()
    answers[ELSEWHERE] = () => {
      stop.abort(new Error('enough'))
      return new Response(new ReadableStream())
    }
    await expect(downloadAsset(integration, ELSEWHERE, { signal: stop.signal })).rejects.toThrow('enough')
  })

  /** The reset is near by the kit's clock: one that is far would be taken for none. */
  const loudly =
    (status: number): Answer =>
    () => {
      const reset = String(Math.ceil(kit.clock.now().getTime() / 1_000) + 600)
      const headers = { 'retry-after': '3600', 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': reset }
      return new Response('No.', { status, headers })
    }

  it.each([
    ['an upload leads to', ASSET, to(ELSEWHERE)],
    ['the API is asked for without a token', 'https://api.github.com/repos/octo/private/contents/a.png', null],
  ])('%s: its 401, 403 and 429 count for nothing', async (_, url, redirect) => {
    const last = redirect === null ? url : ELSEWHERE
    if (redirect !== null) answers[url] = redirect
    for (const status of [401, 403, 429]) {
      answers[last] = loudly(status)
      await expect(download(url)).rejects.toMatchObject({
        code: 'github_asset_unavailable',
        host: new URL(last).hostname,
        status,
      })
    }
    expect(sent.filter(({ url: asked }) => asked === last)).toHaveLength(3)
    expect(await integration.rateLimit()).toMatchObject({ suppressedUntil: null })
    expect(await integration.circuit()).toMatchObject({ state: 'closed', failures: 0 })
  })

  it('that an upload leads to, and that fails, is asked again and holds nothing back', async () => {
    answers[ASSET] = to(ELSEWHERE)
    answers[ELSEWHERE] = loudly(503)
    await expect(download(ASSET)).rejects.toMatchObject({ code: 'http_error', status: 503 })
    expect(sent.filter(({ url }) => url === ELSEWHERE)).toHaveLength(3)
    expect(await integration.rateLimit()).toMatchObject({ suppressedUntil: null })
  })

  it('of the tracker that is no upload counts as any other', async () => {
    const url = 'https://github.com/octo/widgets/raw/main/a.png'
    answers[url] = loudly(503)
    await expect(download(url)).rejects.toMatchObject({ code: 'github_asset_unavailable', status: 503 })
    expect(sent).toHaveLength(1)
    expect(await integration.circuit()).toMatchObject({ state: 'closed', failures: 0 })
  })

  it('and GitHub differ: its own faults count', async () => {
    answers[ASSET] = () => new Response('', { status: 429, headers: { 'retry-after': '1000000' } })
    await expect(downloadAsset(integration, ASSET, { attempts: 1 })).rejects.toMatchObject({
      code: 'http_error',
      status: 429,
    })
    expect((await integration.rateLimit()).suppressedUntil).not.toBeNull()
  })
})
