/** Moving rows to the key that writes. Rule: docs/behaviour/credentials.md, "Rotation". */

import { and, eq, sql } from 'drizzle-orm'
import type { Database } from '../db/client.ts'
import type { Tables } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { isIntegrationsError } from '../framework/errors.ts'
import { ascendingPages } from '../framework/list-filter.ts'
import { integrationLogger } from '../framework/logger.ts'
import { subjectOf } from '../observability/metric-subject.ts'
import type { KeyStatus, WrittenCredentials } from './encryption-keys.ts'
import { keyStatus, pageOfCredentials, writtenBy } from './encryption-keys.ts'

const PAGE = 100
/** Tries for one row; each fails when another write of the row comes between. */
const TRIES = 5
/** Processes that write with another key would give a rotation new work for as long as they run. */
const MAX_PASSES = 10

export interface KeyRotation extends KeyStatus {
  readonly reencrypted: number
  /** Rows that stay as they are, each named in a log line. */
  readonly failed: number
}

export interface RotateOptions {
  /** Writes nothing: counts what would be encrypted again, and what would fail. */
  readonly dryRun?: boolean
  /** Stops between two pages; the next rotation resumes there. */
  readonly signal?: AbortSignal
  /** After each page. The total grows when other processes go on writing with another key. */
  readonly onProgress?: (progress: { readonly done: number; readonly total: number }) => void
}

/**
 * Encrypts all rows of other keys again, with the key that writes.
 *
 * Each row is moved by one compare-and-swap on its text. So nothing stays locked, a change made meanwhile is never undone, and
 * the next rotation resumes one that was killed. Passes are repeated until one moves nothing, since processes may still write
 * with another key.
 */
export async function rotateKeys(framework: Framework, options: RotateOptions = {}): Promise<KeyRotation> {
  const { dryRun = false, signal, onProgress } = options
  const { db, tables, encryption } = framework
  const primary = encryption.primaryKid
  const failed = new Set<number>()
  let reencrypted = 0
  let done = 0
  let total = rowsOnOtherKeys(await keyStatus(framework))

  const isOfOtherKey = sql`${writtenBy(tables)} is distinct from ${primary}`
  const passes = dryRun ? 1 : MAX_PASSES
  for (let pass = 1, moved = 1; pass <= passes && moved > 0 && signal?.aborted !== true; pass++) {
    moved = 0
    const pages = ascendingPages((page) => pageOfCredentials(db, tables, page, isOfOtherKey), { size: PAGE })
    for await (const page of pages) {
      for (const row of page) {
        const outcome = dryRun ? look(framework, row) : await move(framework, row)
        if (outcome.kind === 'moved') moved += 1
        if (outcome.kind !== 'failed') {
          if (!failed.delete(row.id)) done += 1
          continue
        }
        if (failed.has(row.id)) continue
        failed.add(row.id)
        done += 1
        const { provider } = await subjectOf(framework, row.id)
        integrationLogger(framework, { id: row.id, provider }).error(
          { event: 'keys.not_reencrypted', reason: outcome.reason },
          'the credentials of an integration could not be encrypted again',
        )
      }
      total = Math.max(total, done)
      onProgress?.({ done, total })
      if (signal?.aborted) break
    }
    reencrypted += moved
  }

  const status = await keyStatus(framework)
  if (!dryRun && signal?.aborted !== true && rowsOnOtherKeys(status) > failed.size)
    framework.logger.warn(
      { event: 'keys.several_write', keys: status.keys },
      'some process still writes with another key: put the new key first everywhere, then rotate again',
    )
  return { ...status, reencrypted, failed: failed.size }
}

type Outcome =
  | { readonly kind: 'moved' }
  /** The row is gone, or another process has moved it. */
  | { readonly kind: 'nothing to do' }
  | { readonly kind: 'failed'; readonly reason: string }

async function move({ db, tables, encryption }: Framework, row: WrittenCredentials): Promise<Outcome> {
  let text = row.credentials
  for (let attempt = 1; attempt <= TRIES; attempt++) {
    const rotated = encryptedWithNewKey(encryption, row.id, text)
    if (rotated.kind === 'failed') return rotated
    if (await swapCredentials(db, tables, { id: row.id, credentials: text }, rotated.text)) return { kind: 'moved' }
    const now = await credentialsOf(db, tables, row.id)
    if (now === null || encryption.kidOf(now) === encryption.primaryKid) return { kind: 'nothing to do' }
    text = now
  }
  return { kind: 'failed', reason: `other writes came between, ${TRIES} times in a row` }
}

/** The outcome that {@link move} would have. */
function look({ encryption }: Framework, row: WrittenCredentials): Outcome {
  const rotated = encryptedWithNewKey(encryption, row.id, row.credentials)
  return rotated.kind === 'failed' ? rotated : { kind: 'moved' }
}

function encryptedWithNewKey(
  encryption: Framework['encryption'],
  id: number,
  text: string,
): { readonly kind: 'encrypted'; readonly text: string } | Extract<Outcome, { kind: 'failed' }> {
  try {
    return { kind: 'encrypted', text: encryption.encrypt(id, encryption.decrypt(id, text)) }
  } catch (error) {
    // Its message names the row and the key, never the text.
    if (isIntegrationsError(error, 'credentials_unreadable')) return { kind: 'failed', reason: error.message }
    throw error
  }
}

function rowsOnOtherKeys({ primary, keys }: KeyStatus): number {
  return keys.reduce((sum, { kid, rows }) => sum + (kid === primary ? 0 : rows), 0)
}

async function credentialsOf(db: Database, { integrations }: Tables, id: number): Promise<string | null> {
  const [row] = await db
    .select({ credentials: integrations.credentials })
    .from(integrations)
    .where(eq(integrations.id, id))
  return row?.credentials ?? null
}

/** Replaces the text that was read. False: it has changed meanwhile, or the row is gone. `updated_at` stays: the credentials are the same. */
async function swapCredentials(
  db: Database,
  { integrations }: Tables,
  { id, credentials: expected }: WrittenCredentials,
  credentials: string,
): Promise<boolean> {
  const rows = await db
    .update(integrations)
    .set({ credentials, updatedAt: sql`${integrations.updatedAt}` as never })
    .where(and(eq(integrations.id, id), eq(integrations.credentials, expected)))
    .returning({ id: integrations.id })
  return rows.length === 1
}
