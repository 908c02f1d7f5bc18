/** The GitHub adapter's own rules: cursor, webhooks, rate limits. */
import { createHmac } from 'node:crypto'
import { describe, expect, it, vi } from 'vitest'
import { deliveries } from '../../sandbox/github/webhook-sender.ts'
import { classifyGitHubFailure, gitHubRetryDelayMs } from '../../src/adapters/github/github-failures.ts'
import { sinceOf } from '../../src/adapters/github/github-sync.ts'
import type { GitHubWebhookReceived } from '../../src/adapters/github/index.ts'
import { GitHubCredentials, GitHubMetadata, GitHubProvider } from '../../src/adapters/github/index.ts'
import { HttpError } from '../../src/framework/errors.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { webhookRequest } from '../../src/providers/webhook-request.ts'
import { providerTakes } from '../support/signatures.ts'

const SECRET = "It's a Secret to Everybody"
const DELIVERY = '72d3162e-cc78-11e3-81ab-4c9367dc0958'
const provider = new GitHubProvider()

describe('since', () => {
  it.each([
    ['no cursor', null, '1970-01-01T00:00:00Z'],
    ['an empty one', '', '1970-01-01T00:00:00Z'],
    ['an instant: an hour before it', '2026-03-01T00:30:00Z', '2026-02-28T23:30:00Z'],
    ['an instant with an offset', '2026-03-01T01:30:00+01:00', '2026-02-28T23:30:00Z'],
    ['an instant with a fraction', '2026-03-01T00:30:00.999Z', '2026-02-28T23:30:00Z'],
    ['the 29th of February of a leap year', '2028-02-29T12:00:00Z', '2028-02-29T11:00:00Z'],
  ])('of %s', (_, cursor, since) => {
    expect(sinceOf(cursor)).toBe(since)
  })

  it.each([
    ['a date', '2026-03-01'],
    ['a time without a zone', '2026-03-01T00:30:00'],
    ['a time without seconds', '2026-03-01T00:30Z'],
    ['a month that is none', '2026-13-01T00:00:00Z'],
    ['a day that is none', '2026-02-30T00:00:00Z'],
    ['an hour that is none', '2026-03-01T25:00:00Z'],
    ['prose', 'yesterday'],
    ['a number', 1_700_000_000],
    ['an object', { since: '2026-03-01T00:30:00Z' }],
    ['blank text', ' '],
  ])('refuses %s', (_, cursor) => {
    expect(() => sinceOf(cursor)).toThrow(expect.objectContaining({ code: 'invalid_argument', argument: 'cursor' }))
  })
})

describe('a webhook signature', () => {
  const body = 'Hello, World!'
  // https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries#testing-the-webhook-payload-validation
  const documented = 'sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17'

  it.each([
    ['GitHub‘s documented example', { 'x-hub-signature-256': documented }, SECRET, true],
    [
      'the same in upper case hex',
      { 'x-hub-signature-256': `sha256=${documented.slice(7).toUpperCase()}` },
      SECRET,
      true,
    ],
    ['none', {}, SECRET, false],
    [
      'the SHA-1 header only',
      { 'x-hub-signature': `sha1=${createHmac('sha1', SECRET).update(body).digest('hex')}` },
      SECRET,
      false,
    ],
    ['no prefix', { 'x-hub-signature-256': documented.slice(7) }, SECRET, false],
    ['another prefix', { 'x-hub-signature-256': documented.replace('sha256', 'sha512') }, SECRET, false],
    ['a digit less', { 'x-hub-signature-256': documented.slice(0, -1) }, SECRET, false],
    ['a changed digit', { 'x-hub-signature-256': `${documented.slice(0, -1)}8` }, SECRET, false],
    ['another secret', { 'x-hub-signature-256': documented }, 'another', false],
    ['no secret', { 'x-hub-signature-256': documented }, undefined, false],
    ['a secret that is no text', { 'x-hub-signature-256': documented }, 5, false],
  ])('%s', (_, headers, secret, verified) => {
    const integration = integrationWith({ token: 't', webhook_secret: secret })
    expect(providerTakes(provider, integration, request(body, headers))).toBe(verified)
    expect(provider.verifyWebhookSignature(integration, request(body, headers))).toBe(verified)
  })

  it.each([
    ['no end', undefined, true],
    ['an end after the delivery came in', '2026-01-01T00:00:00.001Z', true],
    ['an end when it came in', '2026-01-01T00:00:00Z', false],
    ['an end that was over', '2000-01-01T00:00:00Z', false],
  ])('by an older secret with %s', (_, expires_at, verified) => {
    const credentials = { webhook_secret: 'new', webhook_secrets: [{ secret: SECRET, expires_at }] }
    const delivery = request(body, { 'x-hub-signature-256': documented })
    expect(providerTakes(provider, integrationWith(credentials), delivery)).toBe(verified)
    expect(provider.verifyWebhookSignature(integrationWith(credentials), delivery)).toBe(verified)
  })
})

