/** Deletes rows beyond their retention. Rule: docs/behaviour/pruning.md. */
import { setTimeout as sleep } from 'node:timers/promises'
import { aroundCallStateId } from '../calls/call-target.ts'
import { databaseNowMs, despiteDeadlocks } from '../db/client.ts'
import type { Framework } from '../framework/context.ts'
import { givenNowMs } from '../framework/logger.ts'
import { autoCloseIncident } from '../incidents/follow.ts'
import type { ChunkInput, DeletingStep, Position, Pruned } from './queries.ts'
import {
  addToCount,
  blankChunk,
  countClosable,
  countPrunable,
  incidentsOpenSince,
  integrationsToPrune,
  oldestPrunable,
  pruneChunk,
  readCount,
} from './queries.ts'
import type { PruneCounts, PruneStepInput, PruningStep } from './rules.ts'
import { PRUNING_STEPS } from './rules.ts'

const DAY_MS = 86_400_000
/** Delivered events stay for operators to look at. */
const EVENTS_DAYS = 7
/** Counts are needed while their run lives; later runs delete the rest. */
const COUNT_DAYS = 7
/** Integrations or incidents of one look. */
const PAGE = 500
/** A chunk takes milliseconds. On a slower database the rest after it stops growing here. */
const LONGEST_REST_MS = 1_000

export interface Pruning {
  /** Ends the step after the chunk under way: it throws the signal's reason. */
  readonly signal: AbortSignal
  /** Called after each chunk. @param rows of this try */
  readonly onProgress?: (rows: number) => void
}

/** One try of one step. */
interface Try extends Pruning {
  readonly framework: Framework
  readonly before: string
  /** Key of the run's count of this step. */
  readonly key: string
  readonly countExpiresAt: string
}

/** @returns rows, those of an earlier try of the same run included */
export async function pruneRows(framework: Framework, input: PruneStepInput, options: Pruning): Promise<number> {
  const { db, tables } = framework
  const key = countKey(framework, input)
  const nowMs = await now(framework)
  const before = limitOf(framework, input.step, nowMs)
  if (before !== null) {
    const countExpiresAt = new Date(nowMs + COUNT_DAYS * DAY_MS).toISOString()
    const run = { ...options, framework, before, key, countExpiresAt }
    await pruneStep(run, input.step)
    // What writes have left behind goes together. A step of its own would change the workflow under runs of an earlier release.
    if (input.step === 'idempotency_keys') await pruneTable(run, 'written_records')
    if (input.step === 'cache') await pruneTable({ ...run, before: rollupsLimitOf(framework, nowMs) }, 'rollups')
  }
  if (input.step === 'webhooks') await blankPayloads(framework, nowMs, options)
  return readCount(db, tables, key)
}

/** What a run has counted in a step so far. */
export async function prunedRows(framework: Framework, input: PruneStepInput): Promise<number> {
  return readCount(framework.db, framework.tables, countKey(framework, input))
}

/** What a run would do now; changes nothing. */
export async function countPrunableRows(framework: Framework): Promise<PruneCounts> {
  const nowMs = await now(framework)
  const counts: Partial<Record<PruningStep, number>> = {}
  for (const step of PRUNING_STEPS) {
    const before = limitOf(framework, step, nowMs)
    counts[step] = before === null ? 0 : await countOf(framework, step, before, nowMs)
  }
  return counts as PruneCounts
}

/** Rows that should have been deleted `graceDays` ago: the oldest of each step, by the moment that its age is counted from. */
export async function overdueRows(
  framework: Framework,
  graceDays: number,
): Promise<readonly { readonly step: DeletingStep; readonly oldestAt: Date }[]> {
  const { db, tables } = framework
  const nowMs = (await now(framework)) - graceDays * DAY_MS
  const overdue: { step: DeletingStep; oldestAt: Date }[] = []
  for (const step of PRUNING_STEPS) {
    const before = limitOf(framework, step, nowMs)
    if (before === null || step === 'incidents_closed') continue
    const oldestAt = await oldestPrunable(db, tables, step, before)
    if (oldestAt !== null) overdue.push({ step, oldestAt })
  }
  return overdue
}

async function countOf(framework: Framework, step: PruningStep, before: string, nowMs: number): Promise<number> {
  const { config, db, tables } = framework
  if (step === 'idempotency_keys')
    return (
      (await countPrunable(db, tables, step, before)) + (await countPrunable(db, tables, 'written_records', before))
    )
  if (step === 'cache')
    return (
      (await countPrunable(db, tables, step, before)) +
      (await countPrunable(db, tables, 'rollups', rollupsLimitOf(framework, nowMs)))
    )
  if (step !== 'incidents_closed') return countPrunable(db, tables, step, before)
  const { enabled, cooldown_seconds: cooldownSeconds } = config.circuit_breaker
  const breaker = enabled ? { aroundId: aroundCallStateId(framework), cooldownSeconds } : null
  return countClosable(db, tables, { before, nowMs, breaker })
}

async function now(framework: Framework): Promise<number> {
  return givenNowMs(framework) ?? databaseNowMs(framework.db)
}

