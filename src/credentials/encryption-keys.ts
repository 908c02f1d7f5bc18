/**
 * Which key wrote what, and whether the key ring is the one that wrote the database.
 * Rule: docs/behaviour/credentials.md, "At start" and "A new key".
 */

import type { SQL } from 'drizzle-orm'
import { and, asc, gt, sql } from 'drizzle-orm'
import type { Database } from '../db/client.ts'
import type { Tables } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { EncryptionKeyMismatch, isIntegrationsError } from '../framework/errors.ts'

/** Stands for the key of rows whose text is no envelope. No key can have this id. */
export const UNREADABLE = '(unreadable)'

const canaryKey = (kid: string): string => `canary:${kid}`

/** Rows that are tried for a key without a canary: one damaged row must not make a good key look wrong. */
const SAMPLE = 10

/**
 * Reads one known text (canary) per key, or some rows where a key has none. Then it writes the primary's canary if there is none.
 *
 * @throws EncryptionKeyMismatch naming the keys: other bytes under an id, or rows written with a key that the ring lacks
 */
export async function verifyKeys(framework: Framework): Promise<void> {
  const { cache, db, tables, encryption } = framework
  const { kids, primaryKid } = encryption
  const wrong: string[] = []
  for (const kid of kids) if (await hasOtherBytes(framework, kid)) wrong.push(kid)
  const missing = (await countRowsByKey(db, tables)).flatMap(({ kid }) =>
    kid === null || kids.includes(kid) ? [] : [kid],
  )
  if (wrong.length > 0 || missing.length > 0) throw new EncryptionKeyMismatch(wrong, missing)
  // Last, so that a refused start leaves no canary of its wrong key. Added, not set: of two processes that start at the same
  // moment with other bytes under the id, the second must find the canary of the first.
  const isOurs = await cache.add(canaryKey(primaryKid), encryption.canary(primaryKid), null)
  if (!isOurs && (await hasOtherBytes(framework, primaryKid))) throw new EncryptionKeyMismatch([primaryKid], [])
}

async function hasOtherBytes({ cache, db, tables, encryption }: Framework, kid: string): Promise<boolean> {
  const canary = await cache.get(canaryKey(kid))
  if (canary !== undefined) return !encryption.verifyCanary(kid, String(canary))
  const rows = await pageOfCredentials(db, tables, { after: 0, limit: SAMPLE }, sql`${writtenBy(tables)} = ${kid}`)
  return rows.length > 0 && !rows.some(({ id, credentials }) => isReadable(encryption, id, credentials))
}

function isReadable(encryption: Framework['encryption'], id: number, credentials: string): boolean {
  try {
    encryption.decrypt(id, credentials)
    return true
  } catch (error) {
    if (isIntegrationsError(error, 'credentials_unreadable')) return false
    throw error
  }
}

export interface KeyUse {
  /** `(unreadable)` for rows whose text no key wrote: plain or damaged. */
  readonly kid: string
  /** Integrations whose credentials this key wrote. */
  readonly rows: number
  readonly inRing: boolean
  /** It is not the key that writes, and no row needs it. */
  readonly removable: boolean
  /** It was just added: no process has started with it as the key that writes, as far as canaries tell. */
  readonly isNew: boolean
}

export interface KeyStatus {
  /** The key that writes. */
  readonly primary: string
  /** In the ring's order, then the keys that rows need and the ring lacks. */
  readonly keys: readonly KeyUse[]
}

export async function keyStatus(framework: Framework): Promise<KeyStatus> {
  const { db, tables, encryption } = framework
  const { kids, primaryKid: primary } = encryption
  const counts = await countRowsByKey(db, tables)
  const rowsOf = (kid: string): number => counts.find((count) => count.kid === kid)?.rows ?? 0
  const idle = kids.filter((kid) => kid !== primary && rowsOf(kid) === 0)
  const unused = idle.length === 0 ? [] : await notYetUsed(framework, idle)
  const inRing = kids.map((kid) => ({
    kid,
    rows: rowsOf(kid),
    inRing: true,
    removable: idle.includes(kid),
    isNew: unused.includes(kid),
  }))
  const lacking = counts
    .filter(({ kid }) => kid === null || !kids.includes(kid))
    .map(({ kid, rows }) => ({ kid: kid ?? UNREADABLE, rows, inRing: false, removable: false, isNew: false }))
  return { primary, keys: [...inRing, ...lacking] }
}

/**
 * Those that have never been the one that writes: it gets a canary at its first start. Where the key that writes now has none,
 * such as before any start, canaries tell nothing.
 */
async function notYetUsed({ cache, encryption }: Framework, kids: readonly string[]): Promise<string[]> {
  const [primary, ...canaries] = await Promise.all(
    [encryption.primaryKid, ...kids].map((kid) => cache.get(canaryKey(kid))),
  )
  return primary === undefined ? [] : kids.filter((_, at) => canaries[at] === undefined)
}

/**
 * The id of the key that wrote the credentials; null where the text is no envelope: plain or damaged. Rule:
 * docs/behaviour/credentials.md, "At rest". 12 bytes of IV and 16 of tag are 16 and 22 characters of base64url.
 *
 * By the lengths of its parts: one regular expression with them takes six times as long, 400 ms for ten thousand rows.
 */
export const writtenBy = ({ integrations: { credentials } }: Tables) =>
  sql<string | null>`case when ${credentials} like 'v1.%' and ${credentials} !~ '[^A-Za-z0-9_.-]'
      and length(${credentials}) - length(replace(${credentials}, '.', '')) = 4
      and length(split_part(${credentials}, '.', 2)) between 1 and 32
      and length(split_part(${credentials}, '.', 3)) = 16
      and length(split_part(${credentials}, '.', 5)) = 22
    then split_part(${credentials}, '.', 2) end`

async function countRowsByKey(
  db: Database,
  tables: Tables,
): Promise<{ readonly kid: string | null; readonly rows: number }[]> {
  return db
    .select({ kid: writtenBy(tables), rows: sql<number>`count(*)`.mapWith(Number) })
    .from(tables.integrations)
    .groupBy(sql`1`)
    .orderBy(sql`1`)
}

export interface WrittenCredentials {
  readonly id: number
  readonly credentials: string
}

/** One page by ascending id. */
export function pageOfCredentials(
  db: Database,
  { integrations }: Tables,
  { after, limit }: { after: number; limit: number },
  which?: SQL,
): PromiseLike<WrittenCredentials[]> {
  return db
    .select({ id: integrations.id, credentials: integrations.credentials })
    .from(integrations)
    .where(and(gt(integrations.id, after), which))
    .orderBy(asc(integrations.id))
    .limit(limit)
}
