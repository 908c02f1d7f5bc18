/** Commands that list rows, the newest first, a page at a time. */
import { z } from 'zod'
import { table } from './cli/table.ts'
import type { Command, CommandContext, Route, Topic } from './command.ts'
import { columns } from './command.ts'
import type { Field, Fields, Values } from './fields.ts'
import { id, optional, whole, withDefault } from './fields.ts'
import { Refused } from './refused.ts'

const DEFAULT_LIMIT = 50
/** Of a page over HTTP. */
export const MAX_PAGE = 200

type Paging = {
  readonly after: Field<number | undefined>
  readonly limit: Field<number>
}

export interface Listed {
  readonly data: readonly Record<string, unknown>[]
  /** The `after` of the next page; null on the last one. */
  readonly next: number | null
}

export interface Listing<F extends Fields, Row extends { readonly id: number }> {
  readonly name: string
  readonly topic: Topic
  readonly summary: string
  readonly examples: readonly string[]
  readonly fields: F
  readonly path: string
  /** Of a row, as {@link columns} writes it. */
  readonly row: z.ZodType
  /** What a person sees of a row: the heads of the table, and the column of each. */
  readonly shows: Readonly<Record<string, string | ((row: Record<string, unknown>) => unknown)>>
  /** Said where there is nothing. */
  readonly none: string
  readonly reach?: Command['reach']
  /** The filter `integration` may name one that was deleted. */
  readonly outlivesIntegrations?: true
  check?(input: Values<F & Paging>): void
  list(
    context: CommandContext,
    filter: Values<F> & { readonly after: number | undefined; readonly limit: number },
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
  ...described
}: Listing<F, Row>): Command<F & Paging, Listed> {
  const after = optional(id('only ids below this one: the next page'))
  const paged = { ...fields, after, limit: withDefault(whole('at most so many'), DEFAULT_LIMIT) }
  const pageLimit = withDefault(whole('at most so many', { max: MAX_PAGE }), DEFAULT_LIMIT)
  const http: Route = {
    method: 'get',
    path,
    fields: { ...fields, after, limit: pageLimit },
    output: z
      .object({ data: z.array(row), next: z.int().nullable() })
      .describe('`next` is the `after` of the next page'),
  }
  return {
    ...described,
    fields: paged,
    reach,
    output: z.array(row),
    routes: [http],
    check(input) {
      inOrder(input)
      check?.(input as never)
    },
    async run(context, input) {
      // A route with fields of its own is not checked before.
      inOrder(input)
      const { limit, ...filter } = input as Values<Fields & Paging>
      const { integration } = input as { integration?: number }
      if (integration !== undefined && !outlivesIntegrations) await context.integrations.get(integration)
      const found: Row[] = []
      // One more than asked for says whether there is more.
      for await (const each of list(context, { ...filter, limit: limit + 1 } as never)) found.push(each)
      const data = found.slice(0, limit)
      const next = found.length > limit ? (data.at(-1)?.id ?? null) : null
      if (next !== null)
        context.warn(`There are more than ${limit}; --limit shows more, --after ${next} the next ones.`)
      return { data: data.map(toRow), next }
    },
    document: ({ data }) => data,
    show: ({ data }) =>
      data.length === 0
        ? none
        : table(
            Object.keys(shows),
            data.map((each) => Object.values(shows).map((of) => (typeof of === 'string' ? each[of] : of(each)))),
          ),
  }
}

/** @throws Refused where `until` is not after `since` */
export function inOrder(input: object): void {
  const { since, until } = input as { since?: Date; until?: Date }
  if (since !== undefined && until !== undefined && since >= until)
    throw new Refused(
      'usage',
      `until: a moment after since (${since.toISOString()}) is allowed, ${until.toISOString()} was given.`,
      'until',
    )
}
