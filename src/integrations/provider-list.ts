/** The registered providers, as `integrations install` and a dashboard show them, and a warning about the others. */

import type { z } from 'zod'
import type { Framework } from '../framework/context.ts'
import { contractsOf, hasHealthCheck, hasOAuth2 } from '../providers/contracts.ts'
import { unregisteredProviders } from './queries.ts'

export interface ProviderDescription {
  /** What stands in the `provider` column. */
  readonly key: string
  /** For people. */
  readonly label: string
  readonly credentialsSchema?: z.ZodType
  readonly metadataSchema?: z.ZodType
  readonly hasHealthCheck: boolean
  /**
   * Whether some of its integrations may do without a person's authorization: it has OAuth, and `needsAuthorization()` or
   * `obtainsTokens()`. Which ones, the stored integration says.
   */
  readonly isAuthorizationOptional: boolean
  /** Names of the contracts that it implements. */
  readonly contracts: readonly string[]
}

/** In the order of their identifiers. */
export function describeProviders({ providers }: Framework): readonly ProviderDescription[] {
  return providers.keys().map((key) => {
    const provider = providers.get(key)
    const { label, credentialsSchema, metadataSchema } = provider
    return {
      key,
      label: label ?? key,
      ...(credentialsSchema === undefined ? {} : { credentialsSchema }),
      ...(metadataSchema === undefined ? {} : { metadataSchema }),
      hasHealthCheck: hasHealthCheck(provider),
      isAuthorizationOptional:
        hasOAuth2(provider) && (provider.needsAuthorization !== undefined || provider.obtainsTokens !== undefined),
      contracts: contractsOf(provider),
    }
  })
}

const WARNED = new WeakMap<Framework['providers'], Set<string>>()

/**
 * Scheduled work passes over integrations whose provider is not registered here. Each process warns once for each such provider.
 *
 * Rule: docs/behaviour/integrations.md, "A provider that is not registered".
 */
export async function warnOfUnregistered({ db, tables, providers, logger }: Framework): Promise<void> {
  const warned = WARNED.get(providers) ?? new Set<string>()
  WARNED.set(providers, warned)
  for (const { provider, integrations } of await unregisteredProviders(db, tables, [...providers.keys(), ...warned])) {
    if (warned.has(provider)) continue
    warned.add(provider)
    logger.warn(
      { event: 'providers.unregistered', provider, integrations },
      'active integrations have a provider that is not registered here: scheduled work passes them over, and calls of them are refused',
    )
  }
}
