/**
 * What a command takes, field by field. A field says what it is about, what is allowed, and how a word stands for its value; the
 * command line, a workflow's input, a query and a body are all read by it.
 */
import { z } from 'zod'
import { Instant, instantOrAgo } from '../framework/instant.ts'
import { lossInParsing } from '../framework/json.ts'
import { ALLOWED_PROVIDER_IDENTIFIERS, isProviderIdentifier } from '../integrations/rules.ts'
import { STREAM_LENGTH } from '../syncs/stream-rules.ts'

export interface Field<Value = unknown> {
  /** One line of the help. */
  readonly about: string
  /** In the help, such as `id`. Null: a flag, which takes no value. */
  readonly placeholder: string | null
  /** Of the JSON value. Its error says what is allowed. */
  readonly schema: z.ZodType<Value>
  /** The JSON value that a word of a command line or a query stands for; the word itself where it stands for none. */
  readonly read: (word: string) => unknown
  readonly choices?: readonly string[]
  /** On the command line the option without a value is true. */
  readonly isTrueAlone?: true
  /** May be given several times: the value is a list. */
  readonly isList?: true
  /** Changes what a terminal shows, and nothing else: no workflow and no request has it. */
  readonly isForTerminals?: true
}

// biome-ignore lint/suspicious/noExplicitAny: a field of any value; what `Values` makes of it is typed.
export type Fields = Readonly<Record<string, Field<any>>>

/** What `run()` is given: every field by its name, with its default or undefined where nothing was given. */
export type Values<F extends Fields> = {
  readonly [Name in keyof F]: F[Name] extends Field<infer Value> ? Value : never
}

/** A field that did not fit. */
export interface Misfit {
  readonly name: string
  readonly allowed: string
}

export type Reading<F extends Fields> =
  | { readonly values: Values<F> }
  | { readonly misfits: readonly [Misfit, ...Misfit[]] }

/** @param given JSON values by name; all names are known */
export function readValues<F extends Fields>(fields: F, given: Readonly<Record<string, unknown>>): Reading<F> {
  const values: Record<string, unknown> = {}
  const misfits: Misfit[] = []
  for (const [name, { schema }] of Object.entries(fields)) {
    const result = schema.safeParse(Object.hasOwn(given, name) ? given[name] : undefined)
    if (result.success) values[name] = result.data
    else
      for (const { path, message } of result.error.issues) {
        const misfit = { name: [name, ...path].join('.'), allowed: message }
        // A number beyond what a number holds exactly breaks two rules that say the same.
        if (misfits.at(-1)?.name !== misfit.name) misfits.push(misfit)
      }
  }
  const [first, ...others] = misfits
  return first === undefined ? { values: values as Values<F> } : { misfits: [first, ...others] }
}

/** Those that a workflow's input and a request may have. */
export const openFields = (fields: Fields): Fields =>
  Object.fromEntries(Object.entries(fields).filter(([, { isForTerminals }]) => !isForTerminals))

/** Whether a value has to be given. */
export const isRequired = ({ schema }: Field): boolean => !schema.safeParse(undefined).success

export const optional = <Value>(field: Field<Value>): Field<Value | undefined> => ({
  ...field,
  schema: field.schema.optional(),
})

/** Of a field whose JSON value is the value. */
export const withDefault = <Value>(field: Field<Value>, value: Value): Field<Value> => ({
  ...field,
  about: value === false ? field.about : `${field.about}; default ${JSON.stringify(value).replaceAll('"', '')}`,
  schema: (field.schema as z.ZodType<Value, Value>).default(value as never) as unknown as z.ZodType<Value>,
})

export const forTerminals = <Value>(field: Field<Value>): Field<Value> => ({ ...field, isForTerminals: true })

const same = (word: string): unknown => word
const asNumber = (word: string): unknown => (/^(0|[1-9]\d{0,15})$/.test(word) ? Number(word) : word)
const asFlag = (word: string): unknown => (word === 'true' ? true : word === 'false' ? false : word)

/** An id of a row: 1 to 2^53 - 1, the greatest whole number that JavaScript holds exactly. */
export const id = (about: string, placeholder = 'id'): Field<number> =>
  whole(about, {
    placeholder,
    allowed: `an id is a positive whole number of at most ${Number.MAX_SAFE_INTEGER}`,
  })

/** @param range both ends inclusive; default from 1 */
export function whole(
  about: string,
  {
    min = 1,
    max = Number.MAX_SAFE_INTEGER,
    placeholder = 'n',
    allowed = max === Number.MAX_SAFE_INTEGER
      ? `a whole number of at least ${min} is allowed`
      : `a whole number from ${min} to ${max} is allowed`,
  }: {
    readonly min?: number
    readonly max?: number
    readonly placeholder?: string
    readonly allowed?: string
  } = {},
): Field<number> {
  return { about, placeholder, read: asNumber, schema: z.int({ error: allowed }).min(min, allowed).max(max, allowed) }
}

/** Postgres holds no U+0000 in a text. Not `\0`: the OpenAPI document has the pattern, and few but JavaScript know that escape. */
// biome-ignore-start lint/suspicious/noControlCharactersInRegex: to refuse them
const WITHOUT_NUL = /^[^\u0000]*$/
const OWNER = /^[^:\s\u0000][^\u0000]{0,254}:[1-9]\d{0,15}$/u
// biome-ignore-end lint/suspicious/noControlCharactersInRegex: to refuse them

