/**
 * When a former webhook secret has verified a delivery last: whether the provider still signs with it.
 * Rule: docs/behaviour/webhook-signatures.md, "Rotation".
 */
import { integrationKey } from '../cache/integration-keys.ts'
import type { Framework } from '../framework/context.ts'
import { errorLine, integrationLogger } from '../framework/logger.ts'
import { handlesWebhooks } from '../providers/contracts.ts'
import type { Credentials, Integration } from '../providers/integration.ts'
import { formerSecretsInForce } from './secrets.ts'

/** Each process notes a secret's match at most once a minute, so a delivery costs no statement of its own. */
const NOTE_EVERY_MS = 60_000
const KEPT_SECONDS = 90 * 24 * 3_600
/** Secrets that a process remembers to have noted. */
const MAX_REMEMBERED = 1_000

/**
 * In the cache, not in the integration's row: each write of the row makes the deliveries that are being stored verify again.
 * The key holds a keyed digest, never the secret.
 */
const matchKey = ({ encryption }: Pick<Framework, 'encryption'>, integrationId: number, secret: string): string =>
  integrationKey(integrationId, `former-secret:${encryption.sign(`former secret of ${integrationId}`, secret)}`)

export class FormerSecretMatches {
  readonly #framework: Framework
  readonly #notedAtMs = new Map<string, number>()

  constructor(framework: Framework) {
    this.#framework = framework
  }

  /** In the background: the delivery does not wait for it. */
  note(integration: Integration, secret: string): void {
    const key = matchKey(this.#framework, integration.id, secret)
    const { cache, clock } = this.#framework
    const now = clock.now()
    // A clock that was set back does not keep it from noting.
    if (Math.abs(now.getTime() - (this.#notedAtMs.get(key) ?? Number.NEGATIVE_INFINITY)) < NOTE_EVERY_MS) return
    this.#notedAtMs.delete(key)
    this.#notedAtMs.set(key, now.getTime())
    for (const [oldest] of this.#notedAtMs) {
      if (this.#notedAtMs.size <= MAX_REMEMBERED) break
      this.#notedAtMs.delete(oldest)
    }
    cache
      .set(key, now.toISOString(), KEPT_SECONDS)
      .catch((error: unknown) =>
        integrationLogger(this.#framework, integration).warn(
          { event: 'webhook.former_secret_unnoted', error: errorLine(error, 300) },
          'it could not be noted that a former webhook secret has verified a delivery; a later one notes it',
        ),
      )
  }
}

export interface FormerSecret {
  /** Null: it has no end. */
  readonly until: Date | null
  /** When it has verified a delivery last, to the minute; null: in 90 days it has not. */
  readonly lastMatchedAt: Date | null
  /** False: its provider checks signatures itself, or brings the secrets, so a match is not seen. */
  readonly isWatched: boolean
}

/** In the order in which they are tried. @param credentials decrypted */
export async function formerSecrets(
  framework: Framework,
  { id: integrationId, provider: key }: Pick<Integration, 'id' | 'provider'>,
  credentials: Credentials,
): Promise<FormerSecret[]> {
  const provider = framework.providers.find(key)
  const isWatched =
    provider !== null &&
    handlesWebhooks(provider) &&
    provider.signature !== undefined &&
    provider.webhookSecrets === undefined
  const former = formerSecretsInForce(credentials, framework.clock.now()).map(({ secret, until }) => ({
    key: matchKey(framework, integrationId, secret),
    until,
  }))
  const matches = await framework.cache.getMany(former.map((each) => each.key))
  return former.map(({ until, ...each }) => {
    const at = matches.get(each.key)
    return { until, lastMatchedAt: typeof at === 'string' ? new Date(at) : null, isWatched }
  })
}
