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
  if (!(error instanceof Error)) return String(error).slice(0, maxLength)
  const code =
    'code' in error && (typeof error.code === 'string' || typeof error.code === 'number') ? ` (${error.code})` : ''
  const message = error.message.replaceAll('\u0000', '')
  return `${error.name}: ${message}`.slice(0, maxLength - code.length) + code
}
