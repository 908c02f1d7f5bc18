/**
 * The configuration in force: default < `config` object < environment. Every fault is found before any is reported.
 * Rule: docs/behaviour/configuration.md.
 */
import { z } from 'zod'
import type { ConfigurationProblem } from '../framework/errors.ts'
import { isRecord } from '../framework/json.ts'
import type { Registered } from './cross-checks.ts'
import { crossProblems, emptyMiddlewareWarnings, middlewareProblems, providerProblems } from './cross-checks.ts'
import { nearestName } from './nearest-name.ts'
import { OPTION_NAMES } from './option-registry.ts'
import type { Faults } from './read-object.ts'
import { nested, readObject, shapeOf } from './read-object.ts'
import { shown } from './received.ts'
import type { Config, ConfigInput, ConfigUnit } from './schema.ts'
import {
  CONFIG_KEYS,
  configValue,
  defaultHandlerTimeout,
  ENVIRONMENT_PREFIX,
  environmentName,
  MIN_RESPONSE_BYTES,
  SECTION_NAMES,
} from './schema.ts'

/** Not a key: another place for the option of this name. */
const PROVIDERS = 'providers'
const SHAPE = shapeOf([
  ...CONFIG_KEYS,
  [PROVIDERS, { allowed: 'an object', schema: z.custom(isRecord), secret: false }],
])

export type ConfigSource = 'default' | 'options' | 'environment'

export interface LoadConfigOptions extends Registered {
  readonly config?: ConfigInput | undefined
  readonly environment?: Readonly<Record<string, string | undefined>> | undefined
}

export interface LoadedConfig {
  /** Frozen, to its last list. */
  readonly config: Config
  /** Where each key's value came from, by dotted name. */
  readonly sources: Readonly<Record<string, ConfigSource>>
  /** For the log, once, at start. */
  readonly warnings: readonly string[]
}

/**
 * Adds every fault of every layer to `problems`, also of values that a higher layer replaces. A faulty value counts as not
 * given.
 */
export function collectConfig(options: LoadConfigOptions, problems: ConfigurationProblem[]): LoadedConfig {
  const inCode = readObject(
    SHAPE,
    { given: options.config === undefined ? {} : options.config, faults: FAULTS },
    problems,
  )
  const inEnvironment = readEnvironment(options.environment ?? process.env, problems)

  const values = new Map<string, unknown>()
  const sources: Record<string, ConfigSource> = {}
  for (const [name, key] of CONFIG_KEYS) {
    values.set(name, key.schema.parse(key.default))
    sources[name] = 'default'
  }
  for (const [source, layer] of [
    ['options', inCode],
    ['environment', inEnvironment],
  ] as const)
    for (const [name, value] of layer.values) {
      if (name === PROVIDERS) continue
      values.set(name, value)
      sources[name] = source
    }
  const warnings = ignoreWhatHasNoEffect(values)
  const config = assemble(values, sources)

  const faulty = new Set([...inCode.faulty, ...inEnvironment.faulty])
  const providers = inCode.values.get(PROVIDERS) as object | undefined
  problems.push(
    ...crossProblems(config, faulty),
    ...providerProblems(Object.keys(providers ?? {}), options),
    ...middlewareProblems(config, options),
  )
  return { config, sources, warnings: [...warnings, ...emptyMiddlewareWarnings(config)] }
}

/** Drops the values that would have no effect, in place. */
function ignoreWhatHasNoEffect(values: Map<string, unknown>): string[] {
  const warnings: string[] = []
  const maxBytes = values.get('logging.max_response_bytes')
  if (typeof maxBytes === 'number' && maxBytes < MIN_RESPONSE_BYTES) {
    values.set('logging.max_response_bytes', null)
    warnings.push(
      `logging.max_response_bytes is ${maxBytes}: values under ${MIN_RESPONSE_BYTES} are ignored, bodies are stored whole.`,
    )
  }
  if (values.get('mappings.collation') !== null) {
    values.set('mappings.collation', null)
    warnings.push('mappings.collation is ignored: Postgres compares external ids exactly.')
  }
  return warnings
}

