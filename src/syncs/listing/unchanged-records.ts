import type { Framework } from '../../framework/context.ts'
import type { Json } from '../../framework/json.ts'
import type { HasScheduledSync, SkipUnchanged } from '../../providers/contracts.ts'
import { recordHash } from '../record-hash-rules.ts'
import { forgetPartsBeyond, markUnchanged, unchangedSoFar } from '../record-queries.ts'
import type { SyncOf } from '../sync-jobs.ts'
import type { ListedItem } from './listing-queries.ts'
import { keyOf } from './listing-session.ts'

/** How far a listing had got, as its bookmark keeps it. */
export type UnchangedSoFar = {
  readonly count: number
  /** What the provider's reducer made of their checkpoints. */
  readonly checkpoint: Json
  /** Parts of the listing that were stored. */
  readonly parts: number
}

interface UnchangedOptions {
  readonly of: SyncOf
  readonly syncLogId: number
  readonly skip: SkipUnchanged
  /** False: a backfill runs each item again. Their hashes are kept. */
  readonly compares: boolean
  readonly reduce: HasScheduledSync['reduceCheckpoints']
  /** Null: the listing begins at its beginning. */
  readonly resume: UnchangedSoFar | null
}

/**
 * The records of a listing that are as they were handled last. They are counted, and no item is stored for them.
 *
 * Rule: docs/behaviour/sync-changes.md, "An unchanged record".
 */
export class UnchangedRecords {
  #count: number
  #checkpoint: Json
  #parts: number
  readonly #framework: Framework
  readonly #options: UnchangedOptions
  readonly #keys = new Set<string>()

  constructor(framework: Framework, options: UnchangedOptions) {
    this.#framework = framework
    this.#options = options
    this.#count = options.resume?.count ?? 0
    this.#checkpoint = options.resume?.checkpoint ?? null
    this.#parts = options.resume?.parts ?? 0
  }

  get soFar(): UnchangedSoFar {
    return { count: this.#count, checkpoint: this.#checkpoint, parts: this.#parts }
  }

  /** Reads which ones the tries before the bookmark have found; of later parts they count no more. @param know called with each */
  async resume(know: (eventClass: string, externalId: string) => void): Promise<void> {
    const { db, tables } = this.#framework
    const { of, syncLogId } = this.#options
    const upTo = { syncLogId, part: this.#parts }
    await forgetPartsBeyond(db, tables, of, upTo)
    for (const { eventClass, externalId } of await unchangedSoFar(db, tables, of, upTo)) {
      this.#keys.add(keyOf({ eventClass, externalId }))
      know(eventClass, externalId)
    }
  }

  /** A changed copy has a row, which outranks the note of an earlier copy: a newer one takes its place. */
  noteStored(item: Pick<ListedItem, 'eventClass' | 'externalId'>): void {
    this.#keys.delete(keyOf(item))
  }

  /** @returns the items that are to be stored, with their hashes */
  async without(items: readonly ListedItem[]): Promise<ListedItem[]> {
    const { skip, compares, reduce } = this.#options
    const hashed = items.map((item) =>
      item.externalId === null ? item : { ...item, hash: recordHash(item.payload, skip) },
    )
    this.#parts += 1
    if (!compares) return hashed
    const same = await this.#unchangedAmong(hashed)
    const checkpoints: Json[] = []
    const stored = hashed.flatMap((item) => {
      const key = keyOf(item)
      const isStored = item.externalId === null || !same.has(key)
      if (isStored) {
        // Its earlier copy was unchanged, so it has no row that this one could replace.
        if (!this.#keys.delete(key)) return [item]
        this.#count -= 1
        return [{ ...item, isRepeat: false }]
      }
      if (!this.#keys.has(key)) this.#count += 1
      this.#keys.add(key)
      checkpoints.push(JSON.parse(item.checkpoint) as Json)
      return []
    })
    const present = [this.#checkpoint, ...checkpoints].filter((checkpoint) => checkpoint !== null)
    if (checkpoints.length > 0 && present.length > 0) this.#checkpoint = reduce(present)
    return stored
  }

  async #unchangedAmong(hashed: readonly ListedItem[]): Promise<ReadonlySet<string>> {
    const { db, tables } = this.#framework
    const { of, syncLogId } = this.#options
    const asked = hashed.flatMap((item) => {
      const { eventClass, externalId, hash, isRepeat } = item
      // A newer copy of a stored item takes its place, whatever it says.
      if (externalId === null || hash == null || (isRepeat && !this.#keys.has(keyOf(item)))) return []
      return [{ eventClass, externalId, hash }]
    })
    const same = await markUnchanged(db, tables, of, { syncLogId, part: this.#parts }, asked)
    return new Set(same.map((record) => keyOf(record)))
  }
}
