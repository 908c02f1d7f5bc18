/** What the code and the docs cite must be there: a rule that can't be looked up is no rule. */
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))
const tracked = execFileSync('git', ['ls-files', '-co', '--exclude-standard'], { cwd: root, encoding: 'utf8' })
  .split('\n')
  .filter((path) => path !== '' && existsSync(join(root, path)))
const read = (path: string): string => readFileSync(join(root, path), 'utf8')

/** `docs/behaviour/webhooks.md, "Claims" and "Batches"`, also over the end of a comment's line. */
const CITATION = /docs\/[a-z0-9/-]+\.md(?:,(?:\s|\*|\/\/)*"[^"\n]+"(?:(?:,| and)(?:\s|\*|\/\/)*"[^"\n]+")*)?/g
const LINK = /\]\((?!https?:|mailto:)([^)\s#]*)(#[^)\s]+)?\)/g

function headingsOf(page: string): string[] {
  return [...read(page).matchAll(/^#+ (.+)$/gm)].map((match) => (match[1] as string).replaceAll('`', '').trim())
}

/** As GitHub makes anchors of headings. */
function anchorOf(heading: string): string {
  return `#${heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-')}`
}

describe('a citation in the code', () => {
  const sources = tracked.filter((path) => /^(src|scripts|sandbox|examples)\/.*\.ts$/.test(path))
  const citations = sources.flatMap((source) =>
    [...read(source).matchAll(CITATION)].map(([text]) => {
      const headings = [...text.matchAll(/"([^"]+)"/g)].map((match) => match[1] as string)
      return { source, page: text.split(',')[0] as string, headings }
    }),
  )

  it('names a page and headings that are there', () => {
    expect(citations.length).toBeGreaterThan(20)
    const missing = citations.flatMap(({ source, page, headings }) => {
      if (!existsSync(join(root, page))) return [`${source}: ${page}`]
      const known = headingsOf(page)
      return headings.filter((heading) => !known.includes(heading)).map((heading) => `${source}: ${page}, "${heading}"`)
    })
    expect(missing).toEqual([])
  })
})

describe('a link in the docs', () => {
  it('leads to a file, and to a heading of it', () => {
    const pages = tracked.filter((path) => path.endsWith('.md') && !path.startsWith('test/'))
    const dead = pages.flatMap((page) =>
      [...read(page).matchAll(LINK)].flatMap(([, path = '', anchor]) => {
        const target = path === '' ? page : join(dirname(page), path)
        if (!existsSync(join(root, target))) return [`${page}: ${path}`]
        const isDead = anchor !== undefined && !headingsOf(target).map(anchorOf).includes(anchor)
        return isDead ? [`${page}: ${path}${anchor}`] : []
      }),
    )
    expect(dead).toEqual([])
  })
})
