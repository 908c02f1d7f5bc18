/** How far an act on many rows is. Rule: docs/dashboard.md, "Acts". */
import { and, between, count, gte, isNotNull, or } from 'drizzle-orm'
import type { Framework } from '../framework/context.ts'
import { InvalidArgumentException } from '../framework/errors.ts'
import { isId } from '../framework/id.ts'

export interface ActOnMany {
  /** `webhook`: replayed ones; `item`: retried ones. */
  readonly kind: 'item' | 'webhook'
  /** The ids, from and to, both inclusive. */
  readonly spans: readonly (readonly [number, number])[]
  /** The beginning of the act: rows of the span that were not touched since are none of it. */
  readonly since: Date
}

/** More would be no page's address. */
export const MAX_SPANS = 400

/** Rows of the act by the status that they have now. @throws InvalidArgumentException */
export async function actProgress(
  { db, tables }: Framework,
  { kind, spans, since }: ActOnMany,
): Promise<ReadonlyMap<string, number>> {
  if (spans.length === 0 || spans.length > MAX_SPANS || !spans.flat().every(isId))
    throw new InvalidArgumentException(
      'spans',
      `1 to ${MAX_SPANS} spans of ids are allowed, ${spans.length} were given`,
    )
  const { webhooks, syncItems } = tables
  const table = kind === 'webhook' ? webhooks : syncItems
  const rows = await db
    .select({ status: table.status, rows: count() })
    .from(table)
    .where(
      and(
        or(...spans.map(([from, to]) => between(table.id, from, to))),
        gte(table.updatedAt, since),
        kind === 'webhook' ? isNotNull(webhooks.replayAttempt) : undefined,
      ),
    )
    .groupBy(table.status)
  return new Map(rows.map(({ status, rows }) => [status, rows]))
}
