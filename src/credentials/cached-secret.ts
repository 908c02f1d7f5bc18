/** What a provider gives out for a while. Rule: docs/behaviour/credentials.md, "Cached secrets". */
import { createHash } from 'node:crypto'
import { z } from 'zod'
import { integrationKey } from '../cache/integration-keys.ts'
import { withLock } from '../cache/lock.ts'
import type { Framework, TokenHolder } from '../framework/context.ts'
import { InvalidArgumentException, isIntegrationsError, SchemaDrift } from '../framework/errors.ts'
import type { Json } from '../framework/json.ts'
import { canonicalJson } from '../framework/json.ts'
import { findIntegration } from '../integrations/queries.ts'
import type { Credentials } from '../providers/integration.ts'

export interface ObtainedSecret {
  readonly value: string
  readonly expiresAt: Date
}

/** A call that begins with it may take a while, and the provider's clock may be ahead of ours. */
const MARGIN_SECONDS = 300
/** It enters keys of the cache and of the lock. */
const NAME = /^[A-Za-z0-9_.-]{1,64}$/

const Obtained = z.object({ value: z.string().min(1), expiresAt: z.date() })

/** @throws InvalidArgumentException, IntegrationNotFound, SchemaDrift; what `obtain()` threw */
export async function cachedSecret(
  framework: Framework,
  holder: TokenHolder,
  name: string,
  obtain: () => Promise<ObtainedSecret>,
): Promise<string> {
  checkName(name)
  return (await kept(framework, holder, name)) ?? keepNew(framework, holder, name, obtain)
}

export async function forgetCachedSecret({ cache }: Framework, integrationId: number, name: string): Promise<void> {
  checkName(name)
  await cache.delete(secretKey(integrationId, name))
}

/** One caller obtains it, the others wait. After the lock's wait a caller obtains one, too: two secrets do no harm. */
async function keepNew(
  framework: Framework,
  holder: TokenHolder,
  name: string,
  obtain: () => Promise<ObtainedSecret>,
): Promise<string> {
  const { refresh_lock_ttl: ttlSeconds, refresh_lock_wait: waitSeconds } = framework.config.oauth
  const work = async (): Promise<string> =>
    (await keptForNewest(framework, holder, name)) ?? obtainAndKeep(framework, holder, name, obtain)
  const lock = integrationKey(holder.integration.id, `lock:secret:${name}`)
  let hasBegun = false
  try {
    return await withLock(framework.cache, lock, { ttlSeconds, waitSeconds }, () => {
      hasBegun = true
      return work()
    })
  } catch (error) {
    if (hasBegun || !isIntegrationsError(error, 'lock_timeout')) throw error
    return work()
  }
}

/** A handle may be older than the stored credentials. It adopts those, or each of its calls would obtain a secret again. */
async function keptForNewest(framework: Framework, holder: TokenHolder, name: string): Promise<string | null> {
  holder.adopt((await holder.integration.refresh()).credentialsArray())
  return kept(framework, holder, name)
}

async function kept({ cache, encryption }: Framework, holder: TokenHolder, name: string): Promise<string | null> {
  const sealed = await cache.get(secretKey(holder.integration.id, name))
  return typeof sealed === 'string'
    ? encryption.open(purposeOf(holder.integration.id, name, holder.credentials()), sealed)
    : null
}

async function obtainAndKeep(
  framework: Framework,
  holder: TokenHolder,
  name: string,
  obtain: () => Promise<ObtainedSecret>,
): Promise<string> {
  const { cache, encryption, clock } = framework
  const { id } = holder.integration
  // Before the call: what it answers belongs to the credentials that it was made with.
  const purpose = purposeOf(id, name, holder.credentials())
  const { value, expiresAt } = answerOf(holder, name, await obtain())
  const seconds = Math.floor((expiresAt.getTime() - clock.now().getTime()) / 1_000) - MARGIN_SECONDS
  if (seconds <= 0) return value
  await cache.set(secretKey(id, name), encryption.seal(purpose, value), seconds)
  // The integration was deleted, erased or given other credentials meanwhile, before there was an entry to drop.
  if (!(await isOfStoredCredentials(framework, id, name, purpose))) await forgetCachedSecret(framework, id, name)
  return value
}

async function isOfStoredCredentials(
  { db, tables, encryption }: Framework,
  integrationId: number,
  name: string,
  purpose: string,
): Promise<boolean> {
  const row = await findIntegration(db, tables, integrationId)
  return row !== null && purposeOf(row.id, name, encryption.decrypt(row.id, row.credentials)) === purpose
}

function secretKey(integrationId: number, name: string): string {
  return integrationKey(integrationId, `secret:${name}`)
}

/** An entry opens for the credentials that it was obtained with, and for no others: so changed ones forget it. */
function purposeOf(integrationId: number, name: string, credentials: Credentials): string {
  const fingerprint = createHash('sha256')
    .update(canonicalJson(credentials as Json))
    .digest('hex')
  return `integrations/${integrationId}/secret/${name}/${fingerprint}`
}

function checkName(name: string): void {
  if (typeof name !== 'string' || !NAME.test(name))
    throw new InvalidArgumentException(
      'name',
      `1 to 64 letters, digits, "_", "-" and "." are allowed, ${JSON.stringify(String(name))} was given`,
    )
}

function answerOf({ integration }: TokenHolder, name: string, answer: unknown): ObtainedSecret {
  const result = Obtained.safeParse(answer)
  if (result.success) return result.data
  throw new SchemaDrift(
    `obtain() of the cached secret "${name}" of the provider "${integration.provider}"`,
    result.error.issues.map(({ path, message }) => ({ path: path.join('.') || 'answer', message })),
  )
}
