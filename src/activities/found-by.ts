import type { AsksLabels, FoundBy } from '../core/search-attributes.ts'
import type { Framework } from '../framework.ts'
import { providerOf } from '../operations/provider-of.ts'

/**
 * What an integration's workflow is to be found by, as a part of an activity's answer. Empty where the workflow did not ask, where
 * the namespace has no such search attributes, and where the row can't be read: no work fails for a label, and the next answer
 * brings it. Workflows of a release before there were any do not ask.
 *
 * Rule: docs/behaviour/workflows.md, "Search attributes".
 */
export async function foundBy(framework: Framework, integrationId: number, { labels }: AsksLabels): Promise<FoundBy> {
  if (labels !== true || !framework.temporal.maySetSearchAttributes()) return {}
  const provider = await providerOf(framework, integrationId)
  return provider === null ? {} : { foundBy: { integrationId, provider } }
}
