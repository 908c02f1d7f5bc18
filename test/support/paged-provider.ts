/** A provider whose listing is one of `paginate()`'s kinds, as its integration's metadata says. */
import { z } from 'zod'
import type { HasScheduledSync, Integration, Paging, SyncSession } from '../../src/provider.ts'
import {
  byKeyset,
  byTimeWindows,
  nextByCursor,
  nextByLink,
  nextByOffset,
  nextByPage,
  paginate,
  RateLimit,
  reduceCheckpointsByMax,
  requestWithLink,
  SyncItemEvent,
} from '../../src/provider.ts'
import type { Kind, Row } from './hostile-lists.ts'
import { LIMIT } from './hostile-lists.ts'

const Listed = z.object({ id: z.number(), updated_at: z.string() })
const Answer = z.object({
  rows: z.array(Listed),
  pages: z.number(),
  more: z.boolean(),
  meta: z.object({ next: z.string().nullable() }),
})

class RowSynced extends SyncItemEvent<Row> {
  static override readonly type = 'paged.row'
  static override readonly schema = Listed
}

export interface PagedMetadata {
  /** Several: one list after the other. */
  readonly kinds: readonly Kind[]
  readonly url: string
  /** ISO 8601, of the windows. */
  readonly from?: string
  readonly to?: string
  readonly maxPages?: number
  /** How a list by page number says its end. Default: by an empty page. */
  readonly endsBy?: 'more' | 'pages' | 'size'
  readonly walks?: number
}

/** Of each kind a few lines. */
export const LISTINGS: Readonly<Record<Kind, (session: SyncSession) => Promise<void>>> = {
  cursor: (session) =>
    paginate(session, {
      first: null,
      page: (cursor) => ask(session, 'cursor', { after: cursor ?? 0 }),
      next: nextByCursor('meta.next'),
      items: ({ rows }) => rows,
      ...common(session, 'cursor'),
    }),
  link: (session) =>
    paginate(session, {
      first: `${metadataOf(session).url}/link`,
      page: async (url) => {
        const { data, link } = await requestWithLink(session.integration, Answer, 'link', ({ fetch }) => fetch(url), {
          signal: session.signal,
        })
        return { ...data, link }
      },
      next: nextByLink(),
      items: ({ rows }) => rows,
      ...common(session, 'link'),
    }),
  page: (session) => {
    const { endsBy = 'empty', walks = 5 } = metadataOf(session)
    const ends: Record<string, Paging<number, z.infer<typeof Answer>, Row>> = {
      empty: nextByPage({ walks }),
      more: nextByPage({ walks, more: 'more' }),
      pages: nextByPage({ walks, pages: 'pages' }),
      size: nextByPage({ walks, size: LIMIT }),
    }
    return paginate(session, {
      first: 1,
      page: (page) => ask(session, 'page', { page }),
      next: ends[endsBy] as (typeof ends)[string],
      items: ({ rows }) => rows,
      ...common(session, 'page'),
    })
  },
  offset: (session) =>
    paginate(session, {
      first: 0,
      page: (offset) => ask(session, 'offset', { offset }),
      next: nextByOffset({ overlap: 2 }),
      items: ({ rows }) => rows,
      ...common(session, 'offset'),
    }),
  ids: (session) =>
    paginate(session, {
      first: null,
      page: (after) => ask(session, 'ids', { after: after ?? 0 }),
      next: byKeyset('id'),
      items: ({ rows }) => rows,
      ...common(session, 'ids'),
    }),
  times: (session) =>
    paginate(session, {
      first: null,
      page: (from) => ask(session, 'times', { from: from === null ? 0 : Date.parse(String(from)) }),
      next: byKeyset('updated_at', { limit: LIMIT }),
      items: ({ rows }) => rows,
      ...common(session, 'times'),
    }),
  windows: (session) => {
    const { from = '1970-01-01T00:00:00Z', to = '2040-01-01T00:00:00Z' } = metadataOf(session)
    return paginate(session, {
      first: { from: new Date(from), to: new Date(to) },
      page: (window) => ask(session, 'windows', { from: window.from.getTime(), to: window.to.getTime() }),
      next: byTimeWindows({ limit: LIMIT }),
      items: ({ rows }) => rows,
      ...common(session, 'windows'),
    })
  },
}

export class PagedProvider implements HasScheduledSync {
  readonly reduceCheckpoints = reduceCheckpointsByMax
  readonly syncItemEvents = () => [RowSynced]
  readonly defaultRateLimit = () => RateLimit.per(100_000, 1)

  async sync(_integration: Integration, session: SyncSession): Promise<void> {
    for (const kind of metadataOf(session).kinds) await LISTINGS[kind](session)
  }
}

function metadataOf({ integration }: SyncSession): PagedMetadata {
  return integration.metadata as unknown as PagedMetadata
}

function common(session: SyncSession, name: Kind) {
  const { maxPages } = metadataOf(session)
  return {
    name,
    event: (row: Row) => new RowSynced(session.integration, row),
    checkpoint: (row: Row) => row.updated_at,
    externalId: (row: Row) => row.id,
    ...(maxPages !== undefined && { maxPages }),
  }
}

function ask(
  session: SyncSession,
  kind: Kind,
  query: Record<string, string | number>,
): Promise<z.infer<typeof Answer>> {
  const { integration, signal } = session
  const { url } = metadataOf(session)
  const asked = new URL(`${url}/${kind}`)
  for (const [name, value] of Object.entries(query)) asked.searchParams.set(name, String(value))
  return integration.requestAs(Answer, kind, 'GET', ({ fetch }) => fetch(asked), { signal, data: query })
}
