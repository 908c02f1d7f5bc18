/** What people have done, as one list over all integrations. Rule: docs/behaviour/audit.md. */

import { and, desc, eq, gte, lt, sql } from 'drizzle-orm'
import type { Database, Transaction } from '../db/client.ts'
import { bigints } from '../db/integrations-of.ts'
import { jsonText } from '../db/schema/columns.ts'
import type { Tables } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import type { Page } from '../framework/list-filter.ts'
import { checkIds, checkPeriod, checkTexts, newestFirst } from '../framework/list-filter.ts'
import { errorLine } from '../framework/logger.ts'
import { checkOwnerFilter } from '../integrations/rules.ts'

/** A change that a person has made. */
export interface AuditedAct {
  /** A token's name; of a command `cli:<user>`. */
  readonly by: string
  readonly action: string
  /** Such as `integration:7`. */
  readonly target: string
  /** IP address, the host of a command, or a workflow's id; left out: not known. */
  readonly from?: string | undefined
  /** One line that says more. No secrets. */
  readonly detail?: string | undefined
}

/** The integration of an act, as it was at the time: it may have been deleted since. */
export interface AuditedIntegration {
  readonly id: number
  /** These four are null for one that was gone when the act was written down. */
  readonly name: string | null
  readonly provider: string | null
  readonly ownerType: string | null
  readonly ownerId: number | null
}

export interface AuditEntry {
  readonly id: number
  readonly at: Date
  readonly by: string
  readonly action: string
  readonly target: string
  readonly from: string | null
  readonly detail: string | null
  /** Null: an act on no integration. */
  readonly integration: AuditedIntegration | null
}

/** Selects entries; all that is given must hold. */
export interface AuditFilter {
  readonly by?: string | undefined
  readonly action?: string | undefined
  readonly target?: string | undefined
  readonly integrationId?: number | undefined
  readonly provider?: string | undefined
  readonly owner?: { readonly type: string; readonly id: number } | undefined
  /** At this moment or after it. */
  readonly since?: Date | undefined
  /** Before this moment. */
  readonly until?: Date | undefined
}

export interface ListAudit extends AuditFilter {
  /** Older than the one of this id. */
  readonly after?: number | undefined
  /** The most that are listed, at least 1. */
  readonly limit?: number | undefined
}

/** Newest first. @throws InvalidArgumentException at once, before anything is read */
export function listAudit(framework: Framework, given: ListAudit = {}): AsyncIterable<AuditEntry> {
  const { after, limit, ...filter } = given
  const { by, action, target, integrationId, provider, owner, since, until } = filter
  checkIds({ integrationId, after, limit })
  checkTexts({ by, action, target, provider })
  checkOwnerFilter(owner)
  checkPeriod(since, until)
  const { db, tables } = framework
  return newestFirst((page) => pageOfAudit(db, tables, filter, page), { after, limit })
}

async function pageOfAudit(
  db: Database,
  { audit }: Tables,
  { by, action, target, integrationId, provider, owner, since, until }: AuditFilter,
  { below, limit }: Page,
): Promise<AuditEntry[]> {
  const rows = await db
    .select()
    .from(audit)
    .where(
      and(
        by === undefined ? undefined : eq(audit.by, by),
        action === undefined ? undefined : eq(audit.action, action),
        target === undefined ? undefined : eq(audit.target, target),
        integrationId === undefined ? undefined : eq(audit.integrationId, integrationId),
        provider === undefined ? undefined : eq(audit.provider, provider),
        owner === undefined ? undefined : eq(audit.ownerType, owner.type),
        owner === undefined ? undefined : eq(audit.ownerId, owner.id),
        since === undefined ? undefined : gte(audit.createdAt, since),
        until === undefined ? undefined : lt(audit.createdAt, until),
        below === undefined ? undefined : lt(audit.id, below),
      ),
    )
    .orderBy(desc(audit.id))
    .limit(limit)
  return rows.map(({ integrationId: id, integrationName: name, ...row }) => ({
    id: row.id,
    at: row.createdAt,
    by: row.by,
    action: row.action,
    target: row.target,
    from: row.from,
    detail: row.detail,
    integration:
      id === null ? null : { id, name, provider: row.provider, ownerType: row.ownerType, ownerId: row.ownerId },
  }))
}

