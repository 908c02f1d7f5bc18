/** The command line's door: a command of the table as commander knows it. */
import type { Command } from 'commander'
import { Argument, InvalidArgumentError, Option } from 'commander'
import type { AnyCommand, CommandContext, HostlessContext } from '../command.ts'
import { fieldLines, kebab } from '../command.ts'
import type { Field } from '../fields.ts'
import { isRequired, readValues } from '../fields.ts'
import { Refused } from '../refused.ts'
import type { Frame, Outcome } from './create-frame.ts'
import { plain } from './plain.ts'

export function declare(frame: Frame, definition: AnyCommand): Command {
  const { name, topic, summary, examples, places = [], fields } = definition
  const declared = frame.command(name, summary, examples).helpGroup(`${topic}:`)
  for (const place of places) declared.addArgument(argumentOf(place, fields[place] as Field))
  for (const [field, value] of Object.entries(fields))
    if (!places.includes(field)) declared.addOption(optionOf(field, value))
  const asks = 'confirm' in definition
  if (asks) declared.option('--yes', 'do not ask')
  return declared.action(async (...words: unknown[]) => {
    const command = words.at(-1) as Command
    const { yes, ...options } = command.opts<Record<string, unknown>>()
    for (const [field, value] of Object.entries(options)) if (value === NULL) options[field] = null
    const given = { ...options, ...Object.fromEntries(places.map((place, at) => [place, ofPlace(words[at])])) }
    await run(frame, definition, { given, isSure: yes === true, typed: command })
  })
}

/** What was given, unless it is a free text, a list or an object, which may hold a secret. */
function shownOf(field: Field | undefined, given: unknown): string {
  if (given === undefined) return ', nothing'
  const isOpen = typeof given === 'number' || typeof given === 'boolean'
  const isWord =
    field?.choices !== undefined || ['instant', 'when'].includes(field?.placeholder ?? '') || field?.read('7') === 7
  if (isOpen || (isWord && typeof given === 'string' && given.length <= 100)) return `, ${JSON.stringify(given)}`
  return typeof given === 'object' ? ', a list or an object' : ', another text'
}

/** Commander has an empty list for a repeatable argument that was not given. */
const ofPlace = (given: unknown): unknown => (Array.isArray(given) && given.length === 0 ? undefined : given)

interface Given {
  /** JSON values by the fields' names. */
  readonly given: Readonly<Record<string, unknown>>
  /** Whether the command asks no question. */
  readonly isSure: boolean
  readonly typed?: Command
}

/** @throws Refused where they do not fit, before the host is loaded */
export async function run(frame: Frame, definition: AnyCommand, { given, isSure, typed }: Given): Promise<void> {
  const reading = readValues(definition.fields, given)
  if ('misfits' in reading)
    throw new Refused(
      'usage',
      reading.misfits
        .map(({ name, allowed }) => {
          // `failOn.0` is one of a list.
          const [field = name] = name.split('.')
          return `${name}: ${allowed}${shownOf(definition.fields[field], given[field])} was given.`
        })
        .join(' '),
    )
  const { values } = reading
  definition.check?.(values)
  if ('runWithoutHost' in definition)
    return frame.runWithoutHost(typed, async (context) => {
      const result = await definition.runWithoutHost(context, values)
      return outcome(definition, result, definition.show(result))
    })
  const alone = definition.alone?.(values)
  if (alone !== undefined) return frame.runWithoutHost(typed, async () => outcome(definition, alone.result, alone.text))
  const work = async (context: CommandContext): Promise<Outcome> => {
    const asked = isSure ? null : ((await definition.confirm?.(context, values)) ?? null)
    const { question, agreed } = typeof asked === 'string' ? { question: asked, agreed: values } : (asked ?? {})
    if (question !== undefined) await askOrRefuse(context, question)
    const result = await definition.run(context, agreed ?? values)
    return outcome(definition, result, definition.show?.(result, context) ?? fieldLines(result as object))
  }
  return frame.run(typed, work, definition)
}

const outcome = (
  { document, hasFailed }: Pick<AnyCommand, 'document' | 'hasFailed'>,
  result: unknown,
  text: string,
) => ({
  document: document === undefined ? result : document(result),
  text,
  exitCode: hasFailed?.(result) === true ? (1 as const) : (0 as const),
})

/** @throws Refused on a no, and where no terminal can be asked */
async function askOrRefuse({ terminal }: HostlessContext, question: string): Promise<void> {
  if (!terminal.isInteractive)
    throw new Refused('confirmation_needed', `${question} No one is here to answer; give --yes to go on.`)
  if (!(await terminal.prompts.confirm(plain(question))))
    throw new Refused('confirmation_needed', 'Nothing was changed.')
}

function argumentOf(name: string, field: Field): Argument {
  const shown = `${kebab(name)}${field.isList ? '...' : ''}`
  const argument = new Argument(isRequired(field) ? `<${shown}>` : `[${shown}]`, field.about)
  if (field.choices !== undefined) return argument.choices(field.choices)
  return argument.argParser((word: string, before) => read(field, word, before))
}

function optionOf(name: string, field: Field): Option {
  const { placeholder, isTrueAlone } = field
  const word = placeholder === null ? '' : isTrueAlone ? ` [${placeholder}]` : ` <${placeholder}>`
  const option = new Option(`--${kebab(name)}${word}`, field.about)
  if (placeholder === null) return option
  if (isRequired(field)) option.makeOptionMandatory()
  if (field.choices !== undefined) option.choices(field.choices)
  if (field.choices !== undefined && !field.isList) return option
  return option.argParser((word: string, before) => read(field, word, before) ?? NULL)
}

/** Commander takes a bare null for an option without its value. */
const NULL = Symbol('null')

/** The JSON value of a word; of a list, with those before it. */
function read(field: Field, word: string, before: unknown): unknown {
  const value = field.read(word)
  const alone = field.isList ? [value] : value
  const result = field.schema.safeParse(alone)
  if (!result.success) throw new InvalidArgumentError(`${result.error.issues[0]?.message}, "${word}" was given`)
  return field.isList ? [...((before as unknown[] | undefined) ?? []), value] : value
}
