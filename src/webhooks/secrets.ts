/** A new webhook secret, with time for the sender to take it up; and whether it still signs with a former one. Rule: docs/behaviour/webhook-signatures.md, "Rotation". */
import { randomBytes } from 'node:crypto'
import { integrationKey } from '../cache/integration-keys.ts'
import { checkCredentials } from '../credentials/credentials.ts'
import type { IntegrationRow } from '../db/schema/tables.ts'
import { recordEvents } from '../events/durable-events.ts'
import type { Framework } from '../framework/context.ts'
import { InvalidArgumentException, InvalidCredentials } from '../framework/errors.ts'
import { errorLine, integrationLogger } from '../framework/logger.ts'
import { integrationHandle } from '../integrations/handle.ts'
import { integrationsById, requireLocked, updateIntegration } from '../integrations/queries.ts'
import type { IntegrationProvider } from '../providers/contracts.ts'
import { handlesWebhooks, managesWebhooks, requireContract } from '../providers/contracts.ts'
import type { Credentials, Integration } from '../providers/integration.ts'
import {
  activeWebhookSecrets,
  furtherWebhookSecrets,
  MAX_WEBHOOK_SECRETS,
  secretEndMs,
} from '../providers/webhook-request.ts'

/** Of a secret that we make, in bytes: as many as SHA-256 gives, within the 24 to 64 of Standard Webhooks. */
const SECRET_BYTES = 32

const CHANGED_KEYS = ['webhook_secret', 'webhook_secrets'] as const

export interface RotateWebhookSecret {
  /** Default: 32 random bytes as Standard Webhooks writes them, `whsec_` and base64. */
  readonly secret?: string
}

export interface RotatedWebhookSecret {
  readonly secret: string
  /** Null: there was none. */
  readonly oldValidUntil: Date | null
}

/**
 * Puts a new webhook secret in the place of the present one, which stays valid for `webhook.secret_overlap`. The row is
 * locked meanwhile, so that two rotations at the same moment leave both old secrets in force.
 *
 * @throws IntegrationNotFound, UnknownProvider, UnsupportedByProvider, CredentialsUnreadable; InvalidArgumentException for a
 *   blank secret or the present one; InvalidCredentials when the provider's schema does not take it
 */
export async function rotateWebhookSecret(
  framework: Framework,
  id: number,
  { secret = newSecret() }: RotateWebhookSecret = {},
): Promise<RotatedWebhookSecret> {
  const { clock, config, db, encryption, listeners, tables, workflows } = framework
  if (typeof secret !== 'string' || secret.trim() === '')
    throw new InvalidArgumentException('secret', 'a text that is not blank is allowed')
  const now = clock.now()
  const overlapEnd = new Date(now.getTime() + config.webhook.secret_overlap * 1_000)

  const { row, old, isManaged } = await db.transaction(async (tx) => {
    const before = await requireLocked(tx, tables, id)
    const provider = framework.providers.get(before.provider)
    requireContract(before.provider, provider, handlesWebhooks, 'HandlesWebhooks')
    const credentials = encryption.decrypt(id, before.credentials)
    const old = presentSecret(credentials)
    if (secret === old) throw new InvalidArgumentException('secret', 'it is the present one already')
    const rotated = rotatedCredentials(framework, before, { credentials, secret, old, overlapEnd, now })
    const row = await updateIntegration(tx, tables, id, { credentials: encryption.encrypt(id, rotated) })
    await recordEvents(framework, tx, id, [{ name: 'CredentialsUpdated', payload: { keys: CHANGED_KEYS } }])
    return { row: row as IntegrationRow, old, isManaged: managesWebhooks(provider) }
  })
  // If this signal is lost, the next look compares the secret, and tells the provider within the overlap.
  if (isManaged) workflows.keepWebhookSubscription(id)

  const oldValidUntil = old === null ? null : overlapEnd
  integrationLogger(framework, row).info(
    { event: 'webhook.secret_rotated', old_valid_until: oldValidUntil?.toISOString() ?? null },
    'a webhook secret was rotated',
  )
  await listeners.emit('CredentialsUpdated', {
    integration: integrationHandle(framework, row),
    keys: CHANGED_KEYS,
  })
  return { secret, oldValidUntil }
}

function newSecret(): string {
  return `whsec_${randomBytes(SECRET_BYTES).toString('base64')}`
}

export function presentSecret({ webhook_secret: secret }: Credentials): string | null {
  return typeof secret === 'string' && secret !== '' ? secret : null
}

/** The secrets in force beside the present one, and when each ends; null: it has no end. In the order in which they are tried. */
function formerSecretsInForce(
  credentials: Credentials,
  now: Date,
): { readonly secret: string; readonly until: Date | null }[] {
  const inForce = activeWebhookSecrets(credentials, now)
  return furtherWebhookSecrets(credentials, now)
    .filter(({ secret }) => inForce.includes(secret) && secret !== presentSecret(credentials))
    .map(({ secret, expires_at: at }) => {
      const endMs = secretEndMs(at)
      return { secret, until: endMs === Number.POSITIVE_INFINITY ? null : new Date(endMs) }
    })
}

