/**
 * Finds webhooks and sync items by what their payloads hold. No index helps, so the search is bounded: a window of hours, rows, seconds.
 * Rule: docs/behaviour/explain.md, "Payloads".
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { and, gte, lt, sql } from 'drizzle-orm'
import type { IntegrationSelection } from '../db/integrations-of.ts'
import { belongsToThem, fewIntegrations, firstIdSince } from '../db/integrations-of.ts'
import { newestOfEach, ofFew } from '../db/newest-of-each.ts'
import type { Tables } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import type { Json } from '../framework/json.ts'
import { thrownTexts } from '../framework/thrown.ts'
import { holdsWithin } from './containment-rules.ts'

export interface PayloadSearch extends IntegrationSelection {
  readonly contains: Json
  readonly kind: 'webhook' | 'item'
  /** Back from now. */
  readonly hours: number
  /** The most that are found. */
  readonly limit: number
}

export interface FoundPayload {
  readonly id: number
  readonly integrationId: number
  /** The event type of a webhook, the event class of an item. */
  readonly type: string | null
  readonly status: string
  readonly createdAt: Date
}

export interface FoundPayloads {
  /** Newest first. */
  readonly data: readonly FoundPayload[]
  /** Payloads that were read. */
  readonly searched: number
  /** Payloads that were too large to be read. */
  readonly tooLarge: number
  readonly since: Date
  /** What ended it before its window did; null: the window was searched whole. */
  readonly cut: 'rows' | 'time' | 'matches' | null
}

/** Rows that are read at once. */
const BATCH = 200
const MAX_ROWS = 20_000
const MAX_SECONDS = 4
/** Of one statement, by Postgres' own clock. */
const STATEMENT_MS = 2_000
const MAX_PAYLOAD_CHARACTERS = 262_144
/** So that no other caller waits for long. */
const TURN_MS = 15

interface Row extends Record<string, unknown> {
  readonly id: string
  readonly integration_id: string
  readonly type: string | null
  readonly status: string
  readonly created_at: string | Date
  readonly payload: string | null
  readonly is_large: boolean
}

export async function searchPayloads(framework: Framework, search: PayloadSearch): Promise<FoundPayloads> {
  const { contains, hours, limit } = search
  const since = new Date(framework.clock.now().getTime() - hours * 3_600_000)
  const deadline = performance.now() + MAX_SECONDS * 1_000
  const data: FoundPayload[] = []
  let searched = 0
  let tooLarge = 0
  let below: number | undefined
  const ended = (cut: FoundPayloads['cut']): FoundPayloads => ({ data, searched, tooLarge, since, cut })
  const within = await bounds(framework, search, since)
  if (within === null) return ended(null)
  for (;;) {
    const rows = await batch(framework, search, within, below)
    if (rows === null) return ended('time')
    let turn = performance.now()
    for (const row of rows) {
      const createdAt = new Date(row.created_at)
      if (row.is_large) tooLarge += 1
      else searched += 1
      if (row.payload !== null && isFound(row.payload, contains)) {
        if (data.length === limit) return ended('matches')
        const { type, status } = row
        data.push({ id: Number(row.id), integrationId: Number(row.integration_id), type, status, createdAt })
      }
      if (performance.now() - turn > TURN_MS) {
        await nextTurn()
        turn = performance.now()
      }
    }
    if (rows.length < BATCH) return ended(null)
    if (searched + tooLarge >= MAX_ROWS) return ended('rows')
    if (performance.now() > deadline) return ended('time')
    below = Number(rows.at(-1)?.id)
  }
}

/** A body that is no JSON holds nothing. */
function isFound(payload: string, contains: Json): boolean {
  try {
    return holdsWithin(JSON.parse(payload), contains)
  } catch {
    return false
  }
}

/** Where the window's rows are. */
interface Bounds {
  readonly since: Date
  /** Ids of the integrations; null: many, or all. */
  readonly few: readonly number[] | null
  /** No row of the window has an id below it. */
  readonly from: number
}

/** Null: the window has no rows. */
async function bounds({ db, tables }: Framework, search: PayloadSearch, since: Date): Promise<Bounds | null> {
  const few = await fewIntegrations(db, tables, search)
  if (few !== null) return { since, few, from: 1 }
  const from = await firstIdSince(db, tables, tableOf(tables, search), since)
  return from === null ? null : { since, few, from }
}

function tableOf({ webhooks, syncItems }: Tables, { kind }: PayloadSearch) {
  return kind === 'webhook' ? webhooks : syncItems
}

/** Newest first. Null: Postgres has taken too long. */
async function batch(
  { db, tables }: Framework,
  search: PayloadSearch,
  { since, few, from }: Bounds,
  below: number | undefined,
): Promise<readonly Row[] | null> {
  const { kind } = search
  const table = tableOf(tables, search)
  const type = kind === 'webhook' ? tables.webhooks.eventType : tables.syncItems.eventClass
  const text = kind === 'webhook' ? sql`t.payload` : sql`(t.payload -> 'data')::text`
  const isWithin = sql`${table.createdAt} >= ${since.toISOString()}::timestamptz`
  const ofAll = and(
    isWithin,
    gte(table.id, from),
    belongsToThem(tables, sql`${table.integrationId}`, search),
    below === undefined ? undefined : lt(table.id, below),
  )
  const picked =
    few === null
      ? sql`select ${table.id} from ${table} where ${ofAll} order by ${table.id} desc limit ${BATCH}`
      : newestOfEach(table, ofFew(few, table.integrationId, isWithin), 'time', { below, limit: BATCH })
  try {
    return await db.transaction(async (tx) => {
      await tx.execute(sql`select set_config('statement_timeout', ${String(STATEMENT_MS)}, true)`)
      return tx.execute<Row>(sql`
        select t.id, t.integration_id, t.${sql.identifier(type.name)} as type, t.status, t.created_at,
          length(${text}) > ${MAX_PAYLOAD_CHARACTERS} as is_large,
          case when length(${text}) <= ${MAX_PAYLOAD_CHARACTERS} then ${text} end as payload
        from ${table} t where t.id in (${picked})
        order by ${sql.raw(few === null ? 't.id desc' : 't.created_at desc, t.id desc')}`)
    })
  } catch (error) {
    if (thrownTexts(error).code === QUERY_CANCELED) return null
    throw error
  }
}

const QUERY_CANCELED = '57014' // https://www.postgresql.org/docs/current/errcodes-appendix.html
