import { runDocument } from '../cli/sync-run.ts'
import { table } from '../cli/table.ts'
import { columns, command } from '../command.ts'
import { id } from '../fields.ts'
import { SyncRun } from '../shapes.ts'

/** A line of a screen; `--json` has the whole. */
const SHOWN_ERROR_LENGTH = 200

export const showSyncRun = command({
  name: 'show-sync-run',
  topic: 'Syncs',
  summary: 'Shows one sync run or backfill, and how many of its items are in each status.',
  examples: ['integrations show-sync-run 4711', 'integrations show-sync-run 4711 --json'],
  places: ['id'],
  fields: { id: id('of the run, as `list-sync-runs` has it') },
  reach: 'sync-run',
  output: SyncRun,
  routes: [{ method: 'get', path: '/sync-runs/:id' }],
  async run({ integrations }, { id }) {
    const run = await integrations.syncs.run(id)
    return { ...columns(run), ...runDocument(run) }
  },
  show({ items, waiting, next_attempt_at: next, errors, metadata, ...fields }) {
    const rows = [
      ...Object.entries(fields),
      // The row of an item that waits says `processing`.
      ...Object.entries(items).map(([status, n]) => [`items ${status}`, status === 'processing' ? n - waiting : n]),
      ['items waiting', waiting],
      ['the next of them', next],
      ...errors.map(({ error, items: n }, at) => [`error ${at + 1}`, `${n} x ${error.slice(0, SHOWN_ERROR_LENGTH)}`]),
      ['metadata', metadata],
    ]
    return table(['Field', 'Value'], rows)
  },
})
