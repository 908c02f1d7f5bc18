import type { AsksLabels, FoundBy } from '../core/search-attributes.ts'
import { findIntegration } from '../db/queries/integrations.ts'
import type { Framework } from '../framework.ts'

/** Read once in a process: an integration keeps its provider. */
const PROVIDERS = new WeakMap<Framework, Map<number, string>>()
/** So many are remembered before it begins anew. */
const MAX_REMEMBERED = 10_000

/**
 * What an integration's workflow is to be found by, as a part of an activity's answer. Empty where the workflow did not ask, where
 * the namespace has no such search attributes, and where the row can't be read: no work fails for a label, and the next answer
 * brings it. Workflows of a release before there were any do not ask.
 *
 * Rule: docs/behaviour/workflows.md, "Search attributes".
 */
export async function foundBy(framework: Framework, integrationId: number, { labels }: AsksLabels): Promise<FoundBy> {
  if (labels !== true || !framework.temporal.maySetSearchAttributes()) return {}
  const providers = PROVIDERS.get(framework) ?? new Map<number, string>()
  PROVIDERS.set(framework, providers)
  const provider = providers.get(integrationId) ?? (await providerOf(framework, integrationId))
  if (provider === null) return {}
  if (providers.size >= MAX_REMEMBERED) providers.clear()
  providers.set(integrationId, provider)
  return { foundBy: { integrationId, provider } }
}

async function providerOf({ db, tables }: Framework, integrationId: number): Promise<string | null> {
  const row = await findIntegration(db, tables, integrationId).catch(() => null)
  return row?.provider ?? null
}
