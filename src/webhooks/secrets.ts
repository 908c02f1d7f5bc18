/**
 * A new webhook secret, with time for the sender to take it up; and what deliveries say of the present one: whether a former one still
 * verifies them, and whether each is refused.
 *
 * Rules: docs/behaviour/webhook-signatures.md, "Rotation" and "Refused deliveries".
 */
import { randomBytes } from 'node:crypto'
import { desc, eq, inArray, sql } from 'drizzle-orm'
import { z } from 'zod'
import { integrationKey } from '../cache/integration-keys.ts'
import { checkCredentials } from '../credentials/credentials.ts'
import type { Database } from '../db/client.ts'
import type { IntegrationRow, Tables } from '../db/schema/tables.ts'
import { recordEvents } from '../events/durable-events.ts'
import type { Framework } from '../framework/context.ts'
import { InvalidArgumentException, InvalidCredentials } from '../framework/errors.ts'
import type { Json } from '../framework/json.ts'
import { errorLine, integrationLogger } from '../framework/logger.ts'
import { integrationHandle } from '../integrations/handle.ts'
import { integrationsById, requireLocked, updateIntegration } from '../integrations/queries.ts'
import type { IntegrationProvider } from '../providers/contracts.ts'
import { handlesWebhooks, managesWebhooks, requireContract } from '../providers/contracts.ts'
import type { Credentials, Integration } from '../providers/integration.ts'
import { signatureOf } from '../providers/signatures/declared-signature.ts'
import type { RefusalReason } from '../providers/signatures/scheme-rules.ts'
import { REFUSAL_REASONS } from '../providers/signatures/scheme-rules.ts'
import {
  activeWebhookSecrets,
  furtherWebhookSecrets,
  MAX_WEBHOOK_SECRETS,
  secretEndMs,
} from '../providers/webhook-request.ts'
import { PSEUDO_HEADER } from './rules.ts'

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
  framework.integrationsChanged.set(row.provider, performance.now())
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

/** Each process notes a secret's match, or a refusal, at most once a minute, so a delivery costs no statement of its own. */
const NOTE_EVERY_MS = 60_000
const KEPT_SECONDS = 90 * 24 * 3_600
/** Secrets and integrations that a process remembers to have noted. */
const MAX_REMEMBERED = 1_000

/**
 * In the cache, not in the integration's row: each write of the row makes the deliveries that are being stored verify again.
 * The key holds a keyed digest, never the secret.
 */
const matchKey = ({ encryption }: Pick<Framework, 'encryption'>, integrationId: number, secret: string): string =>
  integrationKey(integrationId, `former-secret:${encryption.sign(`former secret of ${integrationId}`, secret)}`)

const REFUSALS_KEPT_SECONDS = 24 * 3_600
/** Three refusals, each this long after the one before, are neither one stranger's try nor one delivery that is sent again. */
const REFUSALS = 3
const REFUSALS_APART_MS = 5 * 60_000

const refusalsKey = (integrationId: number): string => integrationKey(integrationId, 'webhook-refusals')
const Refusals = z.object({
  /** Those in force, as a digest: others begin a new list. */
  secrets: z.string(),
  /** The last refusals, oldest first. */
  at: z.array(z.iso.datetime().transform((at) => new Date(at))),
  /** Of the last one. */
  reason: z.enum(REFUSAL_REASONS),
})
/** What a sender with another secret, or with none, is refused for. */
const REASONS_OF_SECRETS: readonly RefusalReason[] = ['no_secret', 'signature_missing', 'mismatch']

function refusalsUnder(note: Json | undefined, secrets: string): z.output<typeof Refusals> | null {
  const refusals = note === undefined ? null : Refusals.parse(note)
  return refusals?.secrets === secrets ? refusals : null
}

/** Tells whether the secrets in force are others than before, and nothing of what they are. @throws CredentialsUnreadable */
function digestOfSecrets({ encryption, clock }: Framework, integration: Integration): string {
  const secrets = activeWebhookSecrets(integration.credentialsArray(), clock.now())
  return encryption.sign(`webhook secrets of ${integration.id}`, JSON.stringify(secrets))
}

/** What deliveries say of their integrations' secrets. In the background: no delivery waits for it. */
export class SecretNotes {
  readonly #framework: Framework
  readonly #notedAtMs = new Map<string, number>()

  constructor(framework: Framework) {
    this.#framework = framework
  }

  /** A former secret has verified a delivery. */
  former(integration: Integration, secret: string): void {
    const { cache } = this.#framework
    const key = matchKey(this.#framework, integration.id, secret)
    this.#note(
      key,
      (now) => cache.set(key, now.toISOString(), KEPT_SECONDS),
      (error) =>
        integrationLogger(this.#framework, integration).warn(
          { event: 'webhook.former_secret_unnoted', error },
          'it could not be noted that a former webhook secret has verified a delivery; a later one notes it',
        ),
    )
  }

  /** A delivery was refused for its signature. */
  refused(integration: Integration, reason: RefusalReason): void {
    const { cache } = this.#framework
    const key = refusalsKey(integration.id)
    this.#note(
      key,
      async (now) => {
        // Two processes may write at once. Then one moment is lost, and the next refusal brings another.
        const secrets = digestOfSecrets(this.#framework, integration)
        const before = refusalsUnder(await cache.get(key), secrets)?.at ?? []
        const last = before.at(-1)
        if (last !== undefined && now.getTime() - last.getTime() < REFUSALS_APART_MS) return
        const at = [...before, now].slice(-REFUSALS).map((each) => each.toISOString())
        await cache.set(key, { secrets, at, reason }, REFUSALS_KEPT_SECONDS)
      },
      (error) =>
        integrationLogger(this.#framework, integration).warn(
          { event: 'webhook.refusal_unnoted', error },
          'it could not be noted that a delivery was refused for its signature; a later one notes it',
        ),
    )
  }