/** The nested, frozen object. The one place where checked values become the type. */
function assemble(values: ReadonlyMap<string, unknown>, sources: Readonly<Record<string, ConfigSource>>): Config {
  const config = nested(values)
  const complete = config as unknown as Config
  if (sources['webhook.handler_timeout'] === 'default') {
    const handler_timeout = defaultHandlerTimeout(complete.webhook.processing_timeout)
    config.webhook = { ...complete.webhook, handler_timeout }
  }
  return deepFreeze(complete)
}

function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value)
    for (const inner of Object.values(value)) deepFreeze(inner)
  }
  return value
}

/** Values of the environment. A variable that names no key is a problem, told with the nearest one. */
function readEnvironment(environment: NonNullable<LoadConfigOptions['environment']>, problems: ConfigurationProblem[]) {
  const known = new Map([...CONFIG_KEYS.keys()].map((name) => [environmentName(name), name]))
  const variables = new Map<string, { name: string; text: string }>()
  const given = new Map<string, unknown>()
  for (const [variable, text] of Object.entries(environment)) {
    if (!variable.startsWith(ENVIRONMENT_PREFIX) || text === undefined || text === '') continue
    const name = known.get(variable)
    if (name === undefined) {
      const nearest = nearestName(variable, known.keys())
      const expected = `a variable of a known key${nearest === null ? '' : `, did you mean ${nearest}?`}`
      problems.push({ key: variable, expected, received: 'an unknown variable' })
      continue
    }
    variables.set(name, { name: variable, text })
    given.set(name, text === 'null' ? null : CONFIG_KEYS.get(name)?.fromText(text))
  }
  return readObject(SHAPE, { given: nested(given), faults: FAULTS, variables }, problems)
}

const FAULTS: Faults = {
  notAnObject: (given) => ({ key: 'config', expected: 'an object', received: shown(given) }),
  notASection: (section, given) => ({
    key: section,
    expected: `an object with the keys ${section}.*`,
    received: shown(given),
  }),
  unknownName(key, section) {
    // `{'webhook.queue': …}` is written `{webhook: {queue: …}}`.
    if (section === null && key.includes('.')) return { key, expected: asNested(key), received: 'a dotted name' }
    const name = section === null ? key : `${section}.${key}`
    return { key: name, expected: knownKey(name), received: 'an unknown key' }
  },
}

function knownKey(name: string): string {
  if (OPTION_NAMES.has(name)) return `no key of this name: ${name} is an option of createIntegrations() beside config`
  // A key put at the top: the section is missing, the name is right.
  const elsewhere = [...CONFIG_KEYS.keys()].find((known) => known.endsWith(`.${name}`))
  const nearest = elsewhere ?? nearestName(name, [...CONFIG_KEYS.keys(), ...SECTION_NAMES, 'providers'])
  return `a known key${nearest === null ? '' : `, did you mean "${nearest}"?`}`
}

function asNested(dotted: string): string {
  const name = CONFIG_KEYS.has(dotted) ? dotted : (nearestName(dotted, CONFIG_KEYS.keys()) ?? 'section.key')
  const [section, inner] = name.split('.')
  return `nested objects, such as { ${section}: { ${inner}: … } }`
}

export interface ConfigEntry {
  readonly key: string
  /** What is in force; a secret is masked. */
  readonly value: unknown
  readonly source: ConfigSource
  readonly default: unknown
  readonly unit: ConfigUnit | null
  readonly meaning: string
}

/** In the order of the reference table. */
export function describeConfig({ config, sources }: LoadedConfig): readonly ConfigEntry[] {
  return [...CONFIG_KEYS].map(([key, { default: declared, unit, meaning, secret }]) => ({
    key,
    value: secret ? maskedList(configValue(config, key)) : configValue(config, key),
    source: sources[key] ?? 'default',
    default: key === 'webhook.handler_timeout' ? defaultHandlerTimeout(config.webhook.processing_timeout) : declared,
    unit,
    meaning,
  }))
}

/** How many there are, and nothing of them; an empty list, and null, are shown as they are. Whatever is no list shows nothing at all. */
function maskedList(value: unknown): unknown {
  if (value === null) return value
  if (!Array.isArray(value)) return '(masked)'
  if (value.length === 0) return value
  return `${value.length} ${value.length === 1 ? 'entry' : 'entries'} (masked)`
}
