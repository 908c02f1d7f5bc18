/**
 * Moving rows to the key that writes.
 *
 * Rule: docs/behaviour/credentials.md, "Rotation".
 */

import type { Framework } from '../framework/context.ts'
import { isIntegrationsError } from '../framework/errors.ts'
import { subjectOf } from '../observability/metric-subject.ts'
import type { KeyStatus } from './encryption-keys.ts'
import { keyStatus } from './encryption-keys.ts'
import type { WrittenCredentials } from './key-queries.ts'
import { credentialsOf, pageNotWrittenBy, swapCredentials } from './key-queries.ts'

const PAGE = 100
/** Of one row, each against somebody else's write of it. */
const TRIES = 5
/** Processes that write with another key give a rotation new work for as long as they run: it ends all the same. */
const MAX_PASSES = 10

export interface KeyRotation extends KeyStatus {
  readonly reencrypted: number
  /** Rows that stay as they are, each named in a log line. */
  readonly failed: number
}

export interface RotateOptions {
  /** Writes nothing: counts what would be encrypted anew, and what would fail. */
  readonly dryRun?: boolean
  /** Stops between two pages; what is done is done, and the next rotation goes on. */
  readonly signal?: AbortSignal
  /** After each page. The total grows when other processes go on writing with another key. */
  readonly onProgress?: (progress: { readonly done: number; readonly total: number }) => void
}

/**
 * Encrypts anew, with the key that writes, whatever another key wrote.
 *
 * Each row is moved by one compare-and-swap on its text, so nothing is locked for longer, a change made meanwhile is never
 * undone, and a rotation killed anywhere has done some rows and left the others: the next one goes on. Passes are repeated
 * until one moves nothing, since processes may still write with another key.
 */
export async function rotateKeys(framework: Framework, options: RotateOptions = {}): Promise<KeyRotation> {
  const { dryRun = false, signal, onProgress } = options
  const primary = framework.encryption.primaryKid
  const failed = new Set<number>()
  let reencrypted = 0
  let done = 0
  let total = rowsOnOtherKeys(await keyStatus(framework))

  const passes = dryRun ? 1 : MAX_PASSES
  for (let pass = 1, moved = 1; pass <= passes && moved > 0 && signal?.aborted !== true; pass++) {
    moved = 0
    for await (const page of pagesNotWrittenBy(framework, primary)) {
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
        framework.logger.error(
          { event: 'keys.not_reencrypted', integration: row.id, provider, reason: outcome.reason },
          'the credentials of an integration could not be encrypted anew',
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
  /** Gone, or moved by somebody else. */
  | { readonly kind: 'nothing to do' }
  | { readonly kind: 'failed'; readonly reason: string }

async function* pagesNotWrittenBy({ db, tables }: Framework, kid: string): AsyncGenerator<WrittenCredentials[]> {
  for (let after = 0; ; ) {
    const page = await pageNotWrittenBy(db, tables, kid, after, PAGE)
    if (page.length > 0) yield page
    const last = page.at(-1)
    if (last === undefined || page.length < PAGE) return
    after = last.id
  }
}

async function move({ db, tables, encryption }: Framework, row: WrittenCredentials): Promise<Outcome> {
  let text = row.credentials
  for (let attempt = 1; attempt <= TRIES; attempt++) {
    const anew = encryptedAnew(encryption, row.id, text)
    if (anew.kind === 'failed') return anew
    if (await swapCredentials(db, tables, { id: row.id, credentials: text }, anew.text)) return { kind: 'moved' }
    const now = await credentialsOf(db, tables, row.id)
    if (now === null || encryption.kidOf(now) === encryption.primaryKid) return { kind: 'nothing to do' }
    text = now
  }
  return { kind: 'failed', reason: `other writes came between, ${TRIES} times in a row` }
}

/** What {@link move} would come to. */
function look({ encryption }: Framework, row: WrittenCredentials): Outcome {
  const anew = encryptedAnew(encryption, row.id, row.credentials)
  return anew.kind === 'failed' ? anew : { kind: 'moved' }
}

function encryptedAnew(
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
