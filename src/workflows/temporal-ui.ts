/**
 * What the Temporal UI shows of a workflow, and finds it by. Rule: docs/behaviour/workflows.md, "In the Temporal UI" and
 * "Search attributes".
 */
import { setCurrentDetails, upsertSearchAttributes, workflowInfo } from '@temporalio/workflow'
import type { AsksLabels, FoundBy } from '../temporal/label-rules.ts'

/**
 * Sets the "Current details": a heading, a table of facts, and hints on what to do, as Markdown. Facts are ids, counts,
 * moments and provider identifiers only. The details are computed from the workflow's state; no history holds them.
 */
export function showing(
  heading: string,
  facts: Readonly<Record<string, string | number | null | undefined>>,
  ...hints: readonly string[]
): void {
  const rows = Object.entries(facts).flatMap(([name, value]) =>
    value === null || value === undefined ? [] : [`| ${name} | ${cell(value)} |`],
  )
  const table = rows.length === 0 ? [] : ['|  |  |\n| --- | --- |', ...rows].join('\n')
  setCurrentDetails([`**${heading}**`, ...(rows.length === 0 ? [] : [table]), ...hints].join('\n\n'))
}

function cell(value: string | number): string {
  return String(value).replace(/\s+/g, ' ').replaceAll('|', '\\|')
}

/** A moment, to the second, in UTC. @param at milliseconds since the epoch */
export function moment(at: number): string {
  return `${new Date(at).toISOString().slice(0, 19)}Z`
}

const INTEGRATION_ID = { name: 'IntegrationId', type: 'INT' } as const
const PROVIDER = { name: 'IntegrationProvider', type: 'KEYWORD' } as const

/** For an activity's input: asks for the search attributes while the workflow lacks one. A caller may have set both at the start. */
export function askingLabels(): AsksLabels {
  return lacksSome() ? { labels: true } : {}
}

/** Sets the search attributes of an activity's result, once in a workflow's life. */
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
