/** What the Temporal UI shows of a workflow. Rule: docs/behaviour/workflows.md, "In the Temporal UI". */
import { setCurrentDetails } from '@temporalio/workflow'

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
