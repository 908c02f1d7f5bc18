/**
 * Lays the Markdown of the repository out for VitePress, under the paths it has here: a link leads to the same page on the
 * site as in the repository.
 */
import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join, posix } from 'node:path'
import { NEXT } from './versions.ts'

/** Pages besides those below `docs/`. */
const PAGES = /^(docs\/.*|examples\/[^/]+\/README|sandbox\/.*README|README|CHANGELOG|CONTRIBUTING|SECURITY)[.]md$/
const PICTURES = /^docs\/images\//
const LINK = /\]\((?!https?:|mailto:|#)([^)\s#]+)((?:#[^)\s]+)?)\)/g

/** Folders that have a page of their own, which lists what is in them. */
export const LISTS: Readonly<Record<string, string>> = {
  'docs/behaviour': 'Behaviour, rule by rule',
  'docs/decisions': 'Decisions',
  'docs/tutorials': 'Tutorials',
}

const NOT_FOUND = `---
search: false
---

# There is no such page

[The first page](/index.md) says where to look; the search is at the top.
`

export interface SitePage {
  /** Path below the folder that VitePress reads, such as `docs/glossary.md`. */
  readonly path: string
  readonly title: string
}

/** Copies pages and pictures into `pages`, and the files that pages link to: as text, which a browser shows. */
export function layOutPages(root: string, pages: string): void {
  const files = repositoryFiles(root)
  for (const path of files.filter((each) => PICTURES.test(each))) {
    mkdirSync(dirname(join(pages, path)), { recursive: true })
    cpSync(join(root, path), join(pages, path))
  }
  for (const path of files.filter((each) => PAGES.test(each))) {
    const text = readFileSync(join(root, path), 'utf8').replace(LINK, (_, target: string, anchor: string) => {
      const { linked, file } = siteTarget(root, posix.join(posix.dirname(path), target), path)
      if (file !== null) write(join(pages, 'public', linked), readFileSync(join(root, file), 'utf8'))
      return `](${posix.relative(posix.dirname(path), linked)}${anchor})`
    })
    write(join(pages, pageOf(path)), text)
  }
  write(join(pages, '404.md'), NOT_FOUND)
  for (const [folder, title] of Object.entries(LISTS)) {
    const rows = sitePages(root, folder).map((page) => `- [${page.title}](${posix.relative(folder, page.path)})\n`)
    if (rows.length > 0) write(join(pages, folder, 'index.md'), `# ${title}\n\n${rows.join('')}`)
  }
}

/** Pages right in a folder, or in each folder of `folder/*`, by the names of their files. Empty: there is no such folder. */
export function sitePages(root: string, folder: string): SitePage[] {
  return repositoryFiles(root)
    .filter(
      (path) =>
        PAGES.test(path) && (posix.dirname(path) === folder || `${posix.dirname(posix.dirname(path))}/*` === folder),
    )
    .map((path) => ({ path: pageOf(path), title: titleOf(readFileSync(join(root, path), 'utf8'), path) }))
}

/** The README is the first page. */
function pageOf(path: string): string {
  return path === 'README.md' ? 'index.md' : path
}

/** Where a link from `page` to `path`, a file or folder of the repository, leads on the site. */
function siteTarget(root: string, path: string, page: string): { linked: string; file: string | null } {
  const target = path.replace(/\/$/, '')
  if (target === 'api') return { linked: `reference/${NEXT}/index.md`, file: null }
  if (target in LISTS) return { linked: `${target}/index.md`, file: null }
  if (!existsSync(join(root, target))) throw new Error(`${page} links to ${target}, which is not there`)
  if (statSync(join(root, target)).isDirectory())
    throw new Error(`${page} links to the folder ${target}. The site has pages for ${Object.keys(LISTS).join(', ')}`)
  if (PAGES.test(target)) return { linked: pageOf(target), file: null }
  if (PICTURES.test(target)) return { linked: target, file: null }
  return { linked: `${target}.txt`, file: target }
}

/** What git knows or would take: no page of an ignored folder. */
function repositoryFiles(root: string): string[] {
  const listed = execFileSync('git', ['ls-files', '-co', '--exclude-standard'], { cwd: root, encoding: 'utf8' })
  return listed
    .split('\n')
    .filter((path) => path !== '' && existsSync(join(root, path)))
    .sort()
}

function titleOf(text: string, path: string): string {
  const heading = /^# (.+)$/m.exec(text)?.[1]
  if (heading === undefined) throw new Error(`${path} has no heading of the first level, which names it in the menu`)
  return heading.replaceAll('`', '')
}

function write(file: string, text: string): void {
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, text)
}
