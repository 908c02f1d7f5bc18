/** How a page of the documentation is laid out: short lines for a review, short cells for a reader. */
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'

const MAX_LINE = 120
const MAX_CELL_WORDS = 25

const root = fileURLToPath(new URL('../..', import.meta.url))
const pages = execFileSync('git', ['ls-files', '-co', '--exclude-standard', '*.md'], { cwd: root, encoding: 'utf8' })
  .split('\n')
  .filter((path) => path !== '' && !/^(test|api)\//.test(path) && existsSync(join(root, path)))

/** The lines outside of code blocks, with their numbers. */
function linesOf(page: string): { at: string; line: string }[] {
  let isCode = false
  return readFileSync(join(root, page), 'utf8')
    .split('\n')
    .flatMap((line, index) => {
      const isFence = /^\s*```/.test(line)
      if (isFence) isCode = !isCode
      return isCode || isFence ? [] : [{ at: `${page}:${index + 1}`, line }]
    })
}

const isRow = (line: string): boolean => line.startsWith('|')
/** A row can't be broken, and neither can one long word, such as an address. */
const isBreakable = (line: string): boolean => !isRow(line) && / \S/.test(line.trim().replace(/^([-*]|\d+[.]) /, ''))

it(`no line has more than ${MAX_LINE} characters`, () => {
  const long = pages.flatMap((page) =>
    linesOf(page).flatMap(({ at, line }) =>
      line.length > MAX_LINE && isBreakable(line) ? [`${at}: ${line.length} characters`] : [],
    ),
  )
  expect(long).toEqual([])
})

it(`no cell of a table has more than ${MAX_CELL_WORDS} words, as they are read: a link counts by its text`, () => {
  const long = pages.flatMap((page) =>
    linesOf(page)
      .filter(({ line }) => isRow(line))
      .flatMap(({ at, line }) =>
        line
          .replace(/\]\([^)]*\)/g, ']')
          .split(/(?<!\\)\|/)
          .map((cell) => cell.trim().split(/\s+/).length)
          .flatMap((words) => (words > MAX_CELL_WORDS ? [`${at}: ${words} words`] : [])),
      ),
  )
  expect(long).toEqual([])
})

it('a word in angle brackets is code, or is escaped: the site would take it for an element', () => {
  const elements = pages.flatMap((page) => {
    const text = linesOf(page)
      .map(({ line }) => line)
      .join('\n')
      .replace(/(`+)[^`]+\1/g, '')
    return [...text.matchAll(/(?<!\\)<(?!https?:)[a-z][^>\n]*>?/gi)].map(([element]) => `${page}: ${element}`)
  })
  expect(elements).toEqual([])
})

it('no heading skips a level: who listens to a page would miss one', () => {
  const skipping = pages.flatMap((page) => {
    let level = 0
    return linesOf(page).flatMap(({ at, line }) => {
      const before = level
      const depth = /^(#+) /.exec(line)?.[1]?.length ?? 0
      if (depth > 0) level = depth
      return depth > before + 1 ? [`${at}: ${line}`] : []
    })
  })
  expect(skipping).toEqual([])
})

it('a page of behaviour has its table, if it has one, ahead of the rest: right after what it is about', () => {
  const late = pages
    .filter((page) => page.startsWith('docs/behaviour/'))
    .flatMap((page) => {
      const lines = linesOf(page).map(({ line }) => line)
      const firstRow = lines.findIndex(isRow)
      const before = lines.slice(0, Math.max(firstRow, 0)).filter((line) => line.trim() !== '')
      const said = before.filter((line) => !line.startsWith('#')).join(' ')
      const headings = before.filter((line) => line.startsWith('#')).length
      return firstRow >= 0 && (headings > 2 || said.length > MAX_OPENING)
        ? [`${page}: ${said.length} characters first`]
        : []
    })
  expect(late).toEqual([])
})

/** Two or three sentences. */
const MAX_OPENING = 500