  #note(key: string, write: (now: Date) => Promise<void>, failed: (error: string) => void): void {
    const now = this.#framework.clock.now()
    // A clock that was set back does not keep it from noting.
    if (Math.abs(now.getTime() - (this.#notedAtMs.get(key) ?? Number.NEGATIVE_INFINITY)) < NOTE_EVERY_MS) return
    this.#notedAtMs.delete(key)
    this.#notedAtMs.set(key, now.getTime())
    for (const [oldest] of this.#notedAtMs) {
      if (this.#notedAtMs.size <= MAX_REMEMBERED) break
      this.#notedAtMs.delete(oldest)
    }
    write(now).catch((error: unknown) => failed(errorLine(error, 300)))
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
    signatureOf(provider) !== undefined &&
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
function isCheckedBySecret(provider: IntegrationProvider): boolean {
  if (!handlesWebhooks(provider) || provider.webhookSecrets !== undefined) return false
  const signature = signatureOf(provider)
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

/** Deliveries of an integration were refused for their signature. */
export interface RefusedDeliveries {
  readonly integrationId: number
  /** `no secret`: it lacks one. `all refused`: each of the last deliveries was, over ten minutes at least. */
  readonly because: 'no secret' | 'all refused'
  readonly lastRefusedAt: Date
  readonly reason: RefusalReason
  /** The last delivery that was stored as its sender sent it; null: none of the newest webhooks is one. */
  readonly lastStoredAt: Date | null
  /** Whether another secret of the integration would mend it. */
  readonly isOfSecret: boolean
}

/**
 * Those of the last 24 hours that a person should look at. A stranger's forgery beside deliveries that verify is not one; nor is
 * an integration without secret and without deliveries: it may have no use for webhooks.
 *
 * Rule: docs/behaviour/webhook-signatures.md, "Refused deliveries".
 */
export async function refusedDeliveries(framework: Framework, ids: readonly number[]): Promise<RefusedDeliveries[]> {
  const { cache, db, tables, providers } = framework
  const notes = await cache.getMany(ids.map(refusalsKey))
  const noted = ids.filter((id) => notes.has(refusalsKey(id)))
  const [rows, stored] = await Promise.all([integrationsById(db, tables, noted), lastSentDeliveries(db, tables, noted)])
  return noted.flatMap((integrationId): RefusedDeliveries[] => {
    const row = rows.get(integrationId)
    const provider = row === undefined ? null : providers.find(row.provider)
    if (row === undefined || provider === null) return []
    const integration = integrationHandle(framework, row)
    const refusals = presentRefusals(framework, integration, notes.get(refusalsKey(integrationId)))
    const lastRefusedAt = refusals?.at.at(-1)
    if (refusals === null || lastRefusedAt === undefined) return []
    const { reason } = refusals
    const lastStoredAt = stored.get(integrationId) ?? null
    const isOfSecret = isCheckedBySecret(provider) && REASONS_OF_SECRETS.includes(reason)
    const found = { integrationId, lastRefusedAt, reason, lastStoredAt, isOfSecret }
    if (lacksWebhookSecret(framework, integration)) return [{ ...found, because: 'no secret' }]
    const first = refusals.at.at(-REFUSALS)
    const isEachRefused = first !== undefined && (lastStoredAt === null || lastStoredAt <= first)
    return isEachRefused ? [{ ...found, because: 'all refused' }] : []
  })
}

/** Unreadable credentials are a fault of another kind. */
function presentRefusals(framework: Framework, integration: Integration, note: Json | undefined) {
  try {
    return refusalsUnder(note, digestOfSecrets(framework, integration))
  } catch {
    return null
  }
}

/** Of an integration: what a reconciliation fetches may be all that there is. */
const NEWEST_LOOKED_AT = 1_000

/** When the last delivery of each was stored. What a reconciliation has fetched was not checked. */
async function lastSentDeliveries(db: Database, tables: Tables, ids: readonly number[]): Promise<Map<number, Date>> {
  if (ids.length === 0) return new Map()
  const { integrations, webhooks, deliveries } = tables
  const { createdAt, headers, partOf } = webhooks
  const newest = db
    .select({ at: createdAt, headers, partOf })
    .from(webhooks)
    .where(eq(webhooks.integrationId, integrations.id))
    .orderBy(desc(createdAt))
    .limit(NEWEST_LOOKED_AT)
    .as('newest')
  const sent = db
    .select({ at: newest.at })
    .from(newest)
    .leftJoin(deliveries, eq(deliveries.id, newest.partOf))
    .where(sql`not jsonb_exists(coalesce(${deliveries.headers}, ${newest.headers}), ${PSEUDO_HEADER.source})`)
    .orderBy(desc(newest.at))
    .limit(1)
    .as('sent')
  const rows = await db
    .select({ id: integrations.id, at: sent.at })
    .from(integrations)
    .innerJoinLateral(sent, sql`true`)
    .where(inArray(integrations.id, [...ids]))
  return new Map(rows.map(({ id, at }) => [id, at]))
}
