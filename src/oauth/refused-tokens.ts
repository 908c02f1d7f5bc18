/**
 * Tokens that are obtained without a person, and refused: an incident in place of a person. Rule: docs/behaviour/oauth.md, "Tokens
 * without a person".
 */
import { eq } from 'drizzle-orm'
import { integrationKey } from '../cache/integration-keys.ts'
import { announceChanges } from '../calls/call-events.ts'
import { statusOf } from '../calls/failure-class-rules.ts'
import type { Framework } from '../framework/context.ts'
import { isIntegrationsError, TokensRefused } from '../framework/errors.ts'
import type { Json } from '../framework/json.ts'
import { jsonEquals } from '../framework/json.ts'
import { secretsKnownTo } from '../framework/known-secrets.ts'
import { integrationLogger } from '../framework/logger.ts'
import { redactedErrorLine } from '../framework/redacted-error.ts'
import type { IncidentCause } from '../incidents/queries.ts'
import { closeIncidents, openIncidents } from '../incidents/queries.ts'
import { lockIntegration } from '../integrations/queries.ts'
import type { Integration } from '../providers/integration.ts'
import { providerErrorOf } from './rules.ts'

/** For this time no caller asks again: servers lock out a client that keeps failing. */
const QUIET_SECONDS = 60
const REFUSED: IncidentCause = { source: 'oauth', reason: 'tokens_refused', severity: 'failing' }

const refusedKey = (integrationId: number): string => integrationKey(integrationId, 'tokens-refused')

/** @throws TokensRefused within a minute of a refusal */
export async function refuseIfRefused({ cache }: Framework, integrationId: number): Promise<void> {
  const refused = (await cache.get(refusedKey(integrationId))) as { readonly reason: string } | undefined
  if (refused !== undefined) throw new TokensRefused(integrationId, refused.reason)
}

/** Whether the server has judged the request: another one would fare the same (RFC 6749, 5.2). */
export function isRefusal(error: unknown): boolean {
  if (isIntegrationsError(error, 'invalid_argument') || isIntegrationsError(error, 'reauth_required')) return true
  const status = statusOf(error)
  return status === 400 || status === 401 || status === 403 || providerErrorOf(error) !== null
}

/**
 * Marks the integration, unless its credentials or metadata were changed while the server was asked: then the refusal says nothing of
 * what is stored.
 *
 * @returns the error to be thrown, and what announces the incident once no lock is held
 */
export async function noteTokensRefused(
  framework: Framework,
  integration: Integration,
  error: unknown,
): Promise<{ readonly failure: TokensRefused; readonly announce: () => Promise<void> }> {
  const { db, tables, cache, clock, encryption } = framework
  const { id, metadata } = integration
  const asked = { metadata, credentials: integration.credentialsArray() } as Json
  const reason = providerErrorOf(error) ?? redactedErrorLine(error, secretsKnownTo(integration), 255)
  const events = await db.transaction(async (tx) => {
    const row = await lockIntegration(tx, tables, id)
    if (row === null) return []
    const stored = { metadata: row.metadata, credentials: encryption.decrypt(id, row.credentials) } as Json
    if (!jsonEquals(stored, asked)) return []
    await cache.within(tx).set(refusedKey(id), { reason }, QUIET_SECONDS)
    if (row.tokensRefusedAt !== null) return []
    const { integrations } = tables
    await tx.update(integrations).set({ tokensRefusedAt: clock.now() }).where(eq(integrations.id, id))
    return (await openIncidents(framework, tx, REFUSED, [row])).get(id) ?? []
  })
  integrationLogger(framework, integration).warn(
    { event: 'tokens.refused', error: reason },
    'tokens that need no person were refused; what the client proves itself with has to be put right',
  )
  return {
    failure: new TokensRefused(id, reason, { cause: error }),
    announce: () => announceChanges(framework, integration, events),
  }
}

/**
 * Tokens were obtained, or are needed no longer: the incident closes, if all else is well.
 *
 * @returns announces that: to be called when no lock is held, since listeners take as long as they like
 */
export async function noteRefusalOver(framework: Framework, integration: Integration): Promise<() => Promise<void>> {
  const { db, tables } = framework
  const { id: integrationId } = integration
  await forgetRefusal(framework, integrationId)
  const healed = await db.transaction(async (tx) => {
    const row = await lockIntegration(tx, tables, integrationId)
    if (row === null || row.tokensRefusedAt === null) return []
    const { integrations } = tables
    await tx.update(integrations).set({ tokensRefusedAt: null }).where(eq(integrations.id, integrationId))
    return (await closeIncidents(framework, tx, [integrationId])).get(integrationId) ?? []
  })
  return () => announceChanges(framework, integration, healed)
}

/** Other credentials may be taken: the next caller asks. */
export async function forgetRefusal({ cache }: Framework, integrationId: number): Promise<void> {
  await cache.delete(refusedKey(integrationId))
}
