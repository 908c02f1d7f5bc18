import { readdir, readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { isRuleFile } from '../support/rule-files.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))

/** What would make the same arguments give another answer. Time and chance are arguments. */
const IMPURE = [
  /\bDate\.now\b/,
  /\bnew Date\(\s*\)/,
  /\bperformance\.now\b/,
  /\bMath\.random\b/,
  /\brandomUUID\b|\brandomBytes\b|\bgetRandomValues\b/,
  /\bset(Timeout|Interval|Immediate)\b/,
  /\bprocess\.(env|argv|cwd|hrtime|memoryUsage)\b/,
  /\bfetch\(/,
  /\bconsole\./,
]

/** The one place where the time comes in; everything else is handed a clock or a moment. */
const THE_CLOCK = 'export const systemClock: Clock = { now: () => new Date() }'

/** Advice to a reader may name `randomBytes()`; only code counts. */
const codeOf = (text: string) =>
  text
    .replaceAll(/\/\*[\s\S]*?\*\//g, '')
    .replaceAll(/'[^'\n]*'|`[^`]*`/g, "''")
    .replaceAll(/\/\/.*$/gm, '')

describe('a rule', async () => {
  const paths = (await readdir(`${root}src`, { recursive: true })).map((path) => `src/${path}`).filter(isRuleFile)

  it('is found in every concept that has one', () => {
    expect(paths.length).toBeGreaterThan(40)
  })

  it('decides from its arguments alone', async () => {
    for (const path of paths) {
      const code = codeOf((await readFile(root + path, 'utf8')).replace(THE_CLOCK, ''))
      expect(IMPURE.filter((pattern) => pattern.test(code)).map(String), path).toEqual([])
    }
  })
})
