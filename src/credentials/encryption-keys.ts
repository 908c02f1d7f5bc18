/**
 * Which key wrote what, and whether the key ring is the one that wrote the database.
 *
 * Rule: docs/behaviour/credentials.md, "At start" and "A new key".
 */

import type { Framework } from '../framework/context.ts'
import { EncryptionKeyMismatch, isIntegrationsError } from '../framework/errors.ts'
import { countRowsByKey, sampleWrittenBy } from './key-queries.ts'

/** What rows are counted under whose text is no envelope. No key can have this id. */
export const UNREADABLE = '(unreadable)'

const canaryKey = (kid: string): string => `canary:${kid}`

/** So many rows of a key without a canary are tried: one damaged row must not make a good key look wrong. */
const SAMPLE = 10

/**
 * Reads one known text per key, or rows where a key has none; then the primary's is written if there is none yet.
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
  // Last, so that a start that is refused leaves no canary of its wrong key. Added, not set: of two processes that start at
  // the same moment with other bytes under the id, the second must find the first's.
  const isOurs = await cache.add(canaryKey(primaryKid), encryption.canary(primaryKid), null)
  if (!isOurs && (await hasOtherBytes(framework, primaryKid))) throw new EncryptionKeyMismatch([primaryKid], [])
}

async function hasOtherBytes({ cache, db, tables, encryption }: Framework, kid: string): Promise<boolean> {
  const canary = await cache.get(canaryKey(kid))
  if (canary !== undefined) return !encryption.verifyCanary(kid, String(canary))
  const rows = await sampleWrittenBy(db, tables, kid, SAMPLE)
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
  /** True for a key that writes nothing any more and that no row needs. */
  readonly removable: boolean
}

export interface KeyStatus {
  /** The key that writes. */
  readonly primary: string
  /** In the ring's order; then the keys that rows need and the ring lacks. */
  readonly keys: readonly KeyUse[]
}

export async function keyStatus({ db, tables, encryption }: Framework): Promise<KeyStatus> {
  const { kids, primaryKid: primary } = encryption
  const counts = await countRowsByKey(db, tables)
  const rowsOf = (kid: string): number => counts.find((count) => count.kid === kid)?.rows ?? 0
  const inRing = kids.map((kid) => {
    const rows = rowsOf(kid)
    return { kid, rows, inRing: true, removable: kid !== primary && rows === 0 }
  })
  const lacking = counts
    .filter(({ kid }) => kid === null || !kids.includes(kid))
    .map(({ kid, rows }) => ({ kid: kid ?? UNREADABLE, rows, inRing: false, removable: false }))
  return { primary, keys: [...inRing, ...lacking] }
}