describe('a delivery', () => {
  it.each([
    ['a UUID', DELIVERY, DELIVERY],
    ['a UUID in upper case', DELIVERY.toUpperCase(), DELIVERY],
    ['no UUID', 'not-a-uuid', null],
    ['a UUID and more', `${DELIVERY}0`, null],
    ['nothing', undefined, null],
  ])('has for an id %s', (_, header, id) => {
    expect(provider.webhookDeliveryId(request('', header === undefined ? {} : { 'x-github-delivery': header }))).toBe(
      id,
    )
  })

  it('has an id that nobody signed', () => {
    expect(provider.deliveryIdSigned).toBe(false)
  })

  it('has its type in X-GitHub-Event, or none', () => {
    expect(provider.resolveWebhookEvent(request('', { 'x-github-event': 'issues' }))).toBe('issues')
    expect(provider.resolveWebhookEvent(request('', {}))).toBeNull()
  })

  it.each([
    ['JSON', '{"action":"opened","n":1}', { action: 'opened', n: 1 }, 'opened'],
    ['a form', `payload=${encodeURIComponent('{"action":"closed"}')}`, { action: 'closed' }, 'closed'],
    ['JSON without an action', '{"zen":"x"}', { zen: 'x' }, null],
    ['JSON with an action that is no text', '{"action":5}', { action: 5 }, null],
    ['a list', '[1]', [1], null],
    ['neither', 'hello', null, null],
    ['a form with broken JSON', 'payload=%7B', null, null],
  ])('as %s is emitted with its payload', async (_, body, payload, action) => {
    const emitted: GitHubWebhookReceived[] = []
    const integration = integrationWith({}, async (event) => void emitted.push(event as GitHubWebhookReceived))
    const headers = { 'x-github-event': 'issues', 'x-github-delivery': DELIVERY }
    expect(await provider.handleWebhook(integration, request(body, headers))).toEqual({
      status: 'dispatched',
      event: 'issues',
    })
    expect(emitted).toEqual([expect.objectContaining({ event: 'issues', action, deliveryId: DELIVERY, payload })])
  })

  it('fails with its listeners', async () => {
    const integration = integrationWith({}, () => Promise.reject(new Error('the listener broke')))
    await expect(provider.handleWebhook(integration, request('{}', {}))).rejects.toThrow('the listener broke')
  })

  it('of each of the 329 real payloads verifies, has an id and a type, and is emitted', async () => {
    const emit = vi.fn(async () => {})
    const integration = integrationWith({ token: 't', webhook_secret: SECRET }, emit)
    const all = deliveries()
    expect(all).toHaveLength(329)
    for (const { event, body, deliveryId } of all) {
      const signature = `sha256=${createHmac('sha256', SECRET).update(body).digest('hex')}`
      const headers = { 'x-github-event': event, 'x-github-delivery': deliveryId, 'x-hub-signature-256': signature }
      const delivered = request(body, headers)
      expect(providerTakes(provider, integration, delivered)).toBe(true)
      expect([provider.webhookDeliveryId(delivered), provider.resolveWebhookEvent(delivered)]).toEqual([
        deliveryId,
        event,
      ])
      await provider.handleWebhook(integration, delivered)
      expect(emit).toHaveBeenLastCalledWith(
        expect.objectContaining({ event, deliveryId, payload: JSON.parse(body.toString()) }),
      )
    }
  })
})

