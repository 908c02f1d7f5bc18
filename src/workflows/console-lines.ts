/**
 * Turns a host workflow's `console` calls into lines of the worker's log. Without this the SDK would write them unchanged to
 * the process's stdout.
 *
 * Rule: docs/behaviour/logs.md, "Fields".
 */
import type { WorkflowInterceptors } from '@temporalio/workflow'
import { log } from '@temporalio/workflow'

/** The SDK calls this at the start of each workflow. It replaces that workflow's `console` and intercepts nothing. */
export function interceptors(): WorkflowInterceptors {
  const at =
    (level: 'debug' | 'info' | 'warn' | 'error') =>
    (...said: unknown[]) =>
      log[level](said.map(shown).join(' '), { event: 'workflow.console' })
  const lines = { debug: at('debug'), log: at('info'), info: at('info'), warn: at('warn'), error: at('error') }
  Object.assign(globalThis, { console: lines })
  return {}
}

function shown(value: unknown): string {
  if (typeof value === 'string') return value
  if (value instanceof Error) return `${value.name}: ${value.message}`
  try {
    return JSON.stringify(value) ?? String(value)
  } catch {
    // It is circular, or holds a bigint.
    return String(value)
  }
}
