/**
 * The configuration in force: default < `config` object < environment. Every fault is found before any is reported.
 * Rule: docs/behaviour/configuration.md.
 */

import type { ConfigurationProblem } from '../core/errors.ts'
import type { Checked } from './check-value.ts'
import { checkValue } from './check-value.ts'
import type { Registered } from './cross-checks.ts'
import { crossProblems, emptyMiddlewareWarnings, middlewareProblems, providerProblems } from './cross-checks.ts'
import { refuse } from './faults.ts'
import type { GivenValue } from './given-values.ts'
import { givenInCode, givenInEnvironment } from './given-values.ts'
import type { Config, ConfigInput } from './schema.ts'
import { CONFIG_KEYS, defaultHandlerTimeout, environmentName, MIN_RESPONSE_BYTES } from './schema.ts'

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
