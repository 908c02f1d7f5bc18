/** A new webhook secret, with time for the sender to take it up. Rule: docs/behaviour/webhook-signatures.md, "Rotation". */
import { randomBytes } from 'node:crypto'
import { checkCredentials } from '../credentials/credentials.ts'
import type { IntegrationRow } from '../db/schema/tables.ts'
import { recordEvents } from '../events/durable-events.ts'
import type { Framework } from '../framework/context.ts'
import { InvalidArgumentException, InvalidCredentials } from '../framework/errors.ts'
import { integrationLogger } from '../framework/logger.ts'
import { integrationHandle } from '../integrations/handle.ts'
import { requireLocked, updateIntegration } from '../integrations/queries.ts'
import { handlesWebhooks, managesWebhooks, requireContract } from '../providers/contracts.ts'
import type { Credentials } from '../providers/integration.ts'
import { activeWebhookSecrets, furtherWebhookSecrets, MAX_WEBHOOK_SECRETS } from '../providers/webhook-request.ts'

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
export function formerSecretsInForce(
  credentials: Credentials,
  now: Date,
): { readonly secret: string; readonly until: Date | null }[] {
  const inForce = activeWebhookSecrets(credentials, now)
  return furtherWebhookSecrets(credentials, now)
    .filter(({ secret }) => inForce.includes(secret) && secret !== presentSecret(credentials))
    .map(({ secret, expires_at: at }) => ({
      secret,
      until: at === null || at === undefined ? null : new Date(String(at)),
    }))
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
