/** Deliveries that an operator makes to see what becomes of them: as the provider would send them. Rule: docs/behaviour/dashboard.md, "Test console". */
import { randomUUID } from 'node:crypto'
import type { Framework } from '../framework/context.ts'
import { InvalidArgumentException, RecordNotFound } from '../framework/errors.ts'
import type { Json } from '../framework/json.ts'
import { REDACTED } from '../framework/redaction.ts'
import { getIntegration } from '../integrations/handle.ts'
import type { HandlesWebhooks } from '../providers/contracts.ts'
import { handlesWebhooks, requireContract } from '../providers/contracts.ts'
import { signatureOf } from '../providers/signatures/declared-signature.ts'
import type { SignatureScheme } from '../providers/signatures/scheme-rules.ts'
import { signDelivery } from '../providers/signatures/sign-delivery.ts'
import { activeWebhookSecrets } from '../providers/webhook-request.ts'
import { webhookPath } from './address.ts'
import { getWebhook } from './list.ts'
import type { Signing } from './test-delivery-rules.ts'
import { TEST_HEADER } from './test-delivery-rules.ts'

export interface TestDeliveryInput {
  readonly signing: Signing
  /** One that is stored, one of the provider's samples, or a body of one's own. */
  readonly of:
    | { readonly webhook: number }
    | { readonly sample: string }
    | { readonly body: string; readonly event?: string | undefined }
}

export interface TestDelivery {
  readonly id: string
  /** Path and query of the integration's route. */
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array<ArrayBuffer>
}

export interface TestableProvider {
  readonly key: string
  readonly label: string
  /** Its `signature` is data, and signs with a secret that we hold. */
  readonly canSign: boolean
  readonly samples: readonly string[]
}

/** Names of headers that sign, where the provider does not say which do. */
const SIGNS = /sign|hmac|digest/i
/** They belong to the connection on which a delivery came, or are ours. */
const OF_THE_CONNECTION =
  /^(:|host$|content-length$|connection$|transfer-encoding$|accept-encoding$|x-forwarded-|x-integrations-test$)/

/** Providers that take webhooks. */
export const testableProviders = ({ providers }: Framework): readonly TestableProvider[] =>
  providers.keys().flatMap((key) => {
    const provider = providers.find(key)
    if (provider === null || !handlesWebhooks(provider)) return []
    const { label = key, sampleWebhooks } = provider
    return {
      key,
      label,
      canSign: signsBySecret(signatureOf(provider)) !== null,
      samples: sampleWebhooks === undefined ? [] : sampleWebhooks.call(provider).map(({ name }) => name),
    }
  })

/**
 * Nothing is sent: the headers and the body for a POST to the integration's own route.
 *
 * @throws IntegrationNotFound, UnsupportedByProvider, WebhookNotFound, RecordNotFound for a sample; InvalidArgumentException where it
 *   can't be signed
 */
export async function makeTestDelivery(
  framework: Framework,
  integrationId: number,
  { signing, of }: TestDeliveryInput,
): Promise<TestDelivery> {
  const integration = await getIntegration(framework, integrationId)
  const { provider: key } = integration
  const provider = requireContract(key, framework.providers.get(key), handlesWebhooks, 'HandlesWebhooks')
  const { headers: given, body, event } = await contentOf(framework, provider, integrationId, of)
  const id = randomUUID()
  const at = framework.clock.now()
  const headers = provider.testWebhookHeaders?.({ event, deliveryId: id }) ?? {}
  const unsigned = {
    url: webhookPath(framework, integration),
    headers: { 'content-type': 'application/json', ...headers },
    body,
  }
  const scheme = signsBySecret(signatureOf(provider))
  const [secret] = activeWebhookSecrets(integration.credentialsArray(), at)
  const { metadata } = integration
  const signed =
    scheme === null || secret === undefined
      ? null
      : signDelivery(scheme, unsigned, {
          key: secret,
          at,
          deliveryId: id,
          metadata: metadata as Record<string, Json>,
          ...(framework.baseUrl === null ? {} : { baseUrl: framework.baseUrl }),
        })
  if (signing !== 'unsigned' && signed === null)
    throw new InvalidArgumentException(
      'signing',
      scheme === null
        ? `unsigned is allowed: the provider ${key} has no signature as data that a secret of ours makes`
        : 'unsigned is allowed: the integration has no webhook secret to sign with',
    )
  // A stored delivery comes without its old signature.
  const names = new Set(Object.keys({ ...unsigned.headers, ...signed?.headers }))
  const own = Object.entries(given).filter(([name]) => !names.has(name) && !SIGNS.test(name))
  const sent = signing === 'unsigned' || signed === null ? unsigned : signed
  return {
    id,
    url: sent.url,
    headers: { ...Object.fromEntries(own), ...sent.headers, [TEST_HEADER]: id },
    body: new Uint8Array(signing === 'tampered' ? Buffer.concat([sent.body, Buffer.from('\n')]) : sent.body),
  }
}

/** Null: only the provider can sign, or it says in no data how. */
function signsBySecret(signature: SignatureScheme | undefined): SignatureScheme | null {
  if (signature === undefined) return null
  const { scheme } = signature
  if (scheme === 'jwt') return signature.algorithms[0]?.startsWith('HS') ? signature : null
  return scheme === 'hmac' || scheme === 'token' || scheme === 'standard-webhooks' ? signature : null
}

interface Content {
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array
  readonly event: string | null
}

async function contentOf(
  framework: Framework,
  provider: HandlesWebhooks,
  integrationId: number,
  of: TestDeliveryInput['of'],
): Promise<Content> {
  if ('body' in of) return { headers: {}, body: Buffer.from(of.body), event: of.event ?? null }
  if ('sample' in of) {
    const samples = provider.sampleWebhooks?.() ?? []
    const found = samples.find(({ name }) => name === of.sample)
    if (found === undefined)
      throw new RecordNotFound(`sample "${of.sample}"`, samples.map(({ name }) => name).join(', '))
    return { headers: {}, body: Buffer.from(JSON.stringify(found.body)), event: found.event }
  }
  const stored = await getWebhook(framework, of.webhook)
  if (stored.integrationId !== integrationId)
    throw new InvalidArgumentException(
      'webhook',
      `one of integration ${integrationId} is allowed, ${of.webhook} was given`,
    )
  const headers = Object.entries(stored.headers).flatMap(([name, values]) =>
    OF_THE_CONNECTION.test(name) || values.includes(REDACTED) ? [] : [[name, values.join(', ')] as const],
  )
  return {
    headers: Object.fromEntries(headers),
    body: Buffer.from(stored.payload, stored.encoding === 'base64' ? 'base64' : 'utf8'),
    event: stored.eventType,
  }
}
