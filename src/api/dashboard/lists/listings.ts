/** The lists of the dashboard, each of an operation of the API. */
import { html } from 'hono/html'
import type { z } from 'zod'
import type { TokenRow } from '../../../commands/shapes.ts'
import { buttons } from '../acts/acts.ts'
import type { ServedPage } from '../frame/frame.ts'
import { badge, time } from '../frame/markup.ts'
import type { Standing } from '../records/integration-standing.ts'
import { standingColumns } from '../records/integration-standing.ts'
import type { ListingPage } from './listing-page.ts'
import { listing } from './listing-page.ts'
import type { Row } from './row-columns.ts'
import { ROW_COLUMNS } from './row-columns.ts'

type Token = z.infer<typeof TokenRow>

export const LISTINGS: readonly ServedPage[] = [
  listing<Standing>({
    section: 'integrations',
    operation: 'get /integrations',
    words: { traffic: 'false' },
    columns: (reader, integrations, rows) => standingColumns(integrations, reader, rows),
    acts: [{ operation: 'post /integrations', label: 'Make one' }],
  }),
  rows('webhooks', [
    { operation: 'post /webhooks/replay', label: 'Replay all of these' },
    { operation: 'post /webhooks/dismiss', label: 'Dismiss all of these' },
  ]),
  rows('sync-runs'),
  rows('sync-items'),
  rows('requests'),
  rows('incidents'),
  rows('events'),
  rows('logs'),
  rows('mappings'),
  rows('idempotency-keys'),
  rows('audit'),
  listing<Token>({
    section: 'tokens',
    operation: 'get /tokens',
    acts: [{ operation: 'post /tokens', label: 'Make a token' }],
    columns: (reader) => [
      { head: 'Name', cell: ({ name }) => name },
      { head: 'State', cell: ({ state }) => badge(state) },
      { head: 'Scope', cell: ({ scope }) => scope },
      {
        head: 'Limited to',
        cell: ({ provider, owner }) =>
          [provider, owner === null ? null : `${owner.type}:${owner.id}`].filter((each) => each !== null).join(', '),
      },
      { head: 'Made by', cell: (row) => row.created_by },
      { head: 'Made', cell: (row) => time(row.created_at) },
      { head: 'Last used', cell: (row) => time(row.last_used_at) },
      { head: 'Expires', cell: (row) => time(row.expires_at) },
      {
        head: 'Acts',
        cell: ({ id, state, name }) =>
          state === 'good'
            ? buttons(reader, [{ operation: 'delete /tokens/:id', label: `Revoke ${name}`, words: { id: String(id) } }])
            : html``,
      },
    ],
  }),
]

function rows(section: keyof typeof ROW_COLUMNS, acts: ListingPage<Row>['acts'] = []): ServedPage {
  return listing({
    section,
    operation: `get /${section}`,
    columns: ({ root }) => ROW_COLUMNS[section](root),
    acts,
  })
}
