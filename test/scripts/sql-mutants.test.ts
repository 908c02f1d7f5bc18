import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { sqlMutantsOf } from '../../scripts/mutation/sql-mutants.ts'
import { functionFiles, testsOfFunction } from '../../scripts/mutation/sql-tests.ts'

/** The changes of a body, without its frame. */
const changes = (body: string): string[] =>
  sqlMutantsOf(`CREATE FUNCTION f(a int) AS $$ ${body} $$;`).map(({ mutator, change }) => `${mutator}: ${change}`)

describe('the mutants of a function', () => {
  it.each<[string, string[]]>([
    ['a < b', ['comparison: < → <=']],
    ['a <= b', ['comparison: <= → <']],
    ['a > b', ['comparison: > → >=']],
    ['a >= b', ['comparison: >= → >']],
    ['a = b', ['comparison: = → <>']],
    ['a <> b', ['comparison: <> → =']],
    ['a AND b', ['word: AND → OR']],
    ['a OR b', ['word: OR → AND']],
    ['a + b', ['arithmetic: + → -']],
    ['a - b', ['arithmetic: - → +']],
    ['a * 7', ['constant: 7 → 8', 'constant: 7 → 6']],
    ['greatest(a, b)', ['word: greatest → least']],
    ['a IS FALSE', ['constant: FALSE → true']],
    ['a IS NULL', ['negation: NULL → NOT NULL']],
    ['a IS NOT NULL', ['negation: NOT → (nothing)']],
    ['coalesce(a, b)', ['default: coalesce(a, b) → a', 'default: coalesce(a, b) → b']],
    ['coalesce(f(a, b), c)', ['default: coalesce(f(a, b), c) → f(a, b)', 'default: coalesce(f(a, b), c) → c']],
    ['nullif(a, b)', ['default: nullif(a, b) → a']],
    ['PERFORM f(a);', ['statement: PERFORM f(a); → NULL;']],
    ['SELECT a FOR UPDATE;', ['lock: FOR UPDATE → (nothing)']],
    ['SELECT a FOR UPDATE SKIP LOCKED', ['lock: FOR UPDATE SKIP LOCKED → (nothing)', 'lock: SKIP LOCKED → (nothing)']],
    ['SELECT a FOR NO KEY UPDATE', ['lock: FOR NO KEY UPDATE → (nothing)']],
    ['SELECT a WHERE b', ['conjunct: b → true']],
    ['SELECT a WHERE b AND c', ['conjunct: b → true', 'word: AND → OR', 'conjunct: c → true']],
    ['SELECT a WHERE b OR c', ['conjunct: b OR c → true', 'word: OR → AND']],
    ['SELECT a WHERE f(b) ORDER BY c', ['conjunct: f(b) → true']],
    [
      'SELECT a WHERE (b OR c) AND d',
      ['conjunct: (b OR c) → true', 'word: OR → AND', 'word: AND → OR', 'conjunct: d → true'],
    ],
    ['JOIN t ON a', ['conjunct: a → true']],
    ['ON CONFLICT (a) DO NOTHING', []],
    ['IF a THEN b; END IF;', ['branch: a → NOT coalesce(a, false)']],
    ['IF NOT a THEN b; END IF;', ['branch: NOT a → NOT coalesce(NOT a, false)']],
    ['CASE WHEN a THEN b ELSE c END', ['branch: a → NOT coalesce(a, false)']],
    ['CASE a WHEN b THEN c END', []],
    [
      'CASE WHEN CASE a WHEN b THEN c END THEN d END',
      ['branch: CASE a WHEN b THEN c END → NOT coalesce(CASE a WHEN b THEN c END, false)'],
    ],
  ])('of %s', (body, expected) => {
    expect(changes(body)).toEqual(expected)
  })

  it('leave comments, quoted texts, names and types alone', () => {
    expect(changes(`-- a < 1\n"b < 1" ->> 'c < 1' :: d2 || e - 'f' GROUP BY 1`)).toEqual([])
  })

  it('leave what stands before and after the body alone', () => {
    expect(sqlMutantsOf('-- 1 < 2\nCREATE OR REPLACE FUNCTION f(a int = 1) AS $$ a $$ -- 1')).toEqual([])
  })

  it('change one place each, and say where', () => {
    const text = 'CREATE FUNCTION f() AS $$\n\ta\n\tb > 7 $$;'
    expect(sqlMutantsOf(text)).toEqual([
      { line: 3, source: 'b > 7 $$;', mutator: 'comparison', change: '> → >=', text: text.replace('>', '>=') },
      { line: 3, source: 'b > 7 $$;', mutator: 'constant', change: '7 → 8', text: text.replace('7', '8') },
      { line: 3, source: 'b > 7 $$;', mutator: 'constant', change: '7 → 6', text: text.replace('7', '6') },
    ])
  })

  it('need a body', () => {
    expect(() => sqlMutantsOf('SELECT 1')).toThrow('between two $$')
  })
})

describe('the functions of the database', () => {
  it.each(functionFiles())('%s has mutants, each another text, and tests', (file) => {
    const text = readFileSync(file, 'utf8')
    const texts = sqlMutantsOf(text).map((mutant) => mutant.text)
    expect(texts.length).toBeGreaterThan(0)
    expect(new Set([text, ...texts]).size).toBe(texts.length + 1)
    for (const test of testsOfFunction(file)) expect(readFileSync(test, 'utf8')).toContain('expect(')
  })
})
