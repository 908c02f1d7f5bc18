import { describe, expect, it } from 'vitest'
import { plain, plainLines } from '../../../src/commands/cli/plain.ts'
import { table } from '../../../src/commands/cli/table.ts'

describe('foreign text', () => {
  it.each([
    ['colour', 'a\u001b[31mb', 'a[31mb'],
    ['an 8-bit control sequence', 'a\u009b2Jb', 'a2Jb'],
    ['a bell and a backspace', 'a\u0007\u0008b', 'ab'],
    ['a carriage return', 'safe\rbad', 'safebad'],
    ['line breaks and tabs', 'a\r\nb\nc\td', 'a b c d'],
    ['a turned direction', 'a\u202egpj.exe\u2066', 'agpj.exe'],
    ['ordinary text', 'Zoë – 漢字 👍🏽', 'Zoë – 漢字 👍🏽'],
  ])('loses %s', (_, text, expected) => {
    expect(plain(text)).toBe(expected)
  })

  it('keeps its lines where lines are wanted', () => {
    expect(plainLines('a\u001b\nb\u0007')).toBe('a\nb')
  })
})

describe('a table', () => {
  it('aligns numbers to the right, and shows what is not there as a dash', () => {
    const at = new Date('2026-01-02T03:04:05Z')
    const rows = [
      [1, 'one', true, null, at],
      [20, 'two\n\u001b[1m', false, '', { a: 1 }],
    ]
    expect(table(['ID', 'Name', 'On', 'Note', 'At'], rows).split('\n')).toEqual([
      'ID  Name     On   Note  At',
      ' 1  one      yes  -     2026-01-02T03:04:05.000Z',
      '20  two [1m  no   -     {"a":1}',
    ])
  })
})
