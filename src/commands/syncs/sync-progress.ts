import { z } from 'zod'
import { failureText, listingFailureText } from '../cli/progress-line.ts'
import type { RunDocument } from '../cli/sync-run.ts'
import { endText } from '../cli/sync-run.ts'
import type { Whose } from '../cli/watch-sync.ts'
import { watchSync } from '../cli/watch-sync.ts'
import type { CommandContext } from '../command.ts'
import { columns, command, fieldLines, route } from '../command.ts'
import { flag, forTerminals, id, stream } from '../fields.ts'
import { all, moment, rowId, SyncRunRow, streamName } from '../shapes.ts'

const count = z.int().min(0)
const Progress = z.object({
  integration_id: rowId,
  stream: streamName,
  /** Null: no run lives. */
  progress: z
    .object({
      phase: z.enum(['held', 'opening', 'listing', 'processing', 'finalising', 'done']),
      is_paused: z.boolean(),
      sync_log_id: rowId.nullable(),
      listed: count.nullable(),
      ...all(count, 'unchanged', 'succeeded', 'failed', 'waiting'),
      ...all(moment.nullable(), 'next_attempt_at', 'intake_from'),
      last_failure: z.object({ item_id: rowId, attempt: count, error: z.string() }).nullable(),
      listing_failure: z
        .object({
          type: z.string().nullable(),
          error: z.string(),
          attempt: count,
          failed_at: moment,
          next_attempt_at: moment.nullable(),
        })
        .nullable()
        .describe('Of the last call of the listing that failed; null: none did, or the listing is complete.'),
      ...all(z.number().nullable(), 'per_second', 'seconds_left'),
      started_at: moment,
    })
    .nullable(),
})

const fields = { id: id('of the integration'), stream: stream() }

/** Where it is seen over HTTP. */
export const progressAt = ({ id, stream }: Whose): string =>
  `/integrations/${id}/sync${stream === undefined ? '' : `?stream=${stream}`}`

/** The same of an act that without a stream is on all: their integration shows each of them. */
export const progressOfAllAt = ({ id, stream }: Whose): string =>
  stream === undefined ? `/integrations/${id}` : progressAt({ id, stream })

export const syncProgress = command({
  name: 'sync-progress',
  topic: 'Syncs',
  summary: 'Shows how far the sync run of an integration is.',
  examples: ['integrations sync-progress 7', 'integrations sync-progress 7 --stream contacts --watch'],
  places: ['id'],
  fields: { ...fields, watch: forTerminals(flag('go on until the run ends')) },
  reach: 'integration',
  output: z.union([Progress, z.object({ integration_id: rowId, stream: streamName, run: SyncRunRow.nullable() })]),
  routes: [
    route({
      method: 'get',
      path: '/integrations/:id/sync',
      fields,
      output: Progress,
      run: look,
    }),
  ],
  async run(context, { watch, ...whose }): Promise<Seen> {
    // Whether Temporal and the run's worker answer at all: from here on an outage is sat out.
    const { progress, ...of } = await look(context, whose)
    if (!watch) return { ...of, progress }
    const run = progress === null ? null : await watchSync(context, whose, { after: null })
    return { ...of, run, wasSeen: progress !== null }
  },
  document: ({ wasSeen: _, ...document }) => document,
  show({ progress, run, wasSeen }) {
    if (run) return endText(run)
    if (wasSeen) return 'It has ended, and had opened no run.'
    if (!progress) return 'No run lives.'
    const { last_failure: last, listing_failure: listing, intake_from: limitedUntil, ...rest } = progress
    return fieldLines({
      ...(limitedUntil === null ? {} : { 'waits for the rate limit until': limitedUntil }),
      ...rest,
      last_failure: last && failureText({ ...last, itemId: last.item_id }),
      listing_failure:
        listing &&
        `${listingFailureText({ ...listing, nextAttemptAt: listing.next_attempt_at })}, failed at ${listing.failed_at}`,
    })
  },
  hasFailed: ({ run }) => (run ?? null) !== null && run?.status !== 'success',
})

/** One look at it, or what it came to. */
interface Seen {
  readonly integration_id: number
  readonly stream: string | null
  readonly progress?: Awaited<ReturnType<typeof look>>['progress']
  /** Null: none was opened, or none lived. */
  readonly run?: RunDocument | null
  readonly wasSeen?: boolean
}

async function look({ integrations }: CommandContext, { id, stream }: Whose) {
  const of = { integration_id: id, stream: stream ?? null }
  const progress = await integrations.syncs.progress(id, { stream })
  if (progress === null) return { ...of, progress }
  const { lastFailure, listingFailure } = progress
  return {
    ...of,
    progress: {
      ...columns(progress),
      last_failure: lastFailure && columns(lastFailure),
      // A run whose worker is of an earlier release does not say it.
      listing_failure: listingFailure ? columns(listingFailure) : null,
    },
  }
}
