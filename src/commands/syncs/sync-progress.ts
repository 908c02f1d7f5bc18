import { z } from 'zod'
import { failureText } from '../cli/progress-line.ts'
import type { RunDocument } from '../cli/sync-run.ts'
import { endText } from '../cli/sync-run.ts'
import { watchSync } from '../cli/watch-sync.ts'
import type { CommandContext } from '../command.ts'
import { columns, command, fieldLines, route } from '../command.ts'
import { flag, forTerminals, id } from '../fields.ts'
import { all, moment, rowId, SyncRunRow } from '../shapes.ts'

const count = z.int().min(0)
const Progress = z.object({
  integration_id: rowId,
  /** Null: no run lives. */
  progress: z
    .object({
      phase: z.enum(['held', 'opening', 'listing', 'processing', 'finalising', 'done']),
      is_paused: z.boolean(),
      sync_log_id: rowId.nullable(),
      listed: count.nullable(),
      ...all(count, 'succeeded', 'failed', 'waiting'),
      ...all(moment.nullable(), 'next_attempt_at', 'intake_from'),
      last_failure: z.object({ item_id: rowId, attempt: count, error: z.string() }).nullable(),
      ...all(z.number().nullable(), 'per_second', 'seconds_left'),
      started_at: moment,
    })
    .nullable(),
})

export const syncProgress = command({
  name: 'sync-progress',
  topic: 'Syncs',
  summary: 'Shows how far the sync run of an integration is.',
  examples: ['integrations sync-progress 7', 'integrations sync-progress 7 --watch'],
  places: ['id'],
  fields: { id: id('of the integration'), watch: forTerminals(flag('go on until the run ends')) },
  reach: 'integration',
  output: z.union([Progress, z.object({ integration_id: rowId, run: SyncRunRow.nullable() })]),
  routes: [
    route({
      method: 'get',
      path: '/integrations/:id/sync',
      fields: { id: id('of the integration') },
      output: Progress,
      run: look,
    }),
  ],
  async run(context, { id, watch }): Promise<Seen> {
    // Whether Temporal and the run's worker answer at all: from here on an outage is sat out.
    const { progress } = await look(context, { id })
    if (!watch) return { integration_id: id, progress }
    const run = progress === null ? null : await watchSync(context, id, { after: null })
    return { integration_id: id, run, wasSeen: progress !== null }
  },
  document: ({ wasSeen: _, ...document }) => document,
  show({ progress, run, wasSeen }) {
    if (run) return endText(run)
    if (wasSeen) return 'It has ended, and had opened no run.'
    if (!progress) return 'No run lives.'
    const { last_failure: last } = progress
    return fieldLines({ ...progress, last_failure: last && failureText({ ...last, itemId: last.item_id }) })
  },
  hasFailed: ({ run }) => (run ?? null) !== null && run?.status !== 'success',
})

/** One look at it, or what it came to. */
interface Seen {
  readonly integration_id: number
  readonly progress?: Awaited<ReturnType<typeof look>>['progress']
  /** Null: none was opened, or none lived. */
  readonly run?: RunDocument | null
  readonly wasSeen?: boolean
}

async function look({ integrations }: CommandContext, { id }: { readonly id: number }) {
  const progress = await integrations.syncs.progress(id)
  if (progress === null) return { integration_id: id, progress }
  const { lastFailure } = progress
  return {
    integration_id: id,
    progress: { ...columns(progress), last_failure: lastFailure && columns(lastFailure) },
  }
}
