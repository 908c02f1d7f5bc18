/**
 * Whether a value can be the id of a row, ours or a host's: a whole number from 1 to 2^53 - 1, which is what a JS number
 * holds exactly.
 */
export function isId(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) > 0
}
