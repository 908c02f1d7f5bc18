import { upsertSearchAttributes, workflowInfo } from '@temporalio/workflow'
import type { AsksLabels, FoundBy } from '../core/search-attributes.ts'

const INTEGRATION_ID = { name: 'IntegrationId', type: 'INT' } as const
const PROVIDER = { name: 'IntegrationProvider', type: 'KEYWORD' } as const

/** For an activity's input: the workflow asks until it has both, for whoever started it knew them, or an earlier answer did. */
export function askingLabels(): AsksLabels {
  return lacksSome() ? { labels: true } : {}
}

/** Sets the search attributes that an activity's answer brings, once in a workflow's life. Rule: docs/behaviour/workflows.md, "Search attributes". */
export function setSearchAttributes({ foundBy: wanted }: FoundBy): void {
  if (wanted === undefined || !lacksSome()) return
  upsertSearchAttributes([
    { key: INTEGRATION_ID, value: wanted.integrationId },
    { key: PROVIDER, value: wanted.provider },
  ])
}

function lacksSome(): boolean {
  const { typedSearchAttributes: has } = workflowInfo()
  return has.get(INTEGRATION_ID) === undefined || has.get(PROVIDER) === undefined
}
