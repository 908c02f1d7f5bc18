/** Rows for a person. Rule: docs/commands.md, "Output". */
import CliTable from 'cli-table3'
import { plain } from './plain.ts'

/** No borders: a line is a row, so that `grep` and `awk` work on it. */
const NO_BORDERS = Object.fromEntries(
  [
    ...['top', 'top-mid', 'top-left', 'top-right', 'bottom', 'bottom-mid', 'bottom-left', 'bottom-right'],
    ...['left', 'left-mid', 'mid', 'mid-mid', 'right', 'right-mid'],
  ].map((part) => [part, '']),
)

/** Rows as a table with these columns; control characters of foreign text are stripped, null is `-`. */
export function table(columns: readonly string[], rows: readonly (readonly unknown[])[]): string {
  const drawn = new CliTable({
    head: columns.map(plain),
    chars: { ...NO_BORDERS, middle: '  ' },
    colAligns: columns.map((_, column) => (isNumeric(rows, column) ? 'right' : 'left')),
    style: { head: [], border: [], 'padding-left': 0, 'padding-right': 0 },
  })
  for (const row of rows) drawn.push(row.map(cell))
  return drawn
    .toString()
    .split('\n')
    .map((line) => line.trimEnd())
    .join('\n')
}

function isNumeric(rows: readonly (readonly unknown[])[], column: number): boolean {
  const values = rows.map((row) => row[column]).filter((value) => value !== null && value !== undefined)
  return values.length > 0 && values.every((value) => typeof value === 'number')
}

function cell(value: unknown): string {
  if (value === null || value === undefined || value === '') return '-'
  if (value instanceof Date) return value.toISOString()
  if (typeof value === 'boolean') return value ? 'yes' : 'no'
  return plain(typeof value === 'object' ? JSON.stringify(value) : String(value))
}
