import { z } from 'zod'
import { invalidParameter } from './failures.ts'

/** What a page ends with: opaque to callers, so that nobody builds one. */
const Position = z.strictObject({ at: z.string(), id: z.string() })
type Position = z.infer<typeof Position>

export const cursorOf = (position: Position): string =>
  Buffer.from(JSON.stringify({ at: position.at, id: position.id })).toString('base64url')

export function positionOf(cursor: string): Position {
  try {
    return Position.parse(JSON.parse(Buffer.from(cursor, 'base64url').toString()))
  } catch {
    throw invalidParameter('cursor', 'must be a next_cursor of an answer before')
  }
}

/** By moment, then by the number in the id. */
export function compare(a: Position, b: Position): number {
  if (a.at !== b.at) return a.at < b.at ? -1 : 1
  return numberOf(a.id) - numberOf(b.id)
}

const numberOf = (id: string): number => Number(id.slice(id.indexOf('_') + 1))
