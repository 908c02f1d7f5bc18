/** What the filters of lists may be given, and how a list is read page by page. */

import { InvalidArgumentException } from './errors.ts'
import { isId } from './id.ts'
import { isInstant } from './instant.ts'

const PAGE = 100

/** @throws InvalidArgumentException unless each that is given is an id */
export function checkIds(given: Readonly<Record<string, number | undefined>>): void {
  for (const [name, value] of Object.entries(given))
    if (value !== undefined && !isId(value))
      throw new InvalidArgumentException(name, `a whole number of at least 1 is allowed, ${String(value)} was given`)
}

/** @throws InvalidArgumentException unless each that is given is a text that Postgres holds */
export function checkTexts(given: Readonly<Record<string, string | undefined>>): void {
  for (const [name, value] of Object.entries(given))
    if (value !== undefined && (typeof value !== 'string' || value === '' || value.includes('\u0000')))
      throw new InvalidArgumentException(name, 'a text that is not empty and without U+0000 is allowed')
}

/** @throws InvalidArgumentException unless it is one of these, or not given */
export function checkChoice(name: string, value: string | undefined, choices: readonly string[]): void {
  if (value !== undefined && !choices.includes(value))
    throw new InvalidArgumentException(name, `${choices.join(', ')} are allowed, ${String(value)} was given`)
}

/** Equal moments select nothing. @throws InvalidArgumentException unless they are moments in order */
export function checkPeriod(since: Date | undefined, until: Date | undefined): void {
  for (const [name, value] of Object.entries({ since, until }))
    if (value !== undefined && !isInstant(value))
      throw new InvalidArgumentException(
        name,
        `a valid Date of the years 1 to 9999 is allowed, ${String(value)} was given`,
      )
  if (since !== undefined && until !== undefined && since > until)
    throw new InvalidArgumentException(
      'until',
      `a moment not before since (${since.toISOString()}) is allowed, ${until.toISOString()} was given`,
    )
}

/** @throws InvalidArgumentException unless each that is given is true or false */
export function checkBooleans(given: Readonly<Record<string, boolean | undefined>>): void {
  for (const [name, value] of Object.entries(given))
    if (value !== undefined && typeof value !== 'boolean')
      throw new InvalidArgumentException(name, `true or false is allowed, ${String(value)} was given`)
}

/** How far back is looked for what no index has, unless the caller says `since`. */
const SEARCHED_HOURS = 24

/** That long before the end of the period, or before now. */
export function searchedSince(until: Date | undefined, now: Date): Date {
  return new Date((until ?? now).getTime() - SEARCHED_HOURS * 3_600_000)
}

/** A part of a list by descending id. */
export interface Page {
  /** Only ids below this one. */
  readonly below: number | undefined
  readonly limit: number
}

/** Rows by descending id, read as they are asked for. */
export async function* newestFirst<Row extends { readonly id: number }>(
  read: (page: Page) => PromiseLike<Row[]>,
  { after, limit = Number.POSITIVE_INFINITY }: { after?: number | undefined; limit?: number | undefined },
): AsyncGenerator<Row> {
  let below = after
  for (let left = limit; left > 0; ) {
    const size = Math.min(PAGE, left)
    const page = await read({ below, limit: size })
    yield* page
    if (page.length < size) return
    below = page.at(-1)?.id
    left -= page.length
  }
}

/** Pages of rows by ascending id, read as they are asked for. */
export async function* ascendingPages<Row extends { readonly id: number }>(
  read: (page: { after: number; limit: number }) => PromiseLike<Row[]>,
  {
    after = 0,
    limit = Number.POSITIVE_INFINITY,
    size = PAGE,
  }: {
    after?: number | undefined
    limit?: number | undefined
    size?: number
  } = {},
): AsyncGenerator<Row[]> {
  let last = after
  for (let left = limit; left > 0; ) {
    const asked = Math.min(size, left)
    const page = await read({ after: last, limit: asked })
    if (page.length > 0) yield page
    if (page.length < asked) return
    last = page.at(-1)?.id ?? last
    left -= page.length
  }
}
