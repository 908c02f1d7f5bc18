/** Rows whose provider this process does not know. Rule: docs/behaviour/integrations.md, "A provider that is not registered". */

import type { Framework } from '../framework/context.ts'
import { unregisteredProviders } from './queries.ts'

/** Providers that a process has warned of. */
const WARNED = new WeakMap<Framework['providers'], Set<string>>()

/** Scheduled work passes over such rows: one warning in a process for each provider, however often it runs. */
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
