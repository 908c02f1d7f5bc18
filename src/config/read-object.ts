/** Reads an object of values by one zod object that is made of their kinds. Each value that is wrong is a problem of its own. */
import { z } from 'zod'
import type { ConfigurationProblem } from '../framework/errors.ts'
import { masked, maskedNoJson, shown } from './received.ts'
import type { ValueKind } from './value-kinds.ts'

type Kind = Pick<ValueKind<unknown>, 'allowed' | 'schema' | 'secret'>

/** Kinds by dotted name; a dot parts a section and its key. */
export interface Shape {
  readonly kinds: ReadonlyMap<string, Kind>
  readonly sections: ReadonlySet<string>
  readonly schema: z.ZodType
}

/** Problems whose words depend on what is read. */
export interface Faults {
  notAnObject(given: unknown): ConfigurationProblem
  notASection(section: string, given: unknown): ConfigurationProblem
  unknownName(key: string, section: string | null): ConfigurationProblem
}

export interface Source {
  readonly given: unknown
  readonly faults: Faults
  /** Variables that values come from, and their text, by dotted name. */
  readonly variables?: ReadonlyMap<string, { readonly name: string; readonly text: string }>
}

/** Every value may be left out; a name that is not there is refused. */
export function shapeOf(entries: Iterable<readonly [name: string, kind: Kind]>): Shape {
  const kinds = new Map(entries)
  const optional = [...kinds].map(([name, { schema }]) => [name, schema.optional()] as const)
  const fields: Record<string, unknown> = nested(optional)
  const sections = new Set<string>()
  for (const [name] of kinds) {
    const [section = '', key] = name.split('.')
    if (key === undefined || sections.has(section)) continue
    sections.add(section)
    fields[section] = strictObject(fields[section]).optional()
  }
  return { kinds, sections, schema: strictObject(fields) }
}

/** zod alone takes a list for an object. */
function strictObject(fields: unknown): z.ZodType {
  const schema = z.strictObject(fields as Record<string, z.ZodType>)
  return z.preprocess((given) => (Array.isArray(given) ? null : given), schema)
}

/** `[['webhook.queue', 'a']]` as `{webhook: {queue: 'a'}}`. */
export function nested(values: Iterable<readonly [name: string, value: unknown]>): Record<string, unknown> {
  const object: Record<string, unknown> = {}
  for (const [name, value] of values) {
    const [section = '', key] = name.split('.')
    if (key === undefined) object[section] = value
    else object[section] = { ...(object[section] as object | undefined), [key]: value }
  }
  return object
}

/**
 * The values that are given and sound, by dotted name.
 *
 * @param problems gets every fault
 * @returns `faulty`: names with a problem
 */
export function readObject(
  shape: Shape,
  source: Source,
  problems: ConfigurationProblem[],
): { values: Map<string, unknown>; faulty: Set<string> } {
  const faulty = new Set<string>()
  const told = new Set<string>()
  for (const issue of shape.schema.safeParse(source.given).error?.issues ?? []) {
    const name = valueName(shape, issue.path)
    if (name !== null) faulty.add(name)
    for (const problem of name === null ? shapeFaults(source, issue) : valueFaults(shape, source, name, issue)) {
      if (told.has(problem.key)) continue
      told.add(problem.key)
      problems.push(problem)
    }
  }
  const values = new Map<string, unknown>()
  for (const [name, { schema }] of shape.kinds) {
    const value = valueAt(source.given, name.split('.'))
    if (value === undefined || faulty.has(name)) continue
    const sound = schema.safeParse(value)
    if (sound.success) values.set(name, sound.data)
  }
  return { values, faulty }
}

/** The value that an issue is in; null: it is about a section or the object itself. */
function valueName({ kinds, sections }: Shape, path: readonly PropertyKey[]): string | null {
  const [first, second] = path.map(String)
  if (first === undefined) return null
  const name = sections.has(first) ? `${first}.${second}` : first
  return kinds.has(name) ? name : null
}

function shapeFaults({ given, faults }: Source, issue: z.core.$ZodIssue): ConfigurationProblem[] {
  const [section = null] = issue.path.map(String)
  const at = valueAt(given, issue.path)
  if (issue.code === 'unrecognized_keys')
    return issue.keys.filter((key) => valueAt(at, [key]) !== undefined).map((key) => faults.unknownName(key, section))
  return [section === null ? faults.notAnObject(at) : faults.notASection(section, at)]
}

function valueFaults(
  { kinds }: Shape,
  { given, variables }: Source,
  name: string,
  issue: z.core.$ZodIssue,
): ConfigurationProblem[] {
  const { allowed, secret } = kinds.get(name) as Kind
  const variable = variables?.get(name)
  const origin = variable === undefined ? '' : ` from ${variable.name}`
  const key = issue.path.join('.')
  if (issue.code === 'unrecognized_keys')
    return issue.keys.map((field) => ({
      key: `${key}.${field}`,
      expected: 'no such field',
      received: `an unknown field${origin}`,
    }))
  const isWhole = key === name
  const text = isWhole ? variable?.text : undefined
  const part = wrongPart(given, issue)
  const received = secret ? maskedPart(part, text) : shown(text ?? part)
  return [{ key, expected: isWhole ? allowed : issue.message, received: `${received}${origin}` }]
}

/** @param text of its variable: each of a secret is read as JSON, and stays a text if it can't be */
function maskedPart(part: unknown, text: string | undefined): string {
  return text !== undefined && part === text ? maskedNoJson(text) : masked(part)
}

/** The value at the issue, unless the check says that something else is wrong: a name instead of its value. */
function wrongPart(given: unknown, issue: z.core.$ZodIssue): unknown {
  if (issue.code === 'custom' && issue.params !== undefined && 'received' in issue.params) return issue.params.received
  return valueAt(given, issue.path)
}

function valueAt(given: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>((inner, step) => (inner as Record<PropertyKey, unknown> | undefined)?.[step], given)
}
