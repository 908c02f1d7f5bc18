/** How the repository becomes the pages of the site, without VitePress: what it builds is looked at in site.long.test.ts. */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { siteMenus } from '../../scripts/site/menu.ts'
import { layOutPages } from '../../scripts/site/pages.ts'
import { referenceVersions } from '../../scripts/site/versions.ts'

let root: string
let pages: string

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'site-'))
  pages = join(root, '.data/pages')
  git('init', '--quiet')
  write(
    'package.json',
    JSON.stringify({ name: 'acme', version: '1.1.0', exports: { '.': { 'durable-source': './src/index.ts' } } }),
  )
  write('.gitignore', '.data/\n')
  write(
    'README.md',
    '# Acme\n[Words](docs/glossary.md#a-word), [rules](docs/behaviour), [types](api), [licence](LICENSE)\n',
  )
  write('LICENSE', 'MIT')
  write('docs/glossary.md', '# `Glossary`\n[back](../README.md), [home](https://example.com)\n')
  write('docs/behaviour/locks.md', '# Locks\n![a picture](../images/lock.png)\n')
  write('docs/images/lock.png', 'a picture')
  write('docs/secret.md.orig', 'not a page')
})

afterEach(() => rmSync(root, { recursive: true, force: true }))

const git = (...args: string[]) =>
  execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@example.com', ...args], { cwd: root, stdio: 'pipe' })

function write(path: string, text: string): void {
  mkdirSync(dirname(join(root, path)), { recursive: true })
  writeFileSync(join(root, path), text)
}

const page = (path: string): string => readFileSync(join(pages, path), 'utf8')

describe('the pages', () => {
  it('of this repository can be laid out: each link leads to what the site has', () => {
    layOutPages(fileURLToPath(new URL('../..', import.meta.url)), pages)
    expect(existsSync(join(pages, 'index.md'))).toBe(true)
  })

  it('stand where they are in the repository; the README is the first', () => {
    layOutPages(root, pages)
    expect(page('docs/glossary.md')).toBe('# `Glossary`\n[back](../index.md), [home](https://example.com)\n')
    expect(page('docs/images/lock.png')).toBe('a picture')
    expect(page('docs/behaviour/locks.md')).toContain('](../images/lock.png)')
    expect(existsSync(join(pages, 'docs/secret.md.orig'))).toBe(false)
  })

  it('link to the list of a folder, to the reference, and to a file as text', () => {
    layOutPages(root, pages)
    expect(page('index.md')).toContain(
      '[Words](docs/glossary.md#a-word), [rules](docs/behaviour/index.md), [types](reference/next/index.md), [licence](LICENSE.txt)',
    )
    expect(page('docs/behaviour/index.md')).toContain('- [Locks](locks.md)')
    expect(page('public/LICENSE.txt')).toBe('MIT')
  })

  it.each([
    ['a missing file', '[x](gone.md)', 'README.md links to gone.md, which is not there'],
    [
      'a folder without a page',
      '[x](docs/images)',
      /^README[.]md links to the folder docs\/images[.] The site has pages for /,
    ],
  ])('refuse a link to %s', (_, link, message) => {
    write('README.md', `# Acme\n${link}\n`)
    expect(() => layOutPages(root, pages)).toThrow(message)
  })

  it('refuse a page without a name', () => {
    write('docs/behaviour/nameless.md', 'Text.\n')
    expect(() => layOutPages(root, pages)).toThrow('docs/behaviour/nameless.md has no heading of the first level')
  })
})

describe('the menu', () => {
  it('has each page of a folder, and a folder only once it has pages', () => {
    const names = () => JSON.stringify(siteMenus(root, referenceVersions(root))['/'])
    expect(names()).toContain('"text":"Glossary","link":"/docs/glossary"')
    expect(names()).not.toContain('Tutorials')
    write('docs/tutorials/first.md', '# A first provider\n')
    expect(names()).toContain('"text":"A first provider","link":"/docs/tutorials/first"')
  })
})

describe('the versions of the reference', () => {
  it('are this checkout, and each release: the newest first', () => {
    expect(referenceVersions(root)).toEqual([{ folder: 'next', title: '1.1.0, not released', tag: null }])
    git('add', '.')
    git('commit', '--quiet', '-m', 'All')
    for (const tag of ['v0.9.0', 'v0.10.0', 'v1.0.0-rc.1', 'vendor', 'v1.1.0']) git('tag', tag)
    expect(referenceVersions(root)).toEqual([
      { folder: 'next', title: '1.1.0 and later', tag: null },
      { folder: '1.1.0', title: '1.1.0', tag: 'v1.1.0' },
      { folder: '0.10.0', title: '0.10.0', tag: 'v0.10.0' },
      { folder: '0.9.0', title: '0.9.0', tag: 'v0.9.0' },
    ])
  })
})
