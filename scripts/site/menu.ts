/** The menus at the side. They are made of the folders, so that a new page is in them. */
import type { DefaultTheme } from 'vitepress'
import { entriesOf } from './entries.ts'
import type { SitePage } from './pages.ts'
import { LISTS, sitePages } from './pages.ts'
import type { ReferenceVersion } from './versions.ts'

const DOCUMENTATION: DefaultTheme.SidebarItem = {
  text: 'Documentation',
  items: [
    { text: 'First page', link: '/' },
    { text: 'Glossary', link: '/docs/glossary' },
  ],
}

/**
 * A menu is in the text of each page, so the reference and the decisions have menus of their own. No group folds: the theme
 * would put one button into another.
 */
export function siteMenus(root: string, versions: readonly ReferenceVersion[]): DefaultTheme.SidebarMulti {
  const reference = versions.map(({ folder, title }) => ({ text: title, link: `/reference/${folder}/` }))
  const entries = entriesOf(root).map(({ name }) => ({
    text: name,
    link: `/reference/${versions[0]?.folder}/${name}/`,
  }))
  return {
    '/reference/': [
      { text: `Entries of ${versions[0]?.title}`, items: entries },
      { text: 'Versions', items: reference },
      DOCUMENTATION,
    ],
    '/docs/decisions/': [...group('docs/decisions', sitePages(root, 'docs/decisions')), DOCUMENTATION],
    '/': [
      ...group('docs/tutorials', sitePages(root, 'docs/tutorials')),
      ...group('Guides', sitePages(root, 'docs')),
      ...group('docs/behaviour', sitePages(root, 'docs/behaviour')),
      { text: 'API reference', items: reference },
      ...group('Examples', [...sitePages(root, 'examples/*'), ...sitePages(root, 'sandbox')]),
      ...group('Repository', sitePages(root, '.')),
      { text: 'Decisions', items: [{ text: 'All decisions', link: '/docs/decisions/' }] },
    ],
  }
}

/** @param name its heading, or the folder whose list of pages the heading leads to */
function group(name: string, pages: readonly SitePage[]): DefaultTheme.SidebarItem[] {
  if (pages.length === 0) return []
  const title = LISTS[name]
  const items = pages.map(({ title: text, path }) => ({ text, link: `/${path.replace(/(index)?[.]md$/, '')}` }))
  return [{ ...(title === undefined ? { text: name } : { text: title, link: `/${name}/` }), items }]
}