export function text(about: string, placeholder = 'text', max = 255): Field<string> {
  const allowed = `a text of 1 to ${max} characters without U+0000 is allowed`
  const schema = z
    .string({ error: allowed })
    .min(1, allowed)
    .regex(WITHOUT_NUL, allowed)
    // As Postgres and JSON Schema count: zod's `max()` takes a character beyond U+FFFF for two.
    .refine((given) => given.length <= 2 * max && [...given].length <= max, allowed)
    .meta({ maxLength: max })
  return { about, placeholder, read: same, schema }
}

/** @returns false unless it is given */
export const flag = (about: string): Field<boolean> => ({
  about,
  placeholder: null,
  read: asFlag,
  schema: z.boolean({ error: 'true or false is allowed' }).default(false),
})

/** Of a filter, where it makes a difference whether `false` or nothing is given. */
export const yesOrNo = (about: string): Field<boolean | undefined> => ({
  about,
  // No `|`: it would end the cell of a table on the page.
  placeholder: 'boolean',
  isTrueAlone: true,
  read: asFlag,
  schema: z.boolean({ error: 'true or false is allowed' }).optional(),
})

export const choice = <const Choice extends string>(
  about: string,
  choices: readonly Choice[],
  placeholder = 'which',
): Field<Choice> => ({
  about,
  placeholder,
  choices,
  read: same,
  schema: z.enum(choices as unknown as [Choice, ...Choice[]], { error: `one of ${choices.join(', ')} is allowed` }),
})

/** A moment in ISO 8601 with its offset. */
export const instant = (about: string): Field<Date> => ({ about, placeholder: 'instant', read: same, schema: Instant })

/** A moment that has passed, or how long ago it was: what every filter by time takes. */
export const past = (about: string): Field<Date> => ({
  about: `${about} (an instant, or how long ago: 90m, 24h, 7d)`,
  placeholder: 'when',
  read: same,
  schema: instantOrAgo(),
})

/** A type and an id, such as `team:7`. A type may hold colons, as class names of some languages do: the last one ends it. */
export function owner(about: string): Field<{ readonly type: string; readonly id: number }> {
  const allowed = 'an owner is its type, a colon and its id, such as team:7'
  const schema = z
    .string({ error: allowed })
    .regex(OWNER, allowed)
    .transform((given) => {
      const end = given.lastIndexOf(':')
      return { type: given.slice(0, end), id: Number(given.slice(end + 1)) }
    })
    .refine(({ id }) => Number.isSafeInteger(id), allowed)
  return { about, placeholder: 'type:id', read: same, schema }
}

export const provider = (about: string): Field<string> => ({
  about,
  placeholder: 'key',
  read: same,
  schema: z.string({ error: ALLOWED_PROVIDER_IDENTIFIERS }).refine(isProviderIdentifier, ALLOWED_PROVIDER_IDENTIFIERS),
})

/** A stream of an integration's provider; docs/behaviour/sync-streams.md, "By hand", says what it means that none is named. */
export const stream = (about = 'one of the streams of its provider'): Field<string | undefined> =>
  optional(text(about, 'name', STREAM_LENGTH))

const Json = z.json()

/** Any JSON value, which a word holds as JSON. Wrapped: null is a value, too. */
export function json(about: string): Field<{ readonly json: z.core.util.JSONType }> {
  const allowed = `JSON is allowed, a text in quotes of its own, such as '"2031-06-01T12:00:00Z"', and so a number of more than 15 digits; at most 500 levels`
  const NOT_JSON = Symbol('not JSON')
  return {
    about,
    placeholder: 'json',
    read: (word) => {
      try {
        const value: unknown = JSON.parse(word)
        return lossInParsing(word) === null ? value : NOT_JSON
      } catch {
        return NOT_JSON
      }
    },
    schema: z
      .unknown()
      .refine((value) => Json.safeParse(value).success, allowed)
      .transform((value) => ({ json: value as z.core.util.JSONType })),
  }
}

/** A JSON object. */
export const record = (about: string): Field<Readonly<Record<string, unknown>>> => ({
  ...json(about),
  schema: z.record(z.string(), z.unknown(), { error: 'a JSON object is allowed' }),
})

/** Null is a value, too: there is none. */
export const nullable = <Value>(field: Field<Value>): Field<Value | null> => ({
  ...field,
  schema: field.schema.nullable(),
})

/** `key=value`, which may be repeated; in a workflow's input also an object. The values are words, each with its key. */
export function pairs(about: string): Field<readonly string[]> {
  const error = 'key=value is allowed, or an object such as {"key":"value"}'
  const words = z.union([z.array(z.string()), z.record(z.string(), z.unknown())], { error })
  const schema = words
    .default([])
    .transform((given) => (Array.isArray(given) ? given : Object.entries(given).map(asPair)))
  return { about, placeholder: 'key=value', isList: true, read: same, schema }
}

const asPair = ([key, value]: [string, unknown]): string =>
  `${key}=${typeof value === 'string' ? value : JSON.stringify(value)}`

/** Given several times, or as a list; what is named twice counts once. */
export const many = <Value>({ schema, ...field }: Field<Value>): Field<readonly Value[]> => ({
  ...field,
  isList: true,
  schema: z
    .array(schema)
    .min(1, 'at least one is allowed')
    .transform((values) => [...new Set(values)]),
})

/** Filters of a list: whose rows. */
export const whose = {
  integration: optional(id('only of this integration')),
  provider: optional(provider('only of this provider')),
  owner: optional(owner('only of this owner')),
}

/** Filters of a list: of which time. @param what such as `stored` */
export const period = (what: string) => ({
  since: optional(past(`only those ${what} then or later`)),
  until: optional(past(`only those ${what} before`)),
})
