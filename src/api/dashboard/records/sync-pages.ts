/** The pages of a sync run and of a sync item. */
import { html } from 'hono/html'
import type { z } from 'zod'
import type { SyncItemRow, SyncRun } from '../../../commands/shapes.ts'
import type { syncProgress } from '../../../commands/syncs/sync-progress.ts'
import type { Json } from '../../../framework/json.ts'
import { backfillWindow } from '../../../syncs/run-rules.ts'
import { ask } from '../acts/operation-door.ts'
import type { Markup } from '../frame/markup.ts'
import { badge, facts, json, NOTHING, tableOf, time } from '../frame/markup.ts'
import { problemOf, problemPanel } from '../frame/problem-page.ts'
import type { Asking, Detail } from './detail-page.ts'
import { part } from './detail-page.ts'
import { rowLink } from './record-links.ts'

type Run = z.infer<typeof SyncRun>
type Item = z.infer<typeof SyncItemRow> & { readonly payload: unknown; readonly checkpoint_value: unknown }

type Progress = NonNullable<Awaited<ReturnType<typeof syncProgress.run>>['progress']>

/** Temporal's own ids of executions; a run that was begun in a test or by hand has another. */
const RUN_ID = /^[0-9a-f]{8}-[0-9a-f-]{27}$/

const PAUSE = ['pause', 'Pause'] as const
const RESUME = ['resume', 'Resume'] as const
const CANCEL = ['cancel', 'Cancel'] as const
/** By what is known of the workflow of a run under way. */
const SYNC_ACTS = {
  running: [PAUSE, CANCEL],
  paused: [RESUME, CANCEL],
  gone: [],
  unknown: [PAUSE, RESUME, CANCEL],
} as const

export async function runDetail(asking: Asking): Promise<Detail> {
  const { integrations, context, reader, id } = asking
  const { root } = reader
  const run = await ask<Run>(integrations, context, 'get /sync-runs/:id', { id: String(id) })
  const { integration_id: of, stream, status, operation } = run
  const isUnderWay = status === 'processing'
  const metadata = fieldsOf(run.metadata)
  const words = { id: String(of), ...(stream === null ? {} : { stream }) }
  const runId = typeof metadata.run_id === 'string' && RUN_ID.test(metadata.run_id) ? metadata.run_id : null
  const window = backfillWindow(run.metadata)
  const seen = isUnderWay && operation === 'sync' ? await progressOf(asking, words) : null
  const ended = isUnderWay ? null : stateOfEnded(run)
  return {
    title: `${operation === 'backfill' ? 'Backfill' : 'Sync run'} ${id}`,
    reference: `run:${id}`,
    isLive: isUnderWay,
    acts: [
      ...(seen === null
        ? []
        : SYNC_ACTS[seen.workflow].map(([verb, label]) => ({
            operation: `post /integrations/:id/${verb}`,
            label,
            words,
          }))),
      // A workflow that lives finalises its run itself.
      ...(isUnderWay && (seen === null || seen.workflow === 'gone' || seen.workflow === 'unknown')
        ? [{ operation: 'post /sync-runs/:id/finalise', label: 'Finalise', words: { id: String(id) } }]
        : []),
      ...(metadata.missing_withheld === undefined
        ? []
        : [
            {
              operation: 'post /sync-runs/:id/confirm-missing',
              label: 'Confirm missing',
              words: { id: String(id) },
            },
          ]),
    ],
    links: {
      'Temporal UI': integrations.admin.links.workflow(
        { kind: operation === 'backfill' ? 'backfill' : 'run', integrationId: of, stream },
        runId,
      ),
    },
    facts: {
      Status: badge(status),
      Integration: rowLink(root, 'integrations', of, run.integration_name),
      Stream: stream ?? undefined,
      'Lists again': window === null ? undefined : html`${time(new Date(window.from))} to ${time(new Date(window.to))}`,
      Error: run.error ?? errorOfItems(run),
      Begun: time(run.created_at),
      Ended: isUnderWay ? undefined : time(run.updated_at),
      Took: run.duration_ms === null ? undefined : `${(run.duration_ms / 1_000).toFixed(1)} s`,
      Listed: run.listed ?? 'not complete',
      // They are counted at its end, if its listing was complete; until then the progress has them.
      Succeeded: run.succeeded ?? undefined,
      Failed: run.failed ?? undefined,
      Skipped: run.skipped ?? undefined,
      Waiting: run.waiting === 0 ? undefined : html`${run.waiting}, the next at ${time(run.next_attempt_at)}`,
      // A backfill covers what lies behind the cursor.
      'Cursor before': operation === 'backfill' ? undefined : json(run.cursor_before ?? null, 'Cursor before'),
      'Cursor after': operation === 'backfill' || isUnderWay ? undefined : cursorAfter(run),
    },
    parts: [
      seen?.shown ?? NOTHING,
      part(
        'Items',
        html`<ul class="refs">${Object.entries(run.items).map(([word, count]) =>
          word === 'processing'
            ? html`<li><a href="${root}/sync-items?run=${id}&amp;status=processing&amp;waiting=false">${count - run.waiting} processing</a></li><li><a href="${root}/sync-items?run=${id}&amp;waiting=true">${run.waiting} waiting</a></li>`
            : html`<li><a href="${root}/sync-items?run=${id}&amp;status=${word}">${count} ${word}</a></li>`,
        )}</ul>
${tableOf({
  caption: 'Errors of its failed and waiting items, the most frequent first',
  columns: [
    { head: 'Error', cell: ({ error }) => error },
    { head: 'Items', isNumber: true, cell: ({ items }) => items },
  ],
  rows: run.errors,
  none: 'It has no failed or waiting items now.',
})}`,
      ),
      metadata.bookmark === undefined
        ? NOTHING
        : part(
            'Bookmark',
            html`<p class="quiet">${isUnderWay ? 'How far the listing is. After a lost worker it goes on from here.' : 'How far the listing got.'}</p>${json(metadata.bookmark, 'Bookmark')}`,
          ),
      part('Metadata', json(run.metadata ?? null, 'Metadata')),
    ],
    states: [
      {
        chart: 'run',
        current: seen?.phase ?? ended,
        outcome: isUnderWay ? undefined : status,
        reached: [['opening', run.created_at], ...(ended === null ? [] : [[ended, run.updated_at] as const])],
      },
    ],
  }
}

