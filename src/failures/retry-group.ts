/** Retries a group of failures. Rule: docs/behaviour/failures.md, "Retrying a group". */
import { and, eq, sql } from 'drizzle-orm'
import { bigints } from '../db/integrations-of.ts'
import type { Framework } from '../framework/context.ts'
import { InvalidArgumentException, isIntegrationsError, RecordNotFound } from '../framework/errors.ts'
import { checkIds, checkTexts } from '../framework/list-filter.ts'
import { errorLine } from '../framework/logger.ts'
import { noteActs } from '../observability/audit.ts'
import { newestCopies } from '../syncs/items/item-queries.ts'
import type { ChangedRow } from '../webhooks/bulk.ts'
import { replayAmong, replayableAmong } from '../webhooks/replay.ts'
import type { FailureKind } from './failure-rules.ts'
import { isGroupId } from './failure-rules.ts'
import type { FailureFilter, ScannedGroup } from './failures.ts'
import { scanned } from './failures.ts'

export interface RetryGroup extends FailureFilter {
  /** Rows, the lowest ids first, 1 to 1,000; default 100. */
  readonly limit?: number | undefined
}

export interface GroupActor {
  /** Who does it: a token's name, or `cli:<user>`. */
  readonly by: string
  readonly from?: string | undefined
}

export interface RetryGroupPreview {
  readonly group: string
  readonly kind: Exclude<FailureKind, 'request'>
  readonly error: string
  /** Rows that would be tried: at most the limit. */
  readonly count: number
  /** The first ten. */
  readonly ids: readonly number[]
  /** How many integrations have them. */
  readonly integrations: number
  /** Webhooks among them whose integration its health has disabled: they wait until it is enabled. */
  readonly waiting: number
  /** Rows of the group that are not tried: an item with a newer copy in a later run, and any without a payload. */
  readonly leftOut: number
  /** The group has more rows than the limit lets through, those that are left out not counted. */
  readonly more: boolean
}

export interface RetriedGroup {
  readonly group: string
  readonly kind: Exclude<FailureKind, 'request'>
  /** Ids of the items whose retry was started, or of the webhooks that wait again. */
  readonly retried: readonly number[]
  /** What was not taken, such as an item that another retry holds, or a webhook that was dismissed meanwhile. */
  readonly refused: readonly { readonly id: number; readonly code: string; readonly message: string }[]
  /** Why it was broken off before the end; null: it was not. */
  readonly stopped: string | null
  /** Of those retried, as in {@link RetryGroupPreview}. */
  readonly waiting: number
  /** As in {@link RetryGroupPreview}. */
  readonly leftOut: number
  readonly more: boolean
}

const DEFAULT_ROWS = 100
const MAX_ROWS = 1_000
const PREVIEWED = 10

/** What {@link retryGroup} would try. Changes nothing. @throws as it does */
export async function previewRetryGroup(
  framework: Framework,
  group: string,
  given: RetryGroup = {},
): Promise<RetryGroupPreview> {
  const { kind, error, rows, disabled, leftOut, more } = await rowsOfGroup(framework, group, given)
  return {
    group,
    kind,
    error,
    count: rows.length,
    ids: rows.slice(0, PREVIEWED).map(({ id }) => id),
    integrations: new Set(rows.map(({ integrationId }) => integrationId)).size,
    waiting: countOf(rows, disabled),
    leftOut,
    more,
  }
}

/**
 * Starts a retry of each failed item of the group, or lets its webhooks wait again. Each is written into the audit.
 *
 * @param startRetry of one item
 * @throws InvalidArgumentException; RecordNotFound when no failure within the filter is of the group; BackendUnreachable when
 *   nothing could be started
 */
export async function retryGroup(
  framework: Framework,
  group: string,
  { by, from, ...given }: RetryGroup & GroupActor,
  startRetry: (itemId: number) => Promise<unknown>,
): Promise<RetriedGroup> {
  checkTexts({ by: by ?? '', from })
  const { kind, error, rows, disabled, leftOut, more } = await rowsOfGroup(framework, group, given)
  const retried: ChangedRow[] = []
  const refused: { id: number; code: string; message: string }[] = []
  let stopped: string | null = null
  try {
    if (kind === 'webhook') {
      const ids = rows.map(({ id }) => id)
      await replayAmong(framework, ids, (replayed) => retried.push(...replayed))
      const waiting = new Set(retried.map(({ id }) => id))
      for (const id of ids)
        if (!waiting.has(id)) refused.push({ id, code: 'webhook_not_replayable', message: changedMeanwhile(id) })
    } else
      for (const row of rows)
        try {
          await startRetry(row.id)
          retried.push(row)
        } catch (thrown) {
          if (!isIntegrationsError(thrown)) throw thrown
          if (thrown.code === 'backend_unreachable' && retried.length === 0) throw thrown
          if (thrown.code === 'backend_unreachable') {
            stopped = errorLine(thrown, 300)
            break
          }
          refused.push({ id: row.id, code: thrown.code, message: thrown.message })
        }
  } finally {
    // Also where it was broken off: what was done by then is done.
    await noteRetries(framework, { by, from }, { group, kind, retried, whole: `${rows.length} ${kind}s: ${error}` })
  }
  const waiting = countOf(retried, disabled)
  return { group, kind, retried: retried.map(({ id }) => id), refused, stopped, waiting, leftOut, more }
}