/** The moment before which a step takes rows; null: it takes none. Before 1970 there are none, and dates end. */
function limitOf({ config: { pruning } }: Framework, step: PruningStep, nowMs: number): string | null {
  const days: Record<PruningStep, number | null> = {
    requests: pruning.requests_days,
    logs: pruning.logs_days,
    idempotency_keys: pruning.idempotency_keys_days,
    sync_items: pruning.sync_items_days,
    incidents_closed: pruning.incidents_stale_after_days,
    incidents: pruning.incidents_days,
    cache: 0,
    events: EVENTS_DAYS,
    webhooks: pruning.webhooks_days,
    audit: pruning.audit_days,
  }
  const kept = days[step]
  return kept === null ? null : new Date(Math.max(0, nowMs - kept * DAY_MS)).toISOString()
}

/** Of the sums behind the charts: they are kept for the sake of speed alone, as the cache is, and go in its step. */
function rollupsLimitOf({ config }: Framework, nowMs: number): string {
  return new Date(Math.max(0, nowMs - config.pruning.rollups_days * DAY_MS)).toISOString()
}

function countKey({ config }: Framework, { step, runId }: PruneStepInput): string {
  return `${config.cache_prefix}:pruning:${runId}:${step}`
}

async function pruneStep(run: Try, step: PruningStep): Promise<void> {
  if (step === 'incidents_closed') return closeIncidents(run)
  if (step !== 'webhooks') return pruneTable(run, step)
  for await (const integrationId of withWebhooks(run.framework, run.before)) await pruneTable(run, step, integrationId)
  // What they were delivered in goes with the last of its parts.
  await pruneTable(run, 'deliveries')
}

/** What was delivered goes before its rows. No row is deleted, so nothing is counted. */
async function blankPayloads(framework: Framework, nowMs: number, { signal }: Pruning): Promise<void> {
  const { config, db, tables } = framework
  const days = config.pruning.webhook_payloads_days
  if (days === null) return
  const before = new Date(Math.max(0, nowMs - days * DAY_MS)).toISOString()
  const limit = config.pruning.chunk_size
  for await (const integrationId of withWebhooks(framework, before))
    await inChunks(signal, (after) =>
      db.transaction((tx) => blankChunk(tx, tables, 'webhooks', { before, after, limit, integrationId })),
    )
  await inChunks(signal, (after) =>
    db.transaction((tx) => blankChunk(tx, tables, 'deliveries', { before, after, limit })),
  )
}

/** The integrations that have webhooks of that age. */
async function* withWebhooks({ db, tables }: Framework, before: string): AsyncGenerator<number> {
  for (let afterId: number | undefined = 0; afterId !== undefined; ) {
    const ids: number[] = await integrationsToPrune(db, tables, { before, afterId, limit: PAGE })
    yield* ids
    afterId = ids.at(-1)
  }
}

/** One chunk after the other; half of the database's time is left to others. */
async function inChunks(signal: AbortSignal, next: (after: Position | null) => Promise<Pruned>): Promise<void> {
  let after: Position | null = null
  do {
    signal.throwIfAborted()
    const began = performance.now()
    after = (await despiteDeadlocks(() => next(after))).next
    if (after !== null)
      await sleep(Math.min(performance.now() - began, LONGEST_REST_MS), undefined, { signal }).catch(() => {})
  } while (after !== null)
}

async function pruneTable(run: Try, step: DeletingStep, integrationId?: number): Promise<void> {
  const { before, signal, onProgress, framework } = run
  const own = integrationId === undefined ? {} : { integrationId }
  let rows = 0
  await inChunks(signal, async (after) => {
    const chunk = await prunedChunk(run, step, { before, after, limit: framework.config.pruning.chunk_size, ...own })
    rows += chunk.rows
    onProgress?.(rows)
    return chunk
  })
}

/** One chunk and its count, in one transaction. */
function prunedChunk({ framework: { db, tables }, key, countExpiresAt }: Try, step: DeletingStep, chunk: ChunkInput) {
  return db.transaction(async (tx) => {
    const pruned = await pruneChunk(tx, tables, step, chunk)
    // What webhooks were delivered in goes along with them, uncounted.
    if (pruned.rows > 0 && step !== 'deliveries')
      await addToCount(tx, tables, { key, rows: pruned.rows, expiresAt: countExpiresAt })
    return pruned
  })
}

/** By the same rule as an incident's own workflow. */
async function closeIncidents({ framework, before, key, countExpiresAt, signal, onProgress }: Try): Promise<void> {
  const { db, tables } = framework
  let closed = 0
  for (let afterId: number | undefined = 0; afterId !== undefined; ) {
    const page = await incidentsOpenSince(db, tables, { before, afterId, limit: PAGE })
    for (const { integrationId } of page) {
      signal.throwIfAborted()
      const isClosed = await autoCloseIncident(framework, integrationId, (tx) =>
        addToCount(tx, tables, { key, rows: 1, expiresAt: countExpiresAt }),
      )
      if (isClosed) onProgress?.(++closed)
    }
    afterId = page.at(-1)?.id
  }
}
