/**
 * A command's input as JSON, in the words of its command line: each name is one that commander knows an argument or an option
 * by, so that nothing is listed twice.
 *
 * Rule: docs/behaviour/commands-as-workflows.md, "Input".
 */
import type { Argument, Command, Option } from 'commander'
import { Refused } from '../refused.ts'

type Fields = Readonly<Record<string, unknown>>

/** They change what a terminal shows, and nothing else. */
const FOR_TERMINALS: ReadonlySet<string> = new Set(['json', 'interactive', 'watch'])

/** @throws Refused with what is allowed, for a name or a kind that is not; no message shows a value, which may be a secret */
export function wordsOf(command: Command, fields: Fields): string[] {
  const args = command.registeredArguments
  const options = command.options.filter((option) => !FOR_TERMINALS.has(option.attributeName()))
  refuseUnknown(command, [...args.map(nameOf), ...options.map((option) => option.attributeName())], fields)
  return [
    command.name(),
    '--json',
    '--no-interactive',
    ...options.flatMap((option) => optionWords(option, fields[option.attributeName()])),
    // From here on a dash is no option's.
    '--',
    ...argumentWords(command.name(), args, fields),
  ]
}

/** `integration-id` is `integrationId`, as commander has it for options. */
const nameOf = (argument: Argument): string =>
  argument.name().replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase())

function refuseUnknown(command: Command, names: readonly string[], fields: Fields): void {
  const known = command.options.map((option) => option.attributeName())
  for (const name of Object.keys(fields)) {
    if (names.includes(name)) continue
    if (FOR_TERMINALS.has(name) && known.includes(name))
      throw new Refused(
        'usage',
        `"${name}" is for terminals: a workflow's result is the document of --json, and nobody watches.`,
      )
    const allowed = names.length === 0 ? 'no input' : names.join(', ')
    throw new Refused('usage', `${command.name()} takes ${allowed}; "${name}" was given.`)
  }
}

function argumentWords(command: string, args: readonly Argument[], fields: Fields): string[] {
  const given = args.filter((argument) => fields[nameOf(argument)] !== undefined)
  for (const [place, argument] of args.entries()) {
    const isNeeded = argument.required || place < given.length
    if (!isNeeded || given.includes(argument)) continue
    const choices = argument.argChoices === undefined ? '' : `: one of ${argument.argChoices.join(', ')}`
    const after = given.at(-1)
    throw new Refused(
      'usage',
      argument.required
        ? `${command} needs "${nameOf(argument)}"${choices}.`
        : `"${after === undefined ? '' : nameOf(after)}" goes with "${nameOf(argument)}", which was not given.`,
    )
  }
  return given.map((argument) => text(nameOf(argument), fields[nameOf(argument)]))
}

function optionWords(option: Option, value: unknown): string[] {
  if (value === undefined) return []
  const name = option.attributeName()
  if (option.isBoolean() || option.negate) {
    if (typeof value !== 'boolean') throw kindRefused(name, 'true or false', value)
    return value === option.negate ? [] : [`${option.long}`]
  }
  return textsOf(option, value).map((word) => `${option.long}=${word}`)
}

/** One for each time that the option is given. */
function textsOf(option: Option, value: unknown): string[] {
  const name = option.attributeName()
  if (option.flags.includes('<key=value>')) return pairs(name, value)
  if (!Array.isArray(value)) return [text(name, value)]
  const texts = value.map((each) => text(name, each))
  if (!mayRepeat(option, texts[0])) throw kindRefused(name, 'a text or a number', value)
  return texts
}

/** Whether the option's parser makes a list of what it is given. A value that it refuses is refused by the program, too. */
function mayRepeat({ variadic, parseArg, defaultValue }: Option, first = ''): boolean {
  if (variadic) return true
  try {
    return Array.isArray(parseArg?.<unknown>(first, defaultValue))
  } catch {
    return true
  }
}

function pairs(name: string, value: unknown): string[] {
  if (Array.isArray(value)) return value.map((each) => text(name, each))
  if (typeof value !== 'object' || value === null) throw kindRefused(name, 'an object such as {"key":"value"}', value)
  return Object.entries(value).map(([key, each]) => `${key}=${typeof each === 'string' ? each : JSON.stringify(each)}`)
}

function text(name: string, value: unknown): string {
  if (typeof value !== 'string' && typeof value !== 'number') throw kindRefused(name, 'a text or a number', value)
  return String(value)
}

function kindRefused(name: string, allowed: string, value: unknown): Refused {
  const kind = value === null ? 'null' : Array.isArray(value) ? 'a list' : `of type ${typeof value}`
  return new Refused('usage', `"${name}" takes ${allowed}; what was given is ${kind}.`)
}
