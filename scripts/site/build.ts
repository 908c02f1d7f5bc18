/** The site: the Markdown of the repository and the reference of each version, laid out in one folder and built by VitePress. */
import { readdirSync, rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { build } from 'vitepress'
import { siteFolders } from './folders.ts'
import { layOutPages } from './pages.ts'
import { writeReference } from './reference.ts'
import { referenceVersions } from './versions.ts'

/** Where VitePress finds `.vitepress/config.ts`. */
const SITE_ROOT = fileURLToPath(new URL('.', import.meta.url))

/**
 * @param root folder of the repository
 * @param base path under which the site is served, with a slash at both ends
 */
export async function buildSite({
  root,
  base,
}: {
  root: string
  base: string
}): Promise<{ dist: string; pages: number }> {
  const { pages, dist } = siteFolders(root)
  rmSync(pages, { recursive: true, force: true })
  layOutPages(root, pages)
  for (const version of referenceVersions(root)) await writeReference(root, pages, version)
  await build(SITE_ROOT, { base })
  const built = readdirSync(dist, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.html'))
  return { dist, pages: built.length }
}
