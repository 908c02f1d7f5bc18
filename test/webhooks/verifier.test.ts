/** Which deliveries a provider lets in by its `signature`, its own check or both. */
import { createHmac } from 'node:crypto'
import { describe, expect, it, vi } from 'vitest'
import { GitHubProvider } from '../../src/adapters/github/index.ts'
import type { HandlesWebhooks } from '../../src/providers/contracts.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { webhookRequest } from '../../src/providers/webhook-request.ts'
import { WebhookVerifier } from '../../src/webhooks/verifier.ts'
import { providerTakes } from '../support/signatures.ts'

const SECRET = 'the secret of the hook'
const BODY = '{"a":1}'
const integration = {
  metadata: {},
  credentialsArray: () => ({ webhook_secret: SECRET }),
} as unknown as Integration
const signature = { scheme: 'hmac', hash: 'sha256', header: 'x-hub-signature-256', prefix: 'sha256=', encoding: 'hex' }

function delivery(secret = SECRET) {
  const digest = createHmac('sha256', secret).update(BODY).digest('hex')
  return webhookRequest({
    method: 'POST',
    path: '/',
    query: '',
    headers: new Headers({ 'x-hub-signature-256': `sha256=${digest}` }),
    rawBody: Buffer.from(BODY),
    receivedAt: new Date('2026-01-01T00:00:00Z'),
    toleranceSeconds: 300,
  })
}

const providerOf = (members: object) => ({ handleWebhook: () => null, ...members }) as HandlesWebhooks

describe('a provider with a signature and a check of its own', () => {
  it.each([
    [true, true],
    [false, false],
    ['yes', false],
    [undefined, false],
  ])('lets in what is signed, and for which its own check returns %j: %j', (returned, isTaken) => {
    const provider = providerOf({ signature, verifyWebhookSignature: () => returned })
    expect(providerTakes(provider, integration, delivery())).toBe(isTaken)
  })

  it('is not asked by its own check about what is not signed', () => {
    const verifyWebhookSignature = vi.fn(() => true)
    const provider = providerOf({ signature, verifyWebhookSignature })
    expect(providerTakes(provider, integration, delivery('another'))).toBe(false)
    expect(verifyWebhookSignature).not.toHaveBeenCalled()
  })

  it('may need time for its own check', async () => {
    const verifier = new WebhookVerifier({
      egress: { fetch: () => () => Promise.reject(new Error('nothing is fetched')), close: async () => {} },
      baseUrl: null,
    })
    const ask = (returned: boolean) =>
      verifier.verify(providerOf({ signature, verifyWebhookSignature: async () => returned }), integration, delivery())
    expect(await ask(true)).toEqual({ kind: 'verified', formerSecret: null })
    expect(await ask(false)).toEqual({ kind: 'refused', reason: 'refused_by_provider' })
  })

  it('throws what its own check throws, which the door takes for false', () => {
    const verifyWebhookSignature = () => {
      throw new Error('the check broke')
    }
    const provider = providerOf({ signature, verifyWebhookSignature })
    expect(() => providerTakes(provider, integration, delivery())).toThrow('the check broke')
  })
})

describe('a provider that extends an adapter', () => {
  it('may have a method of its own called signature, which is not asked', () => {
    const own = vi.fn()
    for (const is of [true, false]) {
      const provider = providerOf({ signature: own, verifyWebhookSignature: () => is })
      expect(providerTakes(provider, integration, delivery())).toBe(is)
    }
    expect(own).not.toHaveBeenCalled()
  })

  it('is stricter by a check of its own', () => {
    class Strict extends GitHubProvider {
      override verifyWebhookSignature(): boolean {
        return false
      }
    }
    expect(providerTakes(new GitHubProvider(), integration, delivery())).toBe(true)
    expect(providerTakes(new Strict(), integration, delivery())).toBe(false)
  })

  it('brings the secrets of its app', () => {
    class Apps extends GitHubProvider {
      webhookSecrets(): readonly string[] {
        return ['of the app']
      }
    }
    expect(providerTakes(new Apps(), integration, delivery('of the app'))).toBe(true)
    expect(providerTakes(new Apps(), integration, delivery())).toBe(false)
  })
})

describe('a provider without a check', () => {
  it('lets nothing in', () => {
    expect(providerTakes(providerOf({}), integration, delivery())).toBe(false)
  })
})