interface Rotation {
  readonly credentials: Credentials
  readonly secret: string
  readonly old: string | null
  readonly overlapEnd: Date
  readonly now: Date
}

/** The credentials with the new secret, the old one first among the further ones; what has expired goes, and what is a sixth. */
function rotatedCredentials(
  { providers }: Framework,
  { provider }: IntegrationRow,
  { credentials, secret, old, overlapEnd, now }: Rotation,
): Credentials {
  const further = furtherWebhookSecrets(credentials, now).filter((entry) => ![secret, old, ''].includes(entry.secret))
  const ending = old === null ? [] : [{ secret: old, expires_at: overlapEnd.toISOString() }]
  const checked = checkCredentials(provider, providers.get(provider), {
    ...credentials,
    webhook_secret: secret,
    webhook_secrets: [...ending, ...further].slice(0, MAX_WEBHOOK_SECRETS - 1),
  })
  // A schema that leaves out what it does not name would end the old secret at once, without a word.
  const inForce = activeWebhookSecrets(checked, now)
  if (!inForce.includes(secret) || (old !== null && !inForce.includes(old)))
    throw new InvalidCredentials(provider, 'credentials', [
      {
        path: 'webhook_secrets',
        message:
          'the schema must keep `webhook_secret` and `webhook_secrets: [{secret, expires_at?}]` as they are (z.looseObject() does), or the old secret would end at once',
      },
    ])
  return checked
}

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

const MISSED_SECONDS = 24 * 3_600

const missingKey = (integrationId: number): string => integrationKey(integrationId, 'webhook-secret-missing')

/** What deliveries say of their integrations' secrets. In the background: no delivery waits for it. */
export class SecretNotes {
  readonly #framework: Framework
  readonly #notedAtMs = new Map<string, number>()

  constructor(framework: Framework) {
    this.#framework = framework
  }

  /** A former secret has verified a delivery. */
  former(integration: Integration, secret: string): void {
    this.#note(matchKey(this.#framework, integration.id, secret), KEPT_SECONDS, (error) =>
      integrationLogger(this.#framework, integration).warn(
        { event: 'webhook.former_secret_unnoted', error },
        'it could not be noted that a former webhook secret has verified a delivery; a later one notes it',
      ),
    )
  }

  /** A delivery was refused, since there is no secret. */
  missing(integration: Integration): void {
    this.#note(missingKey(integration.id), MISSED_SECONDS, (error) =>
      integrationLogger(this.#framework, integration).warn(
        { event: 'webhook.missing_secret_unnoted', error },
        'it could not be noted that a delivery was refused for want of a webhook secret; a later one notes it',
      ),
    )
  }

  #note(key: string, keptSeconds: number, failed: (error: string) => void): void {
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
    cache.set(key, now.toISOString(), keptSeconds).catch((error: unknown) => failed(errorLine(error, 300)))
  }
}

export interface FormerSecret {
  /** Null: it has no end. */
  readonly until: Date | null
  /** When it has verified a delivery last, to the minute; null: in 90 days it has not. */
  readonly lastMatchedAt: Date | null
  /** False: its provider has no `signature`, or brings the secrets, so a match is not seen. */
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

/** Whether its deliveries are checked by secrets of the integration. What a provider brings itself may depend on the delivery. */
export function isCheckedBySecret(provider: IntegrationProvider): boolean {
  if (!handlesWebhooks(provider) || provider.webhookSecrets !== undefined) return false
  const { signature } = provider
  if (signature === undefined) return false
  return !['publicKeys', 'jwks', 'certificate'].some((from) => Object.hasOwn(signature, from))
}

/** Whether each delivery is refused for want of a secret. Unreadable credentials are a fault of another kind. */
export function lacksWebhookSecret({ providers, clock }: Framework, integration: Integration): boolean {
  const provider = providers.find(integration.provider)
  if (provider === null || !isCheckedBySecret(provider)) return false
  try {
    return activeWebhookSecrets(integration.credentialsArray(), clock.now()).length === 0
  } catch {
    return false
  }
}

/**
 * Integrations that lack a webhook secret and were sent deliveries nevertheless in the last 24 hours, and when last. One without a
 * delivery may have no use for webhooks.
 */
export async function missedSecrets(
  framework: Framework,
  ids: readonly number[],
): Promise<{ readonly integrationId: number; readonly at: Date }[]> {
  const notes = await framework.cache.getMany(ids.map(missingKey))
  const noted = ids.filter((id) => notes.has(missingKey(id)))
  const rows = await integrationsById(framework.db, framework.tables, noted)
  return noted.flatMap((integrationId) => {
    const row = rows.get(integrationId)
    const at = notes.get(missingKey(integrationId))
    if (row === undefined || typeof at !== 'string') return []
    return lacksWebhookSecret(framework, integrationHandle(framework, row)) ? [{ integrationId, at: new Date(at) }] : []
  })
}
