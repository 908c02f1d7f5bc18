import { findProvider } from '../db/queries/integration-provider.ts'
import type { Framework } from '../framework.ts'

/** Read once in a process: an integration keeps its provider. */
const PROVIDERS = new WeakMap<Framework, Map<number, string>>()
/** So many are remembered before it begins anew. */
const MAX_REMEMBERED = 10_000

/** Whose integration this is; null where the row is not there, or can't be read now. Never rejects. */
export async function providerOf(framework: Framework, integrationId: number): Promise<string | null> {
  const providers = PROVIDERS.get(framework) ?? new Map<number, string>()
  PROVIDERS.set(framework, providers)
  const known = providers.get(integrationId)
  if (known !== undefined) return known
  const provider = await findProvider(framework.db, framework.tables, integrationId).catch(() => null)
  if (provider === null) return null
  if (providers.size >= MAX_REMEMBERED) providers.clear()
  providers.set(integrationId, provider)
  return provider
}
