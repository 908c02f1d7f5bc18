/** What the framework asks of a logger: pino's and most others' shape. Fields first, then the sentence. */
export interface Logger {
  debug(fields: Record<string, unknown>, message: string): void
  info(fields: Record<string, unknown>, message: string): void
  warn(fields: Record<string, unknown>, message: string): void
  error(fields: Record<string, unknown>, message: string): void
}

/** Where the time comes from. Tests put a clock of their own in its place. */
export interface Clock {
  now(): Date
}

export const systemClock: Clock = { now: () => new Date() }

/** An error as one line for a log row: `Name: message (code)`, no stack. */
export function errorLine(error: unknown, maxLength: number): string {
  if (!(error instanceof Error)) return storable(text(error)).slice(0, maxLength)
  const code =
    'code' in error && (typeof error.code === 'string' || typeof error.code === 'number')
      ? storable(` (${error.code})`).slice(0, maxLength)
      : ''
  return storable(`${error.name}: ${error.message}`).slice(0, maxLength - code.length) + code
}

/** Anything can be thrown, also what has no text: an object without a prototype. */
function text(thrown: unknown): string {
  try {
    return String(thrown)
  } catch {
    return typeof thrown
  }
}

/** Postgres holds no U+0000. */
function storable(line: string): string {
  return line.replaceAll('\u0000', '')
}
