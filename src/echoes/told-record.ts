/** Which record an answer, a delivery or an item tells of, and what it says. Rule: docs/behaviour/echoes.md, "What a provider declares". */
import { createHash } from 'node:crypto'
import type { Json } from '../framework/json.ts'
import { canonicalJson, isJson, isStorableJson } from '../framework/json.ts'
import type { RecognisesEchoes, Told } from '../providers/contracts.ts'

/** Of the column. A longer key, and one that Postgres can't hold, is stored as its SHA-256. */
const MAX_KEY_LENGTH = 255

/** A record, and the digest of what was said about it. */
export interface HashedRecord {
  readonly key: string
  readonly hash: string
}

/** Null: the provider knows no record in it. @throws TypeError for a key or a content that is none; whatever the provider throws */
export function hashedRecord(provider: RecognisesEchoes, told: Told): HashedRecord | null {
  const record = provider.toldRecord(told)
  if (record === null) return null
  if (typeof record.key !== 'string' || record.key === '')
    throw new TypeError(`the key of toldRecord() is a text that is not empty; it gave ${typeof record.key}`)
  return { key: storedKey(record.key), hash: contentHash(record.content) }
}

/** @throws TypeError for what has no JSON */
export function contentHash(content: Json): string {
  if (!isJson(content)) throw new TypeError('the content of toldRecord() is JSON; it gave something else')
  return sha256(canonicalJson(content))
}

export function storedKey(key: string): string {
  return key.length <= MAX_KEY_LENGTH && isStorableJson(key) ? key : sha256(key)
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
