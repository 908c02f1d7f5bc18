/** JSON as it was written, with a line for each value. */
import { describe, expect, it } from 'vitest'
import { prettyJson } from '../../../src/api/dashboard/frame/pretty-json.ts'

describe('pretty JSON', () => {
  it.each([
    ['{"a":12345678901234567890}', '{\n  "a": 12345678901234567890\n}'],
    ['[1.50,1e400, -0]', '[\n  1.50,\n  1e400,\n  -0\n]'],
    ['{"a":{},"b":[ ]}', '{\n  "a": {},\n  "b": []\n}'],
    ['{"a":1,"a":2}', '{\n  "a": 1,\n  "a": 2\n}'],
    [
      String.raw`{"\u0041\"{":"[x,y]: z"}`,
      String.raw`{
  "\u0041\"{": "[x,y]: z"
}`,
    ],
    ['"text"', '"text"'],
    ['null', 'null'],
  ])('%s', (given, shown) => {
    expect(prettyJson(given)).toBe(shown)
  })

  it.each(['', 'no', '{', '{"a":1}}'])('%j is none', (given) => {
    expect(prettyJson(given)).toBeNull()
  })

  it('says what was said', () => {
    const value = { a: [{ b: null, c: [true, 'x'] }, []], d: { e: {} } }
    expect(prettyJson(JSON.stringify(value))).toBe(JSON.stringify(value, null, 2))
  })

  it.each([
    ['one character', 'x', 12_000_000],
    ['one escape', String.raw`\"`, 6_000_000],
  ])('takes a text of millions of %s', (_, part, times) => {
    const text = `"${part.repeat(times)}"`
    // A difference of such texts is not to be printed.
    expect(prettyJson(text) === text).toBe(true)
  })

  it('takes a megabyte', () => {
    const text = JSON.stringify({ list: Array.from({ length: 40_000 }, (_, n) => ({ n, text: 'some text' })) })
    expect(JSON.parse(prettyJson(text) ?? '')).toEqual(JSON.parse(text))
  })
})
