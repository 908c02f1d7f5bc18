/**
 * What the two layers above the defaults give, key by key. Names that are no keys are problems, with the nearest key.
 * Rule: docs/behaviour/configuration.md, "Where a value comes from".
 */

import type { ConfigurationProblem } from '../core/errors.ts'
import { isRecord } from './is-record.ts'
import { nearestName } from './nearest-name.ts'
import { OPTION_NAMES } from './option-registry.ts'
import { shown } from './received.ts'
import type { ConfigKey } from './schema.ts'
import { CONFIG_KEYS, ENVIRONMENT_PREFIX, environmentName, SECTION_NAMES } from './schema.ts'

/** A value that some layer gives for a known key, not yet checked. */
export interface GivenValue {
  readonly name: string
  readonly key: ConfigKey<unknown>
  readonly value: unknown
  readonly source: 'options' | 'environment'
  /** The text of the variable, when it comes from one. */
  readonly text?: string
}

export function givenInCode(config: unknown, problems: ConfigurationProblem[]): GivenValue[] {
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

export function givenInEnvironment(
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
