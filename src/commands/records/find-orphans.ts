import { z } from 'zod'
import { Interrupted } from '../cli/failure.ts'
import { liveLine } from '../cli/progress-line.ts'
import { table } from '../cli/table.ts'
import type { CommandContext } from '../command.ts'
import { columns, command } from '../command.ts'
import { id, optional, text, whole, withDefault } from '../fields.ts'
import { all } from '../shapes.ts'

/** Often enough for an eye; a chunk takes some milliseconds. */
const SHOW_EVERY_MS = 100

export const findOrphans = command({
  name: 'find-orphans',
  topic: 'Records',
  summary: 'Reports rows of a mapped model that have lost their mapping; changes nothing.',
  examples: [
    'integrations find-orphans contact',
    'integrations find-orphans contact --integration 7 --limit 500 --json',
  ],
  places: ['model'],
  workflow: 'own',
  stopsItself: true,
  fields: {
    model: text('name of the model, as in `models` of the host'),
    integration: optional(id("count only this integration's mappings")),
    limit: withDefault(whole('the most rows to name; all are counted'), 50),
  },
  output: z.object({
    model: z.string(),
    ...all(z.int(), 'scanned', 'orphans'),
    rows: z.array(z.object({ id: z.string(), created_at: z.string().nullable() })),
  }),
  async run(context, { model, integration, limit }) {
    const { integrations, signal, warn } = context
    const asked = { model, limit, ...(integration === undefined ? {} : { integrationId: integration }) }
    const progress = progressOf(context)
    try {
      const { rows, ...counts } = await integrations.admin.findOrphans(asked, { signal, onProgress: progress.show })
      if (counts.orphans > rows.length) warn(`There are more than ${limit}; --limit shows more.`)
      return { ...counts, rows: rows.map(columns) }
    } catch (error) {
      // Half a search says nothing.
      throw signal.aborted ? new Interrupted() : error
    } finally {
      progress.clear()
    }
  },
  show({ scanned, orphans, rows }) {
    const count = `${orphans} of ${scanned} rows without a mapping.`
    if (rows.length === 0) return count
    const cells = rows.map(({ id, created_at }) => [id, created_at])
    return `${table(['ID', 'Created'], cells)}\n${count}`
  },
})

/** One line that changes, on an interactive terminal only. */
function progressOf({ terminal }: CommandContext) {
  const line = terminal.isInteractive ? liveLine(terminal) : null
  let shownAtMs = Number.NEGATIVE_INFINITY
  return {
    show({ scanned, orphans }: { readonly scanned: number; readonly orphans: number }): void {
      const nowMs = performance.now()
      if (nowMs - shownAtMs < SHOW_EVERY_MS) return
      shownAtMs = nowMs
      line?.show(`${scanned} rows, ${orphans} without a mapping`)
    },
    clear: () => line?.clear(),
  }
}