/** A run whose items failed has no error of its own. */
function errorOfItems({ failed, items }: Run): Markup | undefined {
  const count = failed ?? items.failed ?? 0
  return count === 0 ? undefined : html`<a href="#items">${count} of its items failed</a>`
}

/** A run that failed, or was cancelled, leaves the cursor where it was. */
function cursorAfter({ cursor_before: before, cursor_after: after }: Run): Markup {
  const isMoved = after !== null && after !== undefined && JSON.stringify(after) !== JSON.stringify(before ?? null)
  return isMoved ? json(after, 'Cursor after') : html`the same`
}

/** `success`, `partial` and `failed` with finalised items are all `done`. */
function stateOfEnded({ status, listed, metadata }: Run): string {
  if (status === 'cancelled') return 'cancelled'
  return status === 'failed' && listed === null && fieldsOf(metadata).enumerated !== true ? 'failed' : 'done'
}

const fieldsOf = (metadata: unknown): Readonly<Record<string, unknown>> =>
  typeof metadata === 'object' && metadata !== null ? (metadata as Record<string, unknown>) : {}

/** A worker answers for it: where none does, the page says so and shows the rest. */
async function progressOf({ integrations, context, reader, id }: Asking, words: Readonly<Record<string, string>>) {
  try {
    const { progress } = await ask<{ progress: Progress | null }>(
      integrations,
      context,
      'get /integrations/:id/sync',
      words,
    )
    if (progress === null || (progress.sync_log_id !== null && progress.sync_log_id !== id))
      return {
        phase: null,
        workflow: 'gone' as const,
        shown: part('Progress', html`<p>Its workflow is gone. The next run takes up what is left.</p>`),
      }
    return {
      phase: progress.phase,
      workflow: progress.is_paused ? ('paused' as const) : ('running' as const),
      shown: part('Progress', progressBar(reader.root, progress)),
    }
  } catch (error) {
    const problem = await problemOf(integrations, context, error)
    return { phase: null, workflow: 'unknown' as const, shown: part('Progress', problemPanel(problem)) }
  }
}