/**
 * The last act of a kind on each of these integrations, by its id.
 *
 * @param kind its first word
 * @param leftOut end of those of the kind that are about something else
 */
export async function lastActs(
  db: Database,
  { audit }: Tables,
  integrationIds: readonly number[],
  { kind, leftOut }: { readonly kind: string; readonly leftOut: string },
): Promise<Map<number, Pick<AuditEntry, 'at' | 'by' | 'action'>>> {
  if (integrationIds.length === 0) return new Map()
  const last = db
    .select({ at: audit.createdAt, by: audit.by, action: audit.action })
    .from(audit)
    .where(
      and(
        sql`${audit.integrationId} = of.id`,
        sql`starts_with(${audit.action}, ${`${kind} `})`,
        sql`right(${audit.action}, ${leftOut.length}) <> ${leftOut}`,
      ),
    )
    .orderBy(desc(audit.id))
    .limit(1)
    .as('last')
  const rows = await db
    .select({ id: sql<number>`of.id`.mapWith(Number), at: last.at, by: last.by, action: last.action })
    .from(sql`unnest(${bigints(integrationIds)}) of (id)`)
    .crossJoinLateral(last)
  return new Map(rows.map(({ id, ...act }) => [id, act]))
}

/** Of a column; a longer text is cut, since no act fails for its record. */
const MAX_TEXT = 255
const MAX_DETAIL = 500

/** An act, and the integration that it was done to; null: none. */
type ActOn = AuditedAct & { readonly integrationId: number | null }

/** Writes an act down. @param integrationId null: on none */
export async function recordAct(
  db: Database | Transaction,
  tables: Tables,
  integrationId: number | null,
  act: AuditedAct,
): Promise<void> {
  await recordActs(db, tables, [{ ...act, integrationId }])
}

/** Writes acts down in this order: one statement, however many there are. */
async function recordActs(
  db: Database | Transaction,
  { audit, integrations }: Tables,
  acts: readonly ActOn[],
): Promise<void> {
  if (acts.length === 0) return
  const cut = (text: string | undefined, length = MAX_TEXT) => text?.replaceAll('\u0000', '').slice(0, length)
  const given = acts.map(({ by, action, target, from, detail, integrationId: id }) => ({
    ...{ id, actor: cut(by), action: cut(action), target: cut(target), origin: cut(from) },
    detail: cut(detail, MAX_DETAIL),
  }))
  await db.execute(sql`
    insert into ${audit} (actor, action, target, origin, detail, integration_id, integration_name, provider, owner_type, owner_id)
    select given.actor, given.action, given.target, given.origin, given.detail, given.id, i.name, i.provider, i.owner_type, i.owner_id
    from rows from (jsonb_to_recordset(${jsonText(given)}::jsonb)
      as (id bigint, actor text, action text, target text, origin text, detail text)
    ) with ordinality as given (id, actor, action, target, origin, detail, position)
    left join ${integrations} i on i.id = given.id order by given.position`)
}

/** The same for acts that are done. Never throws: a failing record is no failure of the act, and is a line of the log instead. */
export async function noteActs(
  { db, tables, logger }: Pick<Framework, 'db' | 'tables' | 'logger'>,
  acts: readonly ActOn[],
): Promise<void> {
  try {
    await recordActs(db, tables, acts)
  } catch (error) {
    for (const act of acts)
      logger.error(
        { ...act, event: 'operator.change_not_recorded', error: errorLine(error, 500) },
        "An operator's act could not be written into the audit.",
      )
  }
}