describe('a failed call', () => {
  const NOW = new Date('2026-01-01T00:00:00Z')
  const inSeconds = (seconds: number) => String(NOW.getTime() / 1_000 + seconds)

  it.each([
    ['429: a minute', 429, {}, 'Too Many Requests', 'throttle', 60_000],
    ['429 with Retry-After', 429, { 'retry-after': '7' }, '', 'throttle', 7_000],
    [
      '403 with nothing remaining',
      403,
      { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': inSeconds(90) },
      '',
      'throttle',
      90_000,
    ],
    [
      '403 with nothing remaining and a reset that is over',
      403,
      { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': inSeconds(-5) },
      '',
      'throttle',
      1_000,
    ],
    ['429 with a reset alone', 429, { 'x-ratelimit-reset': inSeconds(90) }, '', 'throttle', 90_000],
    [
      '403 of the secondary limit, with something remaining and a reset',
      403,
      { 'x-ratelimit-remaining': '4000', 'x-ratelimit-reset': inSeconds(90) },
      'You have exceeded a secondary rate limit.',
      'throttle',
      90_000,
    ],
    ['429 with a reset that is no time', 429, { 'x-ratelimit-reset': 'soon' }, '', 'throttle', 60_000],
    ['403 with Retry-After', 403, { 'retry-after': '60', 'x-ratelimit-remaining': '10' }, '', 'throttle', 60_000],
    [
      '403 with both: Retry-After wins',
      403,
      { 'retry-after': '60', 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': inSeconds(90) },
      '',
      'throttle',
      60_000,
    ],
    ['403 of the secondary limit', 403, {}, 'You have exceeded a secondary rate limit.', 'throttle', 60_000],
    ['403 of the abuse detection', 403, {}, 'You have triggered an abuse detection mechanism.', 'throttle', 60_000],
    [
      '403 with much remaining',
      403,
      { 'x-ratelimit-remaining': '4999' },
      'Resource not accessible by integration',
      null,
      null,
    ],
    ['403 without more', 403, {}, 'Must have admin rights', null, null],
    ['401', 401, {}, 'Bad credentials', null, null],
    ['404 with nothing remaining', 404, { 'x-ratelimit-remaining': '0' }, 'Not Found', null, null],
    ['500 that speaks of a rate limit', 500, {}, 'rate limit', null, null],
  ])('with %s', (_, status, headers, message, failureClass, delayMs) => {
    const error = new HttpError(status, new Headers(headers as Record<string, string>), { message })
    expect(classifyGitHubFailure(error)).toBe(failureClass)
    expect(gitHubRetryDelayMs(error, NOW)).toBe(delayMs)
  })

  it.each([['a text'], [undefined], [null], [new TypeError('fetch failed')]])(
    'that is %s is left to the framework',
    (error) => {
      expect(classifyGitHubFailure(error)).toBeNull()
      expect(gitHubRetryDelayMs(error, NOW)).toBeNull()
    },
  )
})

describe('what an integration holds', () => {
  it.each([
    ['a token', { token: 'ghp_x' }, true],
    ['more keys', { token: 'ghp_x', more: 1 }, true],
    ['no token', {}, false],
    ['an empty token', { token: '' }, false],
    ['an empty webhook secret', { token: 'ghp_x', webhook_secret: '' }, false],
  ])('credentials with %s', (_, credentials, fits) => {
    expect(GitHubCredentials.safeParse(credentials).success).toBe(fits)
  })

  it.each([
    ['owner and repository', { owner: 'octo', repo: 'a.b_c-1' }, true],
    ['a path in the owner', { owner: 'octo/x', repo: 'r' }, false],
    ['a query in the repository', { owner: 'octo', repo: 'r?x' }, false],
    ['the path itself for an owner', { owner: '.', repo: 'r' }, false],
    ['the path above for an owner', { owner: '..', repo: 'r' }, false],
    ['the path itself for a repository', { owner: 'octo', repo: '.' }, false],
    ['the path above for a repository', { owner: 'octo', repo: '..' }, false],
    ['the repository of an organisation’s profile', { owner: 'octo', repo: '.github' }, true],
    ['a name of three dots', { owner: 'octo', repo: '...' }, true],
    ['a name that ends in two', { owner: 'octo', repo: 'a..' }, true],
    ['an Enterprise server', { owner: 'o', repo: 'r', base_url: 'https://github.example.com/api/v3' }, true],
    ['a server with a port', { owner: 'o', repo: 'r', base_url: 'http://localhost:3000/' }, true],
    ['a server with user info', { owner: 'o', repo: 'r', base_url: 'https://user:word@github.example.com' }, false],
    ['a server with a user', { owner: 'o', repo: 'r', base_url: 'https://user@github.example.com' }, false],
    ['a server with a query', { owner: 'o', repo: 'r', base_url: 'https://github.example.com/api/v3?x=1' }, false],
    ['a server with an empty query', { owner: 'o', repo: 'r', base_url: 'https://github.example.com/api/v3?' }, false],
    ['a server with a fragment', { owner: 'o', repo: 'r', base_url: 'https://github.example.com/api/v3#x' }, false],
    [
      'a server with an empty fragment',
      { owner: 'o', repo: 'r', base_url: 'https://github.example.com/api/v3#' },
      false,
    ],
    ['a file as server', { owner: 'o', repo: 'r', base_url: 'file:///etc/passwd' }, false],
    ['no repository', { owner: 'o' }, false],
  ])('metadata with %s', (_, metadata, fits) => {
    expect(GitHubMetadata.safeParse(metadata).success).toBe(fits)
  })
})

function request(body: string | Uint8Array, headers: Record<string, string>) {
  const rawBody = typeof body === 'string' ? new TextEncoder().encode(body) : body
  const delivery = { method: 'POST', path: '/', query: '', headers: new Headers(headers), rawBody }
  return webhookRequest({ ...delivery, receivedAt: new Date('2026-01-01T00:00:00Z'), toleranceSeconds: 300 })
}

function integrationWith(
  credentials: Record<string, unknown>,
  emit: Integration['emit'] = async () => {},
): Integration {
  return { credentialsArray: () => credentials, emit } as unknown as Integration
}
