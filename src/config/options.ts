/**
 * The options of `createIntegrations()` that are no keys: their checks and their defaults from the environment.
 * Rule: docs/behaviour/configuration.md, "Options".
 */
import type { ConfigurationProblem } from '../framework/errors.ts'
import type { UncheckedValue } from './check-value.ts'
import { checkValue } from './check-value.ts'
import { nearestName } from './nearest-name.ts'
import type { Option } from './option-registry.ts'
import { OPTION_NAMES, OPTIONS } from './option-registry.ts'
import { isRecord, masked } from './received.ts'
import { CONFIG_KEYS, SECTION_NAMES } from './schema.ts'
import { VARIABLES } from './variables.ts'

export interface CheckedOptions {
  /** Without a trailing slash; null when none is given. Default: INTEGRATIONS_BASE_URL. */
  readonly baseUrl: string | null
  /** Default: INTEGRATIONS_DEV=1. Refused where NODE_ENV is production. */
  readonly dev: boolean
  /** Of the built-in logger. Default: `info`. */
  readonly logLevel: string
}

type Environment = Readonly<Record<string, string | undefined>>

const REGISTRY: ReadonlyMap<string, Option> = new Map(Object.entries(OPTIONS))
const GROUPS: ReadonlySet<string> = new Set([...OPTION_NAMES].filter((name) => !REGISTRY.has(name)))
/** Nobody else's variables: a fault in one is told although an option takes its place. */
const OUR_VARIABLES = 'INTEGRATIONS_'

/**
 * @param options as they come, unchecked: a host may write JavaScript
 * @returns what is in force; every fault is added to `problems`
 */
export function checkOptions(
  options: unknown,
  environment: Environment,
  problems: ConfigurationProblem[],
): CheckedOptions {
  const given = givenOptions(options, problems)
  const inForce = new Map<string, { value: unknown; origin: string }>()
  for (const [name, kind] of REGISTRY) {
    for (const unchecked of layersOf(name, kind, given, environment)) {
      const checked = checkValue(unchecked)
      const origin = unchecked.variable === undefined ? '' : ` from ${unchecked.variable.name}`
      if (checked.ok) inForce.set(name, { value: checked.value, origin })
      else problems.push(...checked.problems)
    }
  }
  const baseUrl = inForce.get('baseUrl')?.value
  const dev = inForce.get('dev')
  if (dev?.value === true && environment.NODE_ENV === 'production') {
    problems.push({ key: 'dev', expected: 'false where NODE_ENV is production', received: `true${dev.origin}` })
  }
  const variables = checkVariables(environment, problems)
  return {
    baseUrl: typeof baseUrl === 'string' ? baseUrl : null,
    dev: dev?.value === true,
    logLevel: variables.get('LOG_LEVEL') ?? 'info',
  }
}

/** Those that stand for no option. */
function checkVariables(environment: Environment, problems: ConfigurationProblem[]): Map<string, string> {
  const inForce = new Map<string, string>()
  for (const [name, { kind }] of Object.entries(VARIABLES)) {
    const text = environment[name]
    if (kind === null || text === undefined || text === '') continue
    const checked = checkValue({ name, kind, value: kind.fromText(text) })
    if (checked.ok) inForce.set(name, text)
    else problems.push(...checked.problems)
  }
  return inForce
}

/** The variable's value, if it counts, then the one given in code, which wins. */
function layersOf(
  name: string,
  kind: Option,
  given: ReadonlyMap<string, unknown>,
  environment: Environment,
): UncheckedValue[] {
  const layers: UncheckedValue[] = []
  const { variable } = kind
  const text = variable === null ? undefined : environment[variable]
  const counts = !given.has(name) || variable?.startsWith(OUR_VARIABLES)
  if (variable !== null && text !== undefined && text !== '' && counts)
    layers.push({ name, kind, value: kind.fromText(text), variable: { name: variable, text } })
  if (given.has(name)) layers.push({ name, kind, value: given.get(name) })
  return layers
}

/** By name, with those of a group as `group.field`. */
function givenOptions(options: unknown, problems: ConfigurationProblem[]): Map<string, unknown> {
  const given = new Map<string, unknown>()
  if (!isRecord(options)) {
    // Not shown: somebody may have given the database's URL.
    problems.push({ key: 'options', expected: 'an object', received: 'no object' })
    return given
  }
  const give = (name: string, value: unknown): void => {
    if (value === undefined) return
    if (REGISTRY.has(name)) given.set(name, value)
    else problems.push({ key: name, expected: knownOption(name), received: 'an unknown option' })
  }
  for (const [name, value] of Object.entries(options)) {
    if (!GROUPS.has(name)) give(name, value)
    else if (isRecord(value)) for (const [field, inner] of Object.entries(value)) give(`${name}.${field}`, inner)
    else if (value !== undefined) {
      problems.push({ key: name, expected: `an object with ${fieldsOf(name)}`, received: masked(value) })
    }
  }
  return given
}

function knownOption(name: string): string {
  if (SECTION_NAMES.has(name)) return `it under config, as { config: { ${name}: { … } } }`
  const key = CONFIG_KEYS.has(name) ? name : [...CONFIG_KEYS.keys()].find((known) => known.endsWith(`.${name}`))
  if (key !== undefined) {
    const [section, inner] = key.split('.')
    return `it under config, as { config: { ${section}: ${inner === undefined ? '…' : `{ ${inner}: … }`} } }`
  }
  const [group = ''] = name.split('.')
  if (group !== name && GROUPS.has(group)) return `one of ${fieldsOf(group)}`
  const nearest = nearestName(name, OPTION_NAMES)
  return `a known option${nearest === null ? '' : `, did you mean "${nearest}"?`}`
}

function fieldsOf(group: string): string {
  return [...REGISTRY.keys()].filter((name) => name.startsWith(`${group}.`)).join(', ')
}
