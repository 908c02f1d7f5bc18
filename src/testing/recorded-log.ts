import type { Logger } from '../framework/logger.ts'

export interface LogLine {
  readonly level: 'debug' | 'info' | 'warn' | 'error'
  readonly fields: Record<string, unknown>
  readonly message: string
}

/** Keeps the lines, and hands them on to the host's own logger if there is one. */
export function recordingLogger(lines: LogLine[], next?: Logger): Logger {
  const at = (level: LogLine['level']) => (fields: Record<string, unknown>, message: string) => {
    lines.push({ level, fields, message })
    next?.[level](fields, message)
  }
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}