const countOf = (rows: readonly ChangedRow[], integrationIds: ReadonlySet<number>): number =>
  rows.filter(({ integrationId }) => integrationIds.has(integrationId)).length

async function noteRetries(
  framework: Framework,
  who: GroupActor,
  {
    group,
    kind,
    retried,
    whole,
  }: Pick<RetryGroupPreview, 'group' | 'kind'> & {
    readonly retried: readonly ChangedRow[]
    readonly whole: string
  },
): Promise<void> {
  const [action, record] = kind === 'item' ? ['retry', 'sync-item'] : ['replay', 'webhook']
  const each = { ...who, action, detail: `with its group ${group}` }
  await noteActs(
    framework,
    retried.map(({ id, integrationId }) => ({ ...each, target: `${record}:${id}`, integrationId })),
  )
  const all = { ...who, action: 'retry-group', detail: `${retried.length} of ${whole}` }
  await noteActs(framework, [{ ...all, target: `failures:${group}`, integrationId: null }])
}

async function rowsOfGroup(framework: Framework, group: string, { limit = DEFAULT_ROWS, ...filter }: RetryGroup) {
  if (!isGroupId(group))
    throw new InvalidArgumentException(
      'group',
      `the twelve hex digits of a group of failures() are allowed, ${JSON.stringify(String(group).slice(0, 50))} was given`,
    )
  checkIds({ limit })
  if (limit > MAX_ROWS) throw new InvalidArgumentException('limit', `1 to ${MAX_ROWS} are allowed, ${limit} was given`)
  const { scans } = await scanned(framework, filter)
  const found: ScannedGroup | undefined = scans.flatMap(({ groups }) => groups).find((one) => one.group === group)
  if (found === undefined)
    throw new RecordNotFound(`"failures:${group}"`, 'the groups that failures() names with the same filter')
  const { kind, error, failures } = found
  if (kind === 'request')
    throw new InvalidArgumentException(
      'group',
      'groups of items and webhooks are allowed; a request is sent again by the item or the webhook that it is part of',
    )
  // Before the limit: rows that can't be tried stay in the group, and would fill it at each call.
  const tried = await triable(framework, kind, failures)
  const rows = failures.flatMap(([id, integrationId]): ChangedRow[] => (tried.has(id) ? [{ id, integrationId }] : []))
  rows.sort((a, b) => a.id - b.id)
  const chosen = rows.slice(0, limit)
  return {
    kind,
    error,
    rows: chosen,
    disabled: kind === 'webhook' ? await disabledAmong(framework, chosen) : new Set<number>(),
    leftOut: failures.length - rows.length,
    more: rows.length > limit,
  }
}

/** Integrations of these rows that are disabled by their health: the inbox takes none of theirs. */
async function disabledAmong(
  { db, tables: { integrations } }: Framework,
  rows: readonly ChangedRow[],
): Promise<ReadonlySet<number>> {
  const ids = [...new Set(rows.map(({ integrationId }) => integrationId))]
  const found = await db
    .select({ id: integrations.id })
    .from(integrations)
    .where(and(eq(integrations.healthStatus, 'disabled'), sql`${integrations.id} = any(${bigints(ids)})`))
  return new Set(found.map(({ id }) => id))
}

const changedMeanwhile = (webhookId: number): string =>
  `Webhook ${webhookId} was replayed, dismissed or erased meanwhile, or is being changed.`

async function triable(
  framework: Framework,
  kind: RetryGroupPreview['kind'],
  failures: ScannedGroup['failures'],
): Promise<ReadonlySet<number>> {
  const ids = failures.map(([id]) => id)
  return kind === 'item' ? newestCopies(framework.db, framework.tables, ids) : replayableAmong(framework, ids)
}
