/**
 * The configuration in force: default < `config` object < environment. Every fault is found before any is reported.
 * Rule: docs/behaviour/configuration.md.
 */

import type { ConfigurationProblem } from '../framework/errors.ts'
import type { Checked } from './check-value.ts'
import { checkValue } from './check-value.ts'
import type { Registered } from './cross-checks.ts'
import { crossProblems, emptyMiddlewareWarnings, middlewareProblems, providerProblems } from './cross-checks.ts'
import { refuse } from './faults.ts'
import { nearestName } from './nearest-name.ts'
import { OPTION_NAMES } from './option-registry.ts'
import { isRecord, shown } from './received.ts'
import type { Config, ConfigInput, ConfigKey } from './schema.ts'
import {
  CONFIG_KEYS,
  defaultHandlerTimeout,
  ENVIRONMENT_PREFIX,
  environmentName,
  MIN_RESPONSE_BYTES,
  SECTION_NAMES,
} from './schema.ts'

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

/** @throws InvalidConfiguration with every fault of every layer, also of values that a higher layer replaces */
export function loadConfig(options: LoadConfigOptions = {}): LoadedConfig {
  const problems: ConfigurationProblem[] = []
  const loaded = collectConfig(options, problems)
  refuse(problems)
  return loaded
}

/** As {@link loadConfig}, with every fault added to `problems`; a faulty value counts as not given. */
export function collectConfig(options: LoadConfigOptions, problems: ConfigurationProblem[]): LoadedConfig {
  const given = [
    ...givenInCode(options.config === undefined ? {} : options.config, problems),
    ...givenInEnvironment(options.environment ?? process.env, problems),
  ]

  const values = new Map<string, unknown>()
  const sources: Record<string, ConfigSource> = {}
  for (const [name, key] of CONFIG_KEYS) {
    values.set(name, key.schema.parse(key.default))
    sources[name] = 'default'
  }
  const faulty = new Set<string>()
  for (const entry of given) {
    const checked = check(entry)
    sources[entry.name] = entry.source
    if (checked.ok) values.set(entry.name, checked.value)
    else {
      problems.push(...checked.problems)
      faulty.add(entry.name)
    }
  }
  const warnings = ignoreWhatHasNoEffect(values)
  const config = assemble(values, sources)

  problems.push(
    ...crossProblems(config, faulty),
    ...providerProblems(providersOf(options.config), options),
    ...middlewareProblems(config, options),
  )
  return { config, sources, warnings: [...warnings, ...emptyMiddlewareWarnings(config)] }
}

function check({ name, key, value, text }: GivenValue): Checked {
  const variable = text === undefined ? {} : { variable: { name: environmentName(name), text } }
  return checkValue({ name, kind: key, value, ...variable })
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
  const config: Record<string, unknown> = {}
  for (const [name, value] of values) {
    const [section, inner] = name.split('.')
    if (section === undefined) continue
    if (inner === undefined) config[section] = value
    else config[section] = { ...(config[section] as Record<string, unknown> | undefined), [inner]: value }
  }
  const complete = config as unknown as Config
  if (sources['webhook.handler_timeout'] === 'default') {
    const handler_timeout = defaultHandlerTimeout(complete.webhook.processing_timeout)
    config.webhook = { ...complete.webhook, handler_timeout }
  }
  return deepFreeze(complete)
}

function providersOf(config: ConfigInput | null | undefined): string[] {
  const providers: unknown = config?.providers
  return typeof providers === 'object' && providers !== null ? Object.keys(providers) : []
}

function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value)
    for (const inner of Object.values(value)) deepFreeze(inner)
  }
  return value
}

/** A value that some layer gives for a known key, not yet checked. */
interface GivenValue {
  readonly name: string
  readonly key: ConfigKey<unknown>
  readonly value: unknown
  readonly source: 'options' | 'environment'
  /** The text of the variable, when it comes from one. */
  readonly text?: string
}

/** Values of the `config` object, key by key. A name that is no key is a problem, told with the nearest key. */
function givenInCode(config: unknown, problems: ConfigurationProblem[]): GivenValue[] {
  if (!isRecord(config)) {
    problems.push({ key: 'config', expected: 'an object', received: shown(config) })
    return []
  }
  const given: GivenValue[] = []
  const give = (name: string, value: unknown) => {
    if (value === undefined) return
    const key = CONFIG_KEYS.get(name)
    if (key !== undefined) given.push({ name, key, value, source: 'options' })
    else problems.push({ key: name, expected: knownKey(name), received: 'an unknown key' })
  }
  for (const [name, value] of Object.entries(config)) {
    if (value === undefined) continue
    if (name === 'providers') {
      if (!isRecord(value)) problems.push({ key: name, expected: 'an object', received: shown(value) })
    } else if (!SECTION_NAMES.has(name)) {
      // `{'webhook.queue': …}` is written `{webhook: {queue: …}}`.
      if (name.includes('.')) problems.push({ key: name, expected: nested(name), received: 'a dotted name' })
      else give(name, value)
    } else if (isRecord(value)) {
      for (const [inner, innerValue] of Object.entries(value)) give(`${name}.${inner}`, innerValue)
    } else {
      problems.push({ key: name, expected: `an object with the keys ${name}.*`, received: shown(value) })
    }
  }
  return given
}

/** Values of the environment, key by key. A variable that names no key is a problem, told with the nearest one. */
function givenInEnvironment(
  environment: Readonly<Record<string, string | undefined>>,
  problems: ConfigurationProblem[],
): GivenValue[] {
  const known = new Map([...CONFIG_KEYS].map(([name, key]) => [environmentName(name), { name, key }]))
  const given: GivenValue[] = []
  for (const [variable, text] of Object.entries(environment)) {
    if (!variable.startsWith(ENVIRONMENT_PREFIX) || text === undefined || text === '') continue
    const entry = known.get(variable)
    if (entry === undefined) {
      const nearest = nearestName(variable, known.keys())
      const expected = `a variable of a known key${nearest === null ? '' : `, did you mean ${nearest}?`}`
      problems.push({ key: variable, expected, received: 'an unknown variable' })
      continue
    }
    const value = text === 'null' ? null : entry.key.fromText(text)
    given.push({ ...entry, value, source: 'environment', text })
  }
  return given
}

function knownKey(name: string): string {
  if (OPTION_NAMES.has(name)) return `no key of this name: ${name} is an option of createIntegrations() beside config`
  // A key put at the top: the section is missing, the name is right.
  const elsewhere = [...CONFIG_KEYS.keys()].find((known) => known.endsWith(`.${name}`))
  const nearest = elsewhere ?? nearestName(name, [...CONFIG_KEYS.keys(), ...SECTION_NAMES, 'providers'])
  return `a known key${nearest === null ? '' : `, did you mean "${nearest}"?`}`
}

function nested(dotted: string): string {
  const name = CONFIG_KEYS.has(dotted) ? dotted : (nearestName(dotted, CONFIG_KEYS.keys()) ?? 'section.key')
  const [section, inner] = name.split('.')
  return `nested objects, such as { ${section}: { ${inner}: … } }`
}
