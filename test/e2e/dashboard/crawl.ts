/** Every page of the dashboard: those of paths.ts, and all that links lead to from there. */
import type { Site, Visit } from './site.ts'

export interface Seen {
  /** Below the root. */
  readonly path: string
  readonly status: number
  readonly policy: string
}

const MOST_PAGES = 250

/** One of each kind: ids, filters and pages of lists aside. */
export const kindOf = (path: string): string =>
  path
    .replace(/\?.*$/, (query) =>
      [...new URLSearchParams(query).keys()]
        .filter((name) => name !== 'after')
        .sort()
        .map((name) => `&${name}`)
        .join(''),
    )
    .replaceAll(/\d+/g, 'n')

/** @param look is given each page while the browser shows it */
export async function crawl(
  { root, origin }: Site,
  { page }: Visit,
  begin: readonly string[],
  look: (seen: Seen) => Promise<void>,
): Promise<Seen[]> {
  const waiting = [...begin]
  const kinds = new Set(begin.map(kindOf))
  const pages: Seen[] = []
  for (let path = waiting.shift(); path !== undefined; path = waiting.shift()) {
    if (pages.length >= MOST_PAGES) throw new Error(`there are more than ${MOST_PAGES} kinds of pages`)
    const answer = await page.goto(root + path)
    const seen = {
      path,
      status: answer?.status() ?? 0,
      policy: (await answer?.headerValue('content-security-policy')) ?? '',
    }
    pages.push(seen)
    await look(seen)
    const hrefs: string[] = await page.evaluate('[...document.links].map((link) => link.href)')
    for (const href of hrefs) {
      const { pathname, search } = new URL(href)
      const isOurs = href.startsWith(`${origin}/`) && `${origin}${pathname}`.startsWith(root)
      const below = `${origin}${pathname}`.slice(root.length) + search
      if (!isOurs || /^\/(api|assets|logout|login)\b/.test(below) || kinds.has(kindOf(below))) continue
      kinds.add(kindOf(below))
      waiting.push(below)
    }
  }
  return pages
}
