import type { Command } from 'commander'
import type { Integrations } from '../create-integrations.ts'
import { integrationId, limit } from './cli/arguments.ts'
import { Interrupted } from './cli/failure.ts'
import type { CommandContext, Frame, Outcome } from './cli/frame.ts'
import { liveLine } from './cli/progress-line.ts'
import { table } from './cli/table.ts'

const DEFAULT_LIMIT = 50
/** Often enough for an eye; a chunk takes some milliseconds. */
const SHOW_EVERY_MS = 100

interface Options {
  readonly integration?: number
  readonly limit: number
}

/** `integrations find-orphans <model>`: rows of a mapped model that have lost their mapping. */
export function findOrphansCommand(frame: Frame): Command {
  return frame
    .command('find-orphans', 'Reports rows of a mapped model that have lost their mapping; changes nothing.', [
      'integrations find-orphans contact',
      'integrations find-orphans contact --integration 7 --limit 500 --json',
    ])
    .argument('<model>', 'name of the model, as in `models` of the host')
    .option('--integration <id>', "count only this integration's mappings", integrationId)
    .option('--limit <n>', 'name at most so many; all are counted', limit, DEFAULT_LIMIT)
    .action(frame.action(findOrphans, { stopsItself: true }))
}

async function findOrphans(
  context: CommandContext,
  model: string,
  { integration, limit }: Options,
  ..._words: unknown[]
): Promise<Outcome> {
  const { integrations, signal, warn } = context
  const progress = progressOf(context)
  let found: Found
  try {
    found = await integrations.admin.findOrphans(
      { model, limit, ...(integration === undefined ? {} : { integrationId: integration }) },
      { signal, onProgress: progress.show },
    )
  } catch (error) {
    // Half a search says nothing.
    if (signal.aborted) throw new Interrupted()
    throw error
  } finally {
    progress.clear()
  }
  if (found.orphans > found.rows.length) warn(`There are more than ${limit}; --limit shows more.`)
  return { document: documentOf(found), text: textOf(found) }
}

/** One line that changes while somebody looks; for nobody nothing. */
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

type Found = Awaited<ReturnType<Integrations['admin']['findOrphans']>>

function documentOf({ model, scanned, orphans, rows }: Found) {
  return { model, scanned, orphans, rows: rows.map(({ id, createdAt }) => ({ id, created_at: createdAt })) }
}

function textOf({ scanned, orphans, rows }: Found): string {
  const count = `${orphans} of ${scanned} rows without a mapping.`
  if (rows.length === 0) return count
  return `${table(
    ['ID', 'Created'],
    rows.map(({ id, createdAt }) => [id, createdAt]),
  )}\n${count}`
}
