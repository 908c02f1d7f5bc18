/** The pages of a list, one call each. Rule: docs/behaviour/github.md, "Lists". */
import { z } from 'zod'
import type { RequestOptions } from '../../provider.ts'
import { eachPage } from '../../provider.ts'
import { instantIn, instantText } from './github-arguments.ts'
import type { PreparedRequest } from './github-call.ts'
import { callGitHub } from './github-call.ts'
import type { Repository } from './repository.ts'
import { checkOfRepository } from './transfers.ts'

/** GitHub's maximum: https://docs.github.com/en/rest/using-the-rest-api/using-pagination-in-the-rest-api */
export const PAGE_SIZE = 100

/**
 * 100 entries of 1 MiB each. GitHub takes a body of 262,144 bytes (65,536 characters of up to four), and answers it three times:
 * Markdown and text of that size, and HTML, whose tags and escapes may double it.
 */
export const MAX_PAGE_BYTES = PAGE_SIZE * 1_048_576

export interface GitHubList extends Reading {
  /** Its endpoint in the request log, without `?page=`. */
  readonly path: string
  readonly page: (page: number) => PreparedRequest
  /** How the next page is found: by `Link` (by its number if the link leads elsewhere), or always by its number. */
  readonly nextBy: 'link' | 'number'
  /** What ends the list: a page that is not full, or one whose `Link` names no next. */
  readonly endsWith: 'short page' | 'no link'
  /** The list belongs to one issue. If that was transferred, GitHub answers from another repository. Default false. */
  readonly ofIssue?: boolean
}

/** Position in a list: plain JSON, so that it can be stored. */
export interface PagePosition {
  readonly page: number
  /** From `Link`; null: by number. */
  readonly url: string | null
}

export interface Page<T> {
  readonly entries: T[]
  /** Null: this is the last page. */
  readonly next: PagePosition | null
}

export const FIRST_PAGE: PagePosition = { page: 1, url: null }

/** All entries of a list. */
export function entriesOf<S extends z.ZodType>(
  repository: Repository,
  entry: S,
  list: GitHubList,
): AsyncGenerator<z.output<S>> {
  return entriesBy((at) => pageAt(repository, entry, list, at), list)
}

/** All entries of a list whose pages are asked for by `page()`. */
export async function* entriesBy<T>(
  page: (at: PagePosition) => Promise<Page<T>>,
  { signal }: Reading,
): AsyncGenerator<T> {
  const pages = eachPage({ first: FIRST_PAGE, page, next: ({ next }) => next, items: ({ entries }) => entries, signal })
  for await (const { items } of pages) yield* items
}

/** The page at a position, with the position of the next one. */
export async function pageAt<S extends z.ZodType>(
  repository: Repository,
  entry: S,
  { path, page, nextBy, endsWith, ofIssue = false, ...options }: GitHubList,
  { page: number, url }: PagePosition,
): Promise<Page<z.output<S>>> {
  // A stored link is followed on the API's own origin only.
  const isOurs = url !== null && URL.canParse(url) && new URL(url).origin === repository.origin
  const request = isOurs ? { ...page(number), url } : page(number)
  const call = { endpoint: `${path}?page=${number}`, request, maxBytes: MAX_PAGE_BYTES, ...options }
  const { data, next, redirectedTo } = await callGitHub(repository, z.array(entry), call)
  if (ofIssue) await checkOfRepository(repository, redirectedTo, options)
  const isLast = endsWith === 'no link' ? next().kind === 'none' : data.length < PAGE_SIZE
  if (isLast) return { entries: data, next: null }
  const link = nextBy === 'link' ? next() : null
  return { entries: data, next: { page: number + 1, url: link?.kind === 'at' ? link.url : null } }
}

/** Where the next page of a list by ascending update time begins. Null: no entry has a readable time. */
export function lastUpdateOf(entries: readonly { readonly updated_at?: unknown }[]): string | null {
  const last = entries.map(({ updated_at: at }) => instantIn(at)).findLast((at) => at !== null)
  return last == null ? null : instantText('updated_at', last)
}

export type Callback<T> = (item: T) => unknown

/** Options of a read. */
export type Reading = Pick<RequestOptions, 'signal'>

/**
 * A generator of the items. With a callback: calls it with each item and awaits it.
 *
 * @param first the callback, or the options of a list without one
 * @param second the options beside a callback
 */
export function each<T>(
  items: (options: Reading) => AsyncGenerator<T>,
  first: Callback<T> | Reading = {},
  second: Reading = {},
): AsyncGenerator<T> | Promise<void> {
  return typeof first === 'function' ? handOver(items(second), first) : items(first)
}

async function handOver<T>(items: AsyncGenerator<T>, callback: Callback<T>): Promise<void> {
  for await (const item of items) await callback(item)
}
