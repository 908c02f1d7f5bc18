/** Failures of items, webhooks and calls, the same ones together, each group with what tries it again. */
import type { Context } from 'hono'
import { html } from 'hono/html'
import type { failures } from '../../../commands/trouble/failures.ts'
import type { Integrations } from '../../../create-integrations.ts'
import { waitingWords } from '../../../failures/failure-rules.ts'
import type { AccessEnvironment } from '../../caller.ts'
import { buttons } from '../acts/acts.ts'
import { ask } from '../acts/operation-door.ts'
import { dashboardPage, readerOf } from '../frame/frame.ts'
import { NOTHING, tableOf, time } from '../frame/markup.ts'
import { filterForm, givenFilter, shared } from '../lists/listing-page.ts'
import { originLink } from '../records/record-links.ts'

type Failures = Awaited<ReturnType<typeof failures.run>>

export async function failuresPage(integrations: Integrations, context: Context<AccessEnvironment>): Promise<Response> {
  const reader = readerOf(integrations, context)
  const given = givenFilter(context)
  const key = 'get /failures'
  const { since, data, truncated, more, waiting } = await ask<Failures>(integrations, context, key, given)
  const retry = 'post /failures/retry'
  const { limit: _, ...filter } = given
  return dashboardPage(integrations, context, {
    title: 'Failures',
    section: 'failures',
    isLive: true,
    main: html`${filterForm(reader.root, 'failures', key, given)}
<p class="quiet">Since ${time(since)}.${truncated ? ' There were more than are looked at: counts are lower bounds.' : ''}${more ? ' There are more groups.' : ''}${waiting === null || waiting.count === 0 ? '' : html` <a href="${reader.root}/sync-items?waiting=true${given.integration === undefined ? '' : `&integration=${given.integration}`}">${waitingWords(waiting)}</a>`}</p>
${tableOf<Failures['data'][number]>({
  caption: 'Failures of the same error, the most recent first. Times are UTC.',
  columns: [
    { head: 'Error', cell: ({ error }) => error },
    { head: 'Kind', cell: ({ kind, failure_class: of }) => (of === null ? kind : `${kind} (${of})`) },
    { head: 'Failures', isNumber: true, cell: ({ count }) => count },
    { head: 'Integrations', isNumber: true, cell: (group) => group.integrations },
    { head: 'First', cell: (group) => time(group.first_seen) },
    { head: 'Last', cell: (group) => time(group.last_seen) },
    { head: 'Example', cell: ({ example: { reference } }) => originLink(reader.root, reference) ?? reference },
    {
      head: 'Acts',
      cell: ({ group, retryable, kind }) =>
        retryable
          ? buttons(reader, [
              {
                operation: retry,
                label: kind === 'webhook' ? 'Replay these' : 'Retry these',
                words: { ...shared(retry, filter), group },
              },
            ])
          : NOTHING,
    },
  ],
  rows: data,
  none: 'Nothing has failed.',
})}`,
  })
}
