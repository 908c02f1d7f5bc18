import { join } from 'node:path'

/** All of the site that git ignores: what VitePress reads, and what it writes. */
export function siteFolders(root: string): { pages: string; dist: string; cache: string; references: string } {
  const folder = join(root, '.data', 'site')
  return {
    pages: join(folder, 'pages'),
    dist: join(folder, 'dist'),
    cache: join(folder, 'cache'),
    references: join(folder, 'references'),
  }
}
