/** Every page of the dashboard: those of paths.ts, and all that links lead to from there. */
import type { Page } from 'playwright-core'
import type { Site } from './site.ts'

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

/**
 * @param open opens a page, and returns where its links lead to
 * @returns how many pages were opened
 */
export async function crawl(
  { root, origin }: Site,
  begin: readonly string[],
  open: (path: string) => Promise<readonly string[]>,
): Promise<number> {
  const waiting = [...begin]
  const kinds = new Set(begin.map(kindOf))
  let pages = 0
  for (let path = waiting.shift(); path !== undefined; path = waiting.shift()) {
    if (pages >= MOST_PAGES) throw new Error(`there are more than ${MOST_PAGES} kinds of pages`)
    pages += 1
    for (const href of await open(path)) {
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

/** Where the links of the page lead to that the browser shows. */
export const linksOf = (page: Page): Promise<string[]> => page.evaluate('[...document.links].map((link) => link.href)')
