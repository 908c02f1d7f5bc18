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
  const lines = {
    debug: (...said: unknown[]) => log.debug(textOf(said), { event: 'workflow.console' }),
    log: (...said: unknown[]) => log.info(textOf(said), { event: 'workflow.console' }),
    info: (...said: unknown[]) => log.info(textOf(said), { event: 'workflow.console' }),
    warn: (...said: unknown[]) => log.warn(textOf(said), { event: 'workflow.console' }),
    error: (...said: unknown[]) => log.error(textOf(said), { event: 'workflow.console' }),
  }
  Object.assign(globalThis, { console: lines })
  return {}
}

function textOf(said: readonly unknown[]): string {
  return said.map(shown).join(' ')
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
