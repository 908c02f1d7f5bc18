/** GitHub's page numbers: 30 a page unless told, never more than 100; what is no number is as if absent. */
export interface Page<T> {
  rows: T[]
  /** The `Link` header (RFC 8288) in GitHub's order; null when everything fits on one page. */
  link: string | null
}

const DEFAULT_PER_PAGE = 30
const MAX_PER_PAGE = 100

/** @param address what the links name: GitHub's name the repository by id, with the query of the request */
export function paginate<T>(all: readonly T[], query: URLSearchParams, address: string): Page<T> {
  const perPage = perPageOf(query)
  const page = positive(query.get('page')) ?? 1
  const last = Math.max(1, Math.ceil(all.length / perPage))
  const rows = all.slice((page - 1) * perPage, page * perPage)
  return { rows, link: linkHeader(page, last, query, address) }
}

export function perPageOf(query: URLSearchParams): number {
  return Math.min(positive(query.get('per_page')) ?? DEFAULT_PER_PAGE, MAX_PER_PAGE)
}

function linkHeader(page: number, last: number, query: URLSearchParams, address: string): string | null {
  const links: string[] = []
  const add = (rel: string, to: number): void => {
    const linked = new URLSearchParams(query)
    linked.set('page', String(to))
    links.push(`<${address}?${linked}>; rel="${rel}"`)
  }
  if (page > 1) add('prev', Math.min(page - 1, last))
  if (page < last) add('next', page + 1)
  if (page < last) add('last', last)
  if (page > 1) add('first', 1)
  return links.length === 0 ? null : links.join(', ')
}

function positive(value: string | null): number | null {
  return value !== null && /^[1-9]\d{0,8}$/.test(value) ? Number(value) : null
}
