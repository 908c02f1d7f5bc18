/** Whether the key ring is the one that wrote the database. Rule: docs/behaviour/credentials.md, "At start". */
import { EncryptionKeyMismatch } from '../core/errors.ts'
import { storedKeyIds } from '../db/queries/integrations.ts'
import type { Framework } from '../framework.ts'

const canaryKey = (kid: string): string => `canary:${kid}`

/**
 * Reads one known text per key; the primary's is written if there is none yet.
 *
 * @throws EncryptionKeyMismatch naming the keys: other bytes under an id, or rows written with a key that the ring lacks
 */
export async function verifyKeys({ cache, db, tables, encryption }: Framework): Promise<void> {
  const wrong: string[] = []
  for (const kid of encryption.kids) {
    const stored = await cache.get(canaryKey(kid))
    if (stored !== undefined && !encryption.verifyCanary(kid, String(stored))) wrong.push(kid)
    if (stored === undefined && kid === encryption.primaryKid)
      await cache.set(canaryKey(kid), encryption.canary(kid), null)
  }
  const missing = (await storedKeyIds(db, tables)).filter((kid) => !encryption.kids.includes(kid))
  if (wrong.length > 0 || missing.length > 0) throw new EncryptionKeyMismatch(wrong, missing)
}
