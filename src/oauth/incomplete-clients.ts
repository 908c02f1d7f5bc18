/** OAuth clients of ours that can't prove themselves here: their tokens can't be refreshed. Rule: docs/behaviour/doctor.md. */
import { and, asc, eq } from 'drizzle-orm'
import type { Framework } from '../framework/context.ts'
import { isIntegrationsError } from '../framework/errors.ts'
import { integrationHandle } from '../integrations/handle.ts'
import { acceptsWebhooks } from '../integrations/queries.ts'
import type { HasOAuth2 } from '../providers/contracts.ts'
import { hasOAuth2 } from '../providers/contracts.ts'
import type { Integration } from '../providers/integration.ts'
import { oauthClientOf, obtainsTokens } from './oauth-provider.ts'
import { tokensOf } from './rules.ts'

interface IncompleteClient {
  readonly provider: string
  /** What is missing, in words. */
  readonly reason: string
  readonly integrations: number
  /** There are more than were looked at: the number is a lower bound. */
  readonly isAtLeast: boolean
  readonly firstId: number
}

/**
 * By provider and reason. Integrations that a person has switched off, and those without a token to refresh, need no client.
 *
 * @param limit integrations of one provider that are looked at: mostly all have one client
 */
export async function incompleteClients(framework: Framework, limit: number): Promise<IncompleteClient[]> {
  const { db, tables, providers } = framework
  const { integrations } = tables
  const found: IncompleteClient[] = []
  for (const [key, provider] of providers.entries()) {
    if (!hasOAuth2(provider) || provider.checkClient === undefined) continue
    const rows = await db
      .select()
      .from(integrations)
      .where(and(eq(integrations.provider, key), acceptsWebhooks(tables)))
      .orderBy(asc(integrations.id))
      .limit(limit)
    const byReason = new Map<string, { integrations: number; readonly firstId: number }>()
    for (const row of rows) {
      const reason = await whatIsMissing(provider, integrationHandle(framework, row))
      if (reason === null) continue
      const same = byReason.get(reason)
      if (same === undefined) byReason.set(reason, { integrations: 1, firstId: row.id })
      else same.integrations += 1
    }
    found.push(
      ...[...byReason].map(([reason, which]) => ({
        provider: key,
        reason,
        isAtLeast: rows.length === limit,
        ...which,
      })),
    )
  }
  return found
}

async function whatIsMissing(provider: HasOAuth2, integration: Integration): Promise<string | null> {
  try {
    if (oauthClientOf(provider, integration) === null) return null
    const isRefreshed = obtainsTokens(provider, integration) || tokensOf(integration.credentialsArray()).refreshToken
    if (isRefreshed) await provider.checkClient?.(integration)
    return null
  } catch (error) {
    return isIntegrationsError(error, 'invalid_argument') ? error.message : null
  }
}
