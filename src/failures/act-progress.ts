/** How far an act on many rows is. Rule: docs/behaviour/dashboard.md, "Acts". */
import { and, between, count, gte, inArray, isNotNull, or } from 'drizzle-orm'
import type { Framework } from '../framework/context.ts'
import { InvalidArgumentException } from '../framework/errors.ts'
import { isId } from '../framework/id.ts'
import { WEBHOOK_STATUSES } from '../webhooks/rules.ts'
import { MAX_SPANS } from './failure-rules.ts'

export interface ActOnMany {
  /** `webhook`: replayed ones; `item`: retried ones. */
  readonly kind: 'item' | 'webhook'
  /** The ids, from and to, both inclusive. */
  readonly spans: readonly (readonly [number, number])[]
  /** The beginning of the act: rows of the span that were not touched since are none of it. */
  readonly since: Date
}

/** Rows of the act by the status that they have now. @throws InvalidArgumentException */
export async function actProgress(framework: Framework, act: ActOnMany): Promise<ReadonlyMap<string, number>> {
  const { spans } = act
  if (spans.length === 0 || spans.length > MAX_SPANS || !spans.flat().every(isId))
    throw new InvalidArgumentException(
      'spans',
      `1 to ${MAX_SPANS} spans of ids are allowed, ${spans.length} were given`,
    )
  const rows = await rowsOfAct(framework, act)
  return new Map(rows.map(({ status, rows }) => [status, rows]))
}

export function rowsOfAct({ db, tables }: Pick<Framework, 'db' | 'tables'>, { kind, spans, since }: ActOnMany) {
  const { webhooks, syncItems } = tables
  const table = kind === 'webhook' ? webhooks : syncItems
  return db
    .select({ status: table.status, rows: count() })
    .from(table)
    .where(
      and(
        or(...spans.map(([from, to]) => between(table.id, from, to))),
        gte(table.updatedAt, since),
        // Every status: the index by status and time has what changed since, where a span is of most rows.
        kind === 'webhook' ? inArray(webhooks.status, [...WEBHOOK_STATUSES]) : undefined,
        kind === 'webhook' ? isNotNull(webhooks.replayAttempt) : undefined,
      ),
    )
    .groupBy(table.status)
}
