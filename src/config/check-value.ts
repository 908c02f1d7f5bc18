/** One value against what its kind allows. Each field that is wrong is a problem of its own. */

import type { z } from 'zod'
import type { ConfigurationProblem } from '../framework/errors.ts'
import { masked, shown } from './received.ts'
import type { ValueKind } from './value-kinds.ts'

/** A value that some layer gives, not yet checked. */
export interface UncheckedValue {
  /** As problems name it, such as `webhook.queue`. */
  readonly name: string
  readonly kind: Pick<ValueKind<unknown>, 'allowed' | 'schema' | 'secret'>
  readonly value: unknown
  /** The variable that it comes from, and its text. */
  readonly variable?: { readonly name: string; readonly text: string }
}

export type Checked =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly problems: readonly ConfigurationProblem[] }

export function checkValue({ name, kind, value, variable }: UncheckedValue): Checked {
  const result = kind.schema.safeParse(value)
  if (result.success) return { ok: true, value: result.data }

  const origin = variable === undefined ? '' : ` from ${variable.name}`
  const problems = new Map<string, ConfigurationProblem>()
  const report = (path: readonly PropertyKey[], expected: string, received: string) => {
    const at = [name, ...path.map(String)].join('.')
    if (!problems.has(at)) problems.set(at, { key: at, expected, received: received + origin })
  }
  for (const issue of result.error.issues) {
    if (issue.code === 'unrecognized_keys') {
      for (const field of issue.keys) report([...issue.path, field], 'no such field', 'an unknown field')
    } else {
      const atRoot = issue.path.length === 0
      const received = atRoot && variable !== undefined ? variable.text : wrongPart(value, issue)
      report(issue.path, atRoot ? kind.allowed : issue.message, kind.secret ? masked(received) : shown(received))
    }
  }
  return { ok: false, problems: [...problems.values()] }
}

/** What stands where the issue is, unless the check says that something else is wrong: a name instead of its value. */
function wrongPart(value: unknown, issue: z.core.$ZodIssue): unknown {
  if (issue.code === 'custom' && issue.params !== undefined && 'received' in issue.params) return issue.params.received
  return issue.path.reduce<unknown>((inner, step) => (inner as Record<PropertyKey, unknown> | undefined)?.[step], value)
}
