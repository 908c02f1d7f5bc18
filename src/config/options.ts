/**
 * The options of `createIntegrations()` that are no keys: their checks and their defaults from the environment.
 * Rule: docs/behaviour/configuration.md, "Options".
 */
import type { ConfigurationProblem } from '../framework/errors.ts'
import { nearestName } from './nearest-name.ts'
import { OPTION_NAMES, OPTIONS, VARIABLES } from './option-registry.ts'
import type { Faults } from './read-object.ts'
import { nested, readObject, shapeOf } from './read-object.ts'
import { masked } from './received.ts'
import { CONFIG_KEYS, SECTION_NAMES } from './schema.ts'
import type { ValueKind } from './value-kinds.ts'

export interface CheckedOptions {
  /** Without a trailing slash; null when none is given. Default: INTEGRATIONS_BASE_URL. */
  readonly baseUrl: string | null
  /** Default: INTEGRATIONS_DEV=1. Refused where NODE_ENV is production. */
  readonly dev: boolean
  /** Of the built-in logger. Default: `info`. */
  readonly logLevel: string
}

type Environment = Readonly<Record<string, string | undefined>>

const SHAPE = shapeOf(Object.entries(OPTIONS))
const VARIABLE_KINDS: ReadonlyMap<string, ValueKind<unknown>> = new Map(
  Object.entries(VARIABLES).flatMap(([name, { kind }]) => (kind === null ? [] : [[name, kind]])),
)
const VARIABLE_SHAPE = shapeOf(VARIABLE_KINDS)
/** Only ours: a fault in such a variable is told although an option takes its place. */
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
  const { values: given, faulty } = readObject(SHAPE, { given: options, faults: FAULTS }, problems)
  const variables = new Map<string, { name: string; text: string }>()
  const texts = new Map<string, unknown>()
  for (const [option, { variable, fromText }] of Object.entries(OPTIONS)) {
    const text = variable === null ? undefined : environment[variable]
    if (variable === null || text === undefined || text === '') continue
    if ((given.has(option) || faulty.has(option)) && !variable.startsWith(OUR_VARIABLES)) continue
    variables.set(option, { name: variable, text })
    texts.set(option, fromText(text))
  }
  const { values: defaults } = readObject(SHAPE, { given: nested(texts), faults: FAULTS, variables }, problems)

  const baseUrl = given.get('baseUrl') ?? defaults.get('baseUrl')
  const dev = given.get('dev') ?? defaults.get('dev')
  if (dev === true && environment.NODE_ENV === 'production') {
    const origin = given.has('dev') ? '' : ' from INTEGRATIONS_DEV'
    problems.push({ key: 'dev', expected: 'false where NODE_ENV is production', received: `true${origin}` })
  }
  const logLevel = checkVariables(environment, problems).get('LOG_LEVEL')
  return {
    baseUrl: typeof baseUrl === 'string' ? baseUrl : null,
    dev: dev === true,
    logLevel: typeof logLevel === 'string' ? logLevel : 'info',
  }
}

/** Variables that stand for no option. */
function checkVariables(environment: Environment, problems: ConfigurationProblem[]): ReadonlyMap<string, unknown> {
  const given = [...VARIABLE_KINDS].flatMap(([name, kind]) => {
    const text = environment[name]
    return text === undefined || text === '' ? [] : [[name, kind.fromText(text)] as const]
  })
  return readObject(VARIABLE_SHAPE, { given: nested(given), faults: FAULTS }, problems).values
}

const FAULTS: Faults = {
  // Not shown: the value may be the database's URL.
  notAnObject: () => ({ key: 'options', expected: 'an object', received: 'no object' }),
  notASection: (group, given) => ({
    key: group,
    expected: `an object with ${fieldsOf(group)}`,
    received: masked(given),
  }),
  unknownName(key, group) {
    const name = group === null ? key : `${group}.${key}`
    return { key: name, expected: knownOption(name), received: 'an unknown option' }
  },
}

function knownOption(name: string): string {
  if (SECTION_NAMES.has(name)) return `it under config, as { config: { ${name}: { … } } }`
  const key = CONFIG_KEYS.has(name) ? name : [...CONFIG_KEYS.keys()].find((known) => known.endsWith(`.${name}`))
  if (key !== undefined) {
    const [section, inner] = key.split('.')
    return `it under config, as { config: { ${section}: ${inner === undefined ? '…' : `{ ${inner}: … }`} } }`
  }
  const [group = ''] = name.split('.')
  if (group !== name && SHAPE.sections.has(group)) return `one of ${fieldsOf(group)}`
  const nearest = nearestName(name, OPTION_NAMES)
  return `a known option${nearest === null ? '' : `, did you mean "${nearest}"?`}`
}

function fieldsOf(group: string): string {
  return Object.keys(OPTIONS)
    .filter((name) => name.startsWith(`${group}.`))
    .join(', ')
}