function progressBar(root: string, seen: Progress): Markup {
  const done = seen.succeeded + seen.failed
  const { last_failure: failure, listing_failure: listing } = seen
  const items = seen.listed === null ? null : seen.listed - seen.unchanged
  return html`<p><progress aria-label="Items done"${items === null ? '' : html` max="${Math.max(items, 1)}" value="${done}"`}></progress> ${done}${items === null ? ' so far' : ` of ${items}`}</p>
${facts({
  Phase: html`${badge(seen.phase)}${seen.is_paused ? html` ${badge('paused')}` : ''}`,
  Unchanged: seen.unchanged === 0 ? undefined : seen.unchanged,
  Succeeded: seen.succeeded,
  Failed: seen.failed,
  Waiting: seen.waiting,
  'Items a second': seen.per_second?.toFixed(1) ?? undefined,
  'Time left': seen.seconds_left === null ? undefined : `${Math.round(seen.seconds_left)} s`,
  'Next attempt': seen.next_attempt_at === null ? undefined : time(seen.next_attempt_at),
  'Waits for the rate limit until': seen.intake_from === null ? undefined : time(seen.intake_from),
  'Listing failed':
    listing === null
      ? undefined
      : html`in call ${listing.attempt} at ${time(listing.failed_at)}: ${listing.error}${listing.next_attempt_at === null ? '' : html`; tried again at ${time(listing.next_attempt_at)}`}`,
  'Last failure':
    failure === null
      ? undefined
      : html`${rowLink(root, 'sync-items', failure.item_id, `item ${failure.item_id}`)} in attempt ${failure.attempt}: ${failure.error}`,
})}`
}

export async function itemDetail({ integrations, context, reader: { root }, id }: Asking): Promise<Detail> {
  const item = await ask<Item>(integrations, context, 'get /sync-items/:id', { id: String(id) })
  const { status, integration_id: of, external_id: externalId, event_class: type } = item
  const isWaiting = item.next_attempt_at !== null
  const words = { id: String(id) }
  const payload = (fieldsOf(item.payload).data ?? null) as Json
  const { links } = integrations.admin
  return {
    title: `Sync item ${id}`,
    reference: `item:${id}`,
    isLive: status === 'pending' || status === 'processing',
    acts: [
      ...(status === 'failed' ? [{ operation: 'post /sync-items/:id/retry', label: 'Retry', words }] : []),
      ...(isWaiting ? [{ operation: 'post /sync-items/:id/retry', label: 'Try now', words }] : []),
      ...(status === 'failed' ? [{ operation: 'post /sync-items/:id/skip', label: 'Skip', words }] : []),
    ],
    links: {
      'Temporal UI': status === 'failed' ? links.workflow({ kind: 'item', id }) : null,
      "Provider's page": await links.page(of, { kind: 'item', type, externalId, payload }),
    },
    facts: {
      Status: badge(isWaiting ? 'waiting' : status),
      Integration: rowLink(root, 'integrations', of, item.integration_name),
      Stream: item.stream ?? undefined,
      Run: rowLink(root, 'sync-runs', item.sync_log_id),
      Event: type,
      'External id': externalId,
      Attempts: item.attempts,
      Error: item.error ?? item.last_error,
      'Holds the cursor': item.holds_cursor ? 'yes' : 'no',
      'Made up for by': rowLink(root, 'sync-items', item.made_up_for_by) ?? undefined,
      Listed: time(item.created_at),
      'Next attempt': isWaiting ? time(item.next_attempt_at) : undefined,
      Completed: time(item.completed_at),
    },
    parts: [
      part(
        'Listed',
        html`<p class="quiet">As its provider listed it; secrets are redacted.</p>${json(item.payload ?? null, 'Payload')}`,
      ),
      part('Checkpoint', json(item.checkpoint_value ?? null, 'Checkpoint')),
    ],
    states: [
      {
        chart: 'item',
        current: isWaiting ? 'waiting' : status,
        reached: [
          ['pending', item.created_at],
          [status, item.completed_at],
        ],
      },
    ],
  }
}
