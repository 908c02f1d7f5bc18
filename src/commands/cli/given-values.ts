/**
 * `--credential key=value` and `--metadata key=value`. No message here shows a value: it may be a secret.
 *
 * Rule: docs/commands.md, "Values".
 */
import { Refused } from '../refused.ts'
import type { SchemaField } from './schema-fields.ts'
import type { TextSources } from './terminal.ts'

export type ValueOption = '--credential' | '--metadata'

export interface ValueSources extends TextSources {
  /** Called for each value that stood on the command line itself. */
  readonly onLiteral: (option: ValueOption, key: string) => void
}

/** Reads `@file`, `env:NAME`, `-` for stdin, or the word itself. Stdin can be read once, whichever option asks for it. */
export function textReader({ environment, file, stdin }: TextSources) {
  let stdinReadBy: string | null = null

  return async (what: string, given: string, onLiteral: () => void): Promise<string> => {
    if (given === '-') {
      if (stdinReadBy !== null)
        throw new Refused('usage', `Stdin is read once: ${stdinReadBy} and ${what} both ask for it.`)
      stdinReadBy = what
      return withoutLastLineBreak(await stdin())
    }
    if (given.startsWith('@')) return withoutLastLineBreak(fileText(what, () => file(given.slice(1))))
    if (given.startsWith('env:')) {
      const name = given.slice('env:'.length)
      const value = environment[name]
      if (value === undefined || value === '')
        throw new Refused('usage', `${what}: the environment has no variable ${name}, or it is empty.`)
      return value
    }
    onLiteral()
    return given
  }
}

/** Reads `key=` and what {@link textReader} reads. */
export function valueReader({ onLiteral, ...sources }: ValueSources) {
  const textOf = textReader(sources)

  return async (
    option: ValueOption,
    words: readonly string[],
    fields: readonly SchemaField[],
  ): Promise<Record<string, unknown>> => {
    const values: Record<string, unknown> = {}
    for (const word of words) {
      const equals = word.indexOf('=')
      if (equals < 1) throw new Refused('usage', `${option} takes key=value; what was given has no key or no "=".`)
      const key = word.slice(0, equals)
      if (Object.hasOwn(values, key)) throw new Refused('usage', `${option} ${key} is given twice.`)
      const text = await textOf(`${option} ${key}`, word.slice(equals + 1), () => onLiteral(option, key))
      const field = fields.find(({ name }) => name === key)
      Object.defineProperty(values, key, { value: readValue(option, field, text), enumerable: true })
    }
    return values
  }
}

/** A string, and what JSON says where the provider's schema takes no string. */
export function readValue(option: string, field: SchemaField | undefined, text: string): unknown {
  if (field === undefined || field.takesString) return text
  try {
    return JSON.parse(text)
  } catch {
    throw new Refused('usage', `${option} ${field.name}: JSON of type ${field.types.join(' or ')} is expected.`)
  }
}

function fileText(what: string, read: () => string): string {
  try {
    return read()
  } catch (error) {
    throw new Refused('usage', `${what}: the file can't be read: ${(error as Error).message}`)
  }
}

/** `echo` and editors add one. */
function withoutLastLineBreak(text: string): string {
  return text.replace(/\r?\n$/, '')
}
