/** Answers that may be served again: the request log is the cache. Rule: docs/behaviour/requests.md, "Response cache". */
import type { AnyColumn, SQL } from 'drizzle-orm'
import { and, desc, eq, gt, isNotNull, sql } from 'drizzle-orm'
import { MAX_INTEGER } from '../db/schema/columns.ts'
import type { Tables } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { errorLine, integrationLogger } from '../framework/logger.ts'
import type { PlannedCall } from './call.ts'
import { nowOf } from './idempotency.ts'

interface ServedAnswer {
  readonly value: unknown
}

/** How an answer is served: `stale` ones are taken however old. */
type Serving = 'fresh' | 'stale'

/** The newest answer that has not expired. Null when there is none, or it does not fit the schema. Counted as a hit. */
export function freshAnswer(call: PlannedCall): Promise<ServedAnswer | null> {
  return served(call, 'fresh')
}

/** The newest answer however old, for a provider that is away. Counted as a stale hit. Never throws: the failure goes on. */
export async function staleAnswer(call: PlannedCall): Promise<ServedAnswer | null> {
  try {
    return await served(call, 'stale')
  } catch (error) {
    integrationLogger(call.framework, call.integration).error(
      { event: 'request.stale_unread', error: errorLine(error, 500) },
      'no older answer could be looked up; the failure goes to the caller',
    )
    return null
  }
}

async function served(call: PlannedCall, serving: Serving): Promise<ServedAnswer | null> {
  const { framework, integration, requestHash } = call
  if (requestHash === null) return null
  const answer = await serveAnswer(framework, integration.id, requestHash, serving)
  if (answer === null) return null
  const usable = usableAnswer(call, answer.body)
  if (usable === null) await uncountServing(framework, answer.id, serving)
  return usable
}

/** A kept answer as the call returns it. Null when it does not fit the schema, or the schema throws over it. */
export function usableAnswer({ schema }: PlannedCall, body: string | null): ServedAnswer | null {
  const value = decodedAnswer(body)
  if (value === undefined) return null
  if (schema === undefined) return { value }
  try {
    const parsed = schema.safeParse(value)
    return parsed.success ? { value: parsed.data } : null
  } catch {
    return null
  }
}

/** Rows of the answers of a call that may be served again. @param freshAt those that have not expired then; null: however old */
export function keptAnswers(
  { requests }: Tables,
  integrationId: number,
  requestHash: string,
  freshAt: Date | SQL | null,
): SQL | undefined {
  return and(
    eq(requests.integrationId, integrationId),
    eq(requests.requestHash, requestHash),
    // Only the answer of a success that may be served again has such a moment, past or to come.
    isNotNull(requests.expiresAt),
    freshAt === null ? undefined : gt(requests.expiresAt, freshAt),
  )
}

/** Undefined when it is not JSON. Each answer that may be served again is stored as JSON, a text too. */
function decodedAnswer(body: string | null): unknown {
  try {
    return body === null ? undefined : JSON.parse(body)
  } catch {
    return undefined
  }
}

/** The newest answer of the same call, counted as served. */
async function serveAnswer(
  framework: Framework,
  integrationId: number,
  requestHash: string,
  serving: Serving,
): Promise<{ readonly id: number; readonly body: string | null } | null> {
  const { db, tables } = framework
  const { requests } = tables
  const newest = db
    .select({ id: requests.id })
    .from(requests)
    .where(keptAnswers(tables, integrationId, requestHash, serving === 'fresh' ? nowOf(framework) : null))
    .orderBy(desc(requests.id))
    .limit(1)
  const [row] = await db
    .update(requests)
    .set(hits(requests, serving, 1))
    .where(eq(requests.id, sql`(${newest})`))
    .returning({ id: requests.id, body: requests.responseData })
  return row ?? null
}

/** An answer that turned out to be unusable was not served. */
async function uncountServing({ db, tables: { requests } }: Framework, id: number, serving: Serving): Promise<void> {
  await db
    .update(requests)
    .set(hits(requests, serving, -1))
    .where(eq(requests.id, id))
}

function hits(requests: Tables['requests'], serving: Serving, by: 1 | -1): Record<string, SQL> {
  const counted = (hitsSoFar: AnyColumn): SQL =>
    sql`least(${hitsSoFar}::bigint + ${by}::int, ${sql.raw(String(MAX_INTEGER))})`
  return serving === 'fresh' ? { cacheHits: counted(requests.cacheHits) } : { staleHits: counted(requests.staleHits) }
}
