/** Asks the engine about a delivery, without a database. */
import type { HandlesWebhooks, Maybe } from '../../src/providers/contracts.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { FetchedKeys } from '../../src/providers/signatures/public-keys.ts'
import type { SignatureScheme, SignatureVerdict } from '../../src/providers/signatures/scheme-rules.ts'
import type { SignedFrom } from '../../src/providers/signatures/signed-message.ts'
import { verifySignature } from '../../src/providers/signatures/verify.ts'
import type { WebhookRequest } from '../../src/providers/webhook-request.ts'
import { WebhookVerifier } from '../../src/webhooks/verifier.ts'

const NO_WIRE = new FetchedKeys({
  fetch: () => () => Promise.reject(new Error('no test of signatures reaches out')),
})

export function verdictOf(
  scheme: SignatureScheme,
  request: WebhookRequest,
  secrets: readonly string[],
  { metadata = {}, baseUrl = null, fetched = NO_WIRE }: Partial<SignedFrom> & { fetched?: FetchedKeys } = {},
): Maybe<SignatureVerdict> {
  return verifySignature(scheme, request, { secrets, from: { metadata, baseUrl }, fetched })
}

/** For schemes that need no promise. */
export function verifies(scheme: SignatureScheme, request: WebhookRequest, secrets: readonly string[]): boolean {
  const verdict = verdictOf(scheme, request, secrets)
  if (verdict instanceof Promise) throw new Error(`${scheme.scheme} gives a promise`)
  return verdict.kind === 'verified'
}

const VERIFIER = new WebhookVerifier({
  egress: { fetch: () => () => Promise.reject(new Error('no test of signatures reaches out')), close: async () => {} },
  baseUrl: null,
})

/** As the door asks a provider whose signature needs no fetched key. */
export function providerTakes(provider: HandlesWebhooks, integration: Integration, request: WebhookRequest): boolean {
  const verdict = VERIFIER.verify(provider, integration, request)
  if (verdict instanceof Promise) throw new Error('the provider gives a promise')
  return verdict.kind === 'verified'
}
