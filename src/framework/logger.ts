import { field, thrownTexts } from './thrown.ts'

/** What the framework asks of a logger: pino's and most others' shape. Fields first, then the sentence. */
export interface Logger {
  debug(fields: Record<string, unknown>, message: string): void
  info(fields: Record<string, unknown>, message: string): void
  warn(fields: Record<string, unknown>, message: string): void
  error(fields: Record<string, unknown>, message: string): void
  /** pino's: whether lines of a level are written at all. Without it those of every request are made, and the logger drops them. */
  isLevelEnabled?(level: string): boolean
}

type Level = 'debug' | 'info' | 'warn' | 'error'

/** Where the time comes from. Tests put a clock of their own in its place. */
export interface Clock {
  now(): Date
  /**
   * Replaces the real waits of a call, for its next attempt and for capacity: it moves the clock on. Only the testing kit's
   * clock has it. How long a listing took is then read from `now()`, too.
   */
  wait?(ms: number): Promise<void>
}

export const systemClock: Clock = { now: () => new Date() }

/** An error as one line for a log row: `Name: message (code)`, no stack. Never throws, whatever was thrown. */
export function errorLine(error: unknown, maxLength: number): string {
  const { name, message, code } = thrownTexts(error)
  if (name === null) return lineWithoutNul(message).slice(0, maxLength)
  const end = code === null ? '' : lineWithoutNul(` (${code})`).slice(0, maxLength)
  return lineWithoutNul(`${name}: ${message}`).slice(0, maxLength - end.length) + end
}

/** Postgres holds no U+0000. */
function lineWithoutNul(line: string): string {
  return line.replaceAll('\u0000', '')
}

/**
 * The time of a host's own clock, in milliseconds since the epoch. Null: the host gave no clock, and rows are judged by the
 * database's.
 */
export function givenNowMs({ clock }: { readonly clock: Clock }): number | null {
  return clock === systemClock ? null : clock.now().getTime()
}

/** A logger whose every line has these fields, before the line's own. */
export function boundLogger(logger: Logger, fields: Readonly<Record<string, unknown>>): Logger {
  const { isLevelEnabled } = logger
  return {
    debug: (own, message) => logger.debug({ ...fields, ...own }, message),
    info: (own, message) => logger.info({ ...fields, ...own }, message),
    warn: (own, message) => logger.warn({ ...fields, ...own }, message),
    error: (own, message) => logger.error({ ...fields, ...own }, message),
    ...(isLevelEnabled === undefined ? {} : { isLevelEnabled: (level) => isLevelEnabled.call(logger, level) }),
  }
}

/**
 * A host's own logger, without its faults: a line that can't be written undoes nothing of what it tells, and the
 * rejection of an `async` one does not end the process.
 */
export function unfailingLogger(logger: Logger): Logger {
  const { isLevelEnabled } = logger
  const write = (level: Level, fields: Record<string, unknown>, message: string): void => {
    try {
      const written: unknown = logger[level](fields, message)
      if (typeof field(written, 'then') === 'function') Promise.resolve(written).catch(() => {})
    } catch {
      // The line is lost.
    }
  }
  return {
    debug: (fields, message) => write('debug', fields, message),
    info: (fields, message) => write('info', fields, message),
    warn: (fields, message) => write('warn', fields, message),
    error: (fields, message) => write('error', fields, message),
    ...(isLevelEnabled === undefined ? {} : { isLevelEnabled: (level) => isEnabled(logger, level) }),
  }
}

function isEnabled(logger: Logger, level: string): boolean {
  try {
    return logger.isLevelEnabled?.(level) ?? true
  } catch {
    return true
  }
}

/** A logger whose every line names the integration and its provider, and the stream where it is about one. */
export function integrationLogger(
  { logger }: { readonly logger: Logger },
  { id, provider, stream }: { readonly id: number; readonly provider: string; readonly stream?: string | null },
): Logger {
  return boundLogger(logger, { integration: id, provider, ...(stream == null ? {} : { stream }) })
}
