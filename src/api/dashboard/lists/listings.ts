/** The lists of the dashboard, each of an operation of the API. */
import { html } from 'hono/html'
import type { z } from 'zod'
import type { TokenRow } from '../../../commands/shapes.ts'
import { buttons } from '../acts/acts.ts'
import { badge, time } from '../frame/markup.ts'
import { standingColumns } from '../records/integration-standing.ts'
import type { ListingPage } from './listing-page.ts'
import type { Row } from './row-columns.ts'
import { ROW_COLUMNS } from './row-columns.ts'

type Token = z.infer<typeof TokenRow>

// biome-ignore lint/suspicious/noExplicitAny: lists of rows of any kind; each is typed where it is made.
export const LISTINGS: readonly ListingPage<any>[] = [
  {
    section: 'integrations',
    title: 'Integrations',
    operation: 'get /integrations',
    words: { traffic: 'false' },
    columns: (reader, integrations, rows) => standingColumns(integrations, reader, rows),
    acts: [{ operation: 'post /integrations', label: 'Make one' }],
  },
  rows('webhooks', 'Webhooks', [
    { operation: 'post /webhooks/replay', label: 'Replay all of these' },
    { operation: 'post /webhooks/dismiss', label: 'Dismiss all of these' },
  ]),
  rows('sync-runs', 'Sync runs'),
  rows('sync-items', 'Sync items'),
  rows('requests', 'Requests'),
  rows('incidents', 'Incidents'),
  rows('events', 'Events'),
  rows('logs', 'Operations'),
  rows('mappings', 'Mappings'),
  rows('idempotency-keys', 'Idempotency keys'),
  rows('audit', 'Audit'),
  {
    section: 'tokens',
    title: 'Tokens',
    operation: 'get /tokens',
    acts: [{ operation: 'post /tokens', label: 'Make a token' }],
    columns: (reader) => [
      { head: 'Name', cell: ({ name }: Token) => name },
      { head: 'State', cell: ({ state }: Token) => badge(state) },
      { head: 'Scope', cell: ({ scope }: Token) => scope },
      {
        head: 'Limited to',
        cell: ({ provider, owner }: Token) =>
          [provider, owner === null ? null : `${owner.type}:${owner.id}`].filter((each) => each !== null).join(', '),
      },
      { head: 'Made by', cell: (row: Token) => row.created_by },
      { head: 'Made', cell: (row: Token) => time(row.created_at) },
      { head: 'Last used', cell: (row: Token) => time(row.last_used_at) },
      { head: 'Expires', cell: (row: Token) => time(row.expires_at) },
      {
        head: 'Acts',
        cell: ({ id, state, name }: Token) =>
          state === 'good'
            ? buttons(reader, [{ operation: 'delete /tokens/:id', label: `Revoke ${name}`, words: { id: String(id) } }])
            : html``,
      },
    ],
  },
]

function rows(section: keyof typeof ROW_COLUMNS, title: string, acts: ListingPage<Row>['acts'] = []): ListingPage<Row> {
  return { section, title, operation: `get /${section}`, columns: ({ root }) => ROW_COLUMNS[section](root), acts }
}
