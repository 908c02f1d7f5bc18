/** What the tests of the tutorials read out of a page, and when printed text is what the page shows. */
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { patternOf, settled, stepsOf } from './steps.ts'

const PAGES = fileURLToPath(new URL('../../docs/tutorials/', import.meta.url))

const PAGE = `# A page
\`\`\`ts
// src/a.ts
export const a = 1
\`\`\`
Words.
\`\`\`sh
node src/a.ts
\`\`\`
\`\`\`text
1
\`\`\`
\`\`\`ts
const shownOnly = 1
\`\`\`
`

describe('the steps of a page', () => {
  it('are its files, its commands and what these print', () => {
    expect(stepsOf(PAGE)).toEqual([
      { kind: 'file', line: 2, path: 'src/a.ts', text: '// src/a.ts\nexport const a = 1\n' },
      { kind: 'commands', line: 7, text: 'node src/a.ts\n', prints: '1\n' },
    ])
  })

  it('are refused where a shown text would be compared with nothing', () => {
    expect(() => stepsOf('```text\n1\n```\n')).toThrow('line 1: a block of text must stand behind the commands')
  })

  it.each(readdirSync(PAGES))('of %s show what is seen', (page) => {
    const steps = stepsOf(readFileSync(PAGES + page, 'utf8'))
    const shown = steps.filter((step) => step.kind === 'commands' && step.prints !== null)
    expect(shown.length).toBeGreaterThan(4)
    // A line of placeholders only would take anything.
    for (const step of shown)
      if (step.kind === 'commands') expect(step.prints?.replace(/[…\s]/g, ''), `line ${step.line}`).not.toBe('')
  })
})

describe('a shown text', () => {
  it.each([
    ['a … c', 'a b c', true],
    ['a … c', 'a b\nc', false],
    ['…\nend', 'one\ntwo\nend', true],
    ['…\nend', 'end', true],
    ['end\n…', 'end', true],
    ['ID  Name', 'ID      Name   ', true],
    [' …  Name', '10 Name', true],
    ['a.c', 'abc', false],
    ['con_1', 'con_1\ncon_2', false],
  ])('%j takes %j: %s', (shown, printed, isTaken) => {
    expect(patternOf(shown).test(settled(printed))).toBe(isTaken)
  })
})
