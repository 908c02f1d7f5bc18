/** An object with names and values. What a host gives may be anything: it may write JavaScript. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
