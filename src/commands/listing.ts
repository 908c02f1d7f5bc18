/** Commands that list rows, the newest first, a page at a time. */
import { z } from 'zod'
import { table } from './cli/table.ts'
import type { Command, CommandContext, RecordKind, Route } from './command.ts'
import { columns, fieldLines, kebab, route } from './command.ts'
import type { Field, Fields, Values } from './fields.ts'
import { id, optional, whole, withDefault } from './fields.ts'
import { Refused } from './refused.ts'

const DEFAULT_LIMIT = 50
/** Of a page over HTTP. */
const MAX_PAGE = 200

type Paging = {
  readonly after: Field<number | undefined>
  readonly limit: Field<number>
}

export interface Listed {
  readonly data: readonly Record<string, unknown>[]
  /** The `after` of the next page; null on the last one. */
  readonly next: number | null
}

export interface Listing<F extends Fields, Row extends { readonly id: number }>
  extends Pick<Command<F>, 'name' | 'topic' | 'summary' | 'examples' | 'workflow' | 'fields' | 'reach'> {
  readonly path: string
  /** Of the command; over HTTP a page has 50 rows. Default 50. */
  readonly defaultLimit?: number
  /** Of a row, as {@link columns} writes it. */
  readonly row: z.ZodType
  /** What a person sees of a row: the heads of the table, and the column of each. */
  readonly shows: Readonly<Record<string, string | ((row: Record<string, unknown>) => unknown)>>
  /** Said where there is nothing. */
  readonly none: string
  /** Where an id on the command line shows one row: below the list's path over HTTP. */
  readonly one?: {
    readonly kind: RecordKind
    readonly summary: string
    readonly output: z.ZodType
    readonly version?: readonly string[]
    get(context: CommandContext, id: number): Promise<object>
    show?(document: object): string
  }
  /** The filter `integration` may name one that was deleted. */
  readonly outlivesIntegrations?: true
  check?(input: Values<F & Paging>): void
  list(
    context: CommandContext,
    /** With the filter `integration` by its other name, too. */
    filter: Values<F> & {
      readonly after: number | undefined
      readonly limit: number
      readonly integrationId: number | undefined
    },
  ): AsyncIterable<Row>
  /** Default {@link columns}. */
  toRow?(row: Row): Record<string, unknown>
}

/** A list has the fields `since` and `until` in order, if it has them, and asks whether `integration` exists. */
export function listing<const F extends Fields, Row extends { readonly id: number }>({
  path,
  row,
  shows,
  none,
  list,
  toRow = columns as (row: Row) => Record<string, unknown>,
  check,
  reach = 'filtered',
  outlivesIntegrations,
  fields,
  one,
  defaultLimit = DEFAULT_LIMIT,
  ...described
}: Listing<F, Row>): Command<F & Paging, Listed | { readonly one: object }> {
  const after = optional(id('only ids below this one: the next page'))
  const chosen = one === undefined ? {} : { id: optional(id('of one; without it the options choose')) }
  const paged = { ...chosen, ...fields, after, limit: withDefault(whole('the most rows to list'), defaultLimit) }
  const pageLimit = withDefault(whole('the most rows to list', { max: MAX_PAGE }), DEFAULT_LIMIT)
  const checked = (input: Values<F & Paging>): void => {
    inOrder(input)
    refuseBoth(input as { readonly id?: number })
    check?.(input)
  }
  const http: Route = {
    method: 'get',
    path,
    fields: { ...fields, after, limit: pageLimit },
    ...(outlivesIntegrations ? { outlivesIntegrations } : {}),
    output: z
      .object({ data: z.array(row), next: z.int().nullable() })
      .describe('`next` is the `after` of the next page'),
  }
  const ofOne =
    one === undefined
      ? []
      : [
          route({
            method: 'get',
            path: `${path}/:id`,
            summary: one.summary,
            fields: { id: id('of the one to show') },
            reach: one.kind,
            output: one.output,
            ...(one.version === undefined ? {} : { version: one.version }),
            run: (context, input) => one.get(context, input.id),
          }),
        ]
  return {
    ...described,
    ...(one === undefined ? {} : { places: ['id'] as never }),
    fields: paged,
    reach,
    none,
    output: one === undefined ? z.array(row) : z.union([z.array(row), one.output]),
    routes: [http, ...ofOne],
    check: checked,
    async run(context, input) {
      const { limit, ...filter } = input as Values<Fields & Paging>
      const { id: of, integration } = input as { id?: number; integration?: number }
      if (one !== undefined && of !== undefined) return { one: await one.get(context, of) }
      if (integration !== undefined && !outlivesIntegrations) await context.integrations.get(integration)
      const found: Row[] = []
      // One more than asked for says whether there is more.
      const asked = { ...filter, integrationId: integration, limit: limit + 1 }
      for await (const each of list(context, asked as never)) found.push(each)
      const data = found.slice(0, limit)
      const next = found.length > limit ? (data.at(-1)?.id ?? null) : null
      if (next !== null)
        context.warn(`There are more than ${limit}; --limit shows more, --after ${next} the next ones.`)
      return { data: data.map(toRow), next }
    },
    document: (result) => ('one' in result ? result.one : result.data),
    show(result) {
      if ('one' in result) return (one?.show ?? fieldLines)(result.one)
      const { data } = result
      return data.length === 0
        ? none
        : table(
            Object.keys(shows),
            data.map((each) => Object.values(shows).map((of) => (typeof of === 'string' ? each[of] : of(each)))),
          )
    },
  }
}

/** Equal moments select nothing. @throws Refused where `until` is before `since` */
export function inOrder(input: object): void {
  const { since, until } = input as { since?: Date; until?: Date }
  if (since !== undefined && until !== undefined && since > until)
    throw new Refused(
      'usage',
      `until: a moment not before since (${since.toISOString()}) is allowed, ${until.toISOString()} was given.`,
      'until',
    )
}

/** An id says it all. */
function refuseBoth({ id: of, ...filter }: { readonly id?: number }): void {
  if (of === undefined) return
  const unused: Record<string, unknown> = { limit: DEFAULT_LIMIT }
  const [given] = Object.entries(filter).find(([name, value]) => value !== unused[name] && value !== false) ?? []
  if (given !== undefined)
    throw new Refused('usage', `Give an id or options that choose, not both: ${of} and --${kebab(given)} were given.`)
}

const SHORT_ERROR_CHARACTERS = 60

/** So that a row of a list fits a line; what was cut ends in `…`, and showing one has it whole. */
export function shortError(error: string | null): string | undefined {
  if (error === null || error.length <= SHORT_ERROR_CHARACTERS) return error ?? undefined
  return `${error.slice(0, SHORT_ERROR_CHARACTERS - 1)}…`
}
