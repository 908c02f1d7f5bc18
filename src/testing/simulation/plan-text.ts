/** A plan as source text, and the test file that keeps it. */
import type { Plan } from './plan.ts'

/** A step on a line: `{ change: 'place', seed: 4 },`. */
export function planText({ skewSeconds, steps }: Plan, indent = ''): string {
  return [
    '{',
    ...(skewSeconds === undefined ? [] : [`  skewSeconds: ${skewSeconds},`]),
    ...(steps.length === 0
      ? ['  steps: [],']
      : ['  steps: [', ...steps.map((step) => `    ${literal(step)},`), '  ],']),
    '}',
  ].join(`\n${indent}`)
}

interface KeptPlan {
  readonly plan: Plan
  readonly seed: number
  /** The invariants that break. */
  readonly broken: readonly string[]
  /** Module name of the scenario, as the test file imports it. */
  readonly scenario: string
}

/** A test for vitest that fails until the host is mended, and keeps it mended. */
export function testFileText({ plan, seed, broken, scenario }: KeptPlan): string {
  return `/** Found by \`integrations simulate\` with the seed ${seed}, and made smaller. */
import { replay } from 'durable-integrations/testing'
import { it } from 'vitest'
import scenario from ${quoted(scenario)}

it(${quoted(broken.join('; '))}, async () => {
  await replay(scenario, ${planText(plan, '  ')})
}, 60_000)
`
}

function literal(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(literal).join(', ')}]`
  if (typeof value === 'string') return quoted(value)
  if (typeof value !== 'object' || value === null) return String(value)
  const fields = Object.entries(value).map(([name, inner]) => `${name}: ${literal(inner)}`)
  return `{ ${fields.join(', ')} }`
}

function quoted(text: string): string {
  return `'${JSON.stringify(text).slice(1, -1).replaceAll('\\"', '"').replaceAll("'", "\\'")}'`
}
