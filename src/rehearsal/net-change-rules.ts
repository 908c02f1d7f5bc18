/** What a rehearsal has changed in the copy, all pieces together. Rule: docs/behaviour/rehearsal.md, "Rows". */
import type { Json } from '../framework/json.ts'
import { canonicalJson } from '../framework/json.ts'
import { NOW } from './moment-rules.ts'
import type { Piece, RowChange } from './rehearsal-jobs.ts'

interface Image {
  /** How often it is there more than before. */
  more: number
  /** The last one that wrote it, or took it away. */
  by: Piece
  readonly change: RowChange
}

/**
 * Rows that are there and were not, and rows that were there and are not, by the piece that did it last. What was handled has left its
 * rows in the copy, so a handler that may run twice changes nothing: an older delivery may put an older state back, and a newer one
 * the newest. Columns in which the rehearsal's own moments stand are not looked at.
 */
export function netChanges(pieces: readonly Piece[]): Map<Piece, readonly RowChange[]> {
  const moving = movingColumns(pieces)
  const images = new Map<string, Image>()
  for (const piece of pieces)
    for (const change of piece.now?.rows ?? []) {
      if (change.operation === 'insert') continue
      for (const [row, sign] of [[change.before, -1] as const, [change.after, 1] as const]) {
        if (row === null) continue
        const kept = Object.entries(row).filter(([column]) => !moving.has(`${change.table} ${column}`))
        const key = `${change.table} ${canonicalJson(Object.fromEntries(kept) as Json)}`
        const image = images.get(key) ?? { more: 0, by: piece, change }
        images.set(key, { change, by: piece, more: image.more + sign })
      }
    }
  const found = new Map<Piece, RowChange[]>()
  const note = (piece: Piece, change: RowChange): void => {
    const known = found.get(piece) ?? []
    if (!known.includes(change)) found.set(piece, [...known, change])
  }
  for (const { more, by, change } of images.values()) if (more !== 0) note(by, change)
  for (const piece of pieces)
    for (const change of piece.now?.rows ?? []) if (change.operation === 'truncate') note(piece, change)
  return found
}

/** `table column` of each column that holds a moment of the rehearsal. */
function movingColumns(pieces: readonly Piece[]): ReadonlySet<string> {
  const moving = new Set<string>()
  for (const piece of pieces)
    for (const { table, after } of piece.now?.rows ?? [])
      for (const [column, value] of Object.entries(after ?? {})) if (value === NOW) moving.add(`${table} ${column}`)
  return moving
}
