import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitepress'
import packageJson from '../../../package.json' with { type: 'json' }
import { siteFolders } from '../folders.ts'
import { namedHeads } from '../heads.ts'
import { siteMenus } from '../menu.ts'
import { NEXT, referenceVersions } from '../versions.ts'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const { pages, dist, cache } = siteFolders(root)
const versions = referenceVersions(root)

export default defineConfig({
  title: 'Durable Integrations',
  description: packageJson.description,
  lang: 'en',
  srcDir: pages,
  outDir: dist,
  cacheDir: cache,
  // One file for all pages, in place of a copy in each.
  metaChunk: true,
  markdown: {
    // Those of GitHub have too little contrast for axe.
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
    config: (markdown) => void markdown.core.ruler.push('named-heads', namedHeads),
    // As GitHub makes anchors: a link with one works in the repository, too.
    anchor: {
      slugify: (heading) =>
        heading
          .toLowerCase()
          .replace(/[^\p{L}\p{N} _-]/gu, '')
          .replaceAll(' ', '-'),
    },
  },
  // The repository's esbuild does not write for the older browsers that Vite 5 takes for granted.
  vite: { build: { target: 'es2022' } },
  themeConfig: {
    search: {
      provider: 'local',
      options: {
        // Released versions of the reference say `search: false`. Code of the reference repeats its tables, and takes long.
        _render: (text, env, markdown) => {
          const isReference = env.relativePath.startsWith('reference/')
          const html = markdown.render(isReference ? text.replace(/^```[\s\S]*?^```$/gm, '') : text, env)
          return env.frontmatter?.search === false ? '' : html
        },
      },
    },
    outline: [2, 3],
    nav: [
      { text: 'Glossary', link: '/docs/glossary' },
      { text: 'API', link: `/reference/${NEXT}/` },
      {
        text: versions[0]?.title ?? packageJson.version,
        items: [
          { text: 'Changes', link: '/CHANGELOG' },
          ...versions.map(({ folder, title }) => ({ text: `API of ${title}`, link: `/reference/${folder}/` })),
        ],
      },
    ],
    sidebar: siteMenus(root, versions),
  },
})
