import { describe, expect, it } from 'vitest'
import { readArguments } from './arguments.ts'

describe('what a soak is asked for', () => {
  it('is an hour at a third of capacity where nothing is said', () => {
    expect(readArguments([])).toEqual({ minutes: 60, perSecond: null })
  })

  it('takes what is said', () => {
    expect(readArguments(['--minutes', '3', '--per-second', '40'])).toEqual({ minutes: 3, perSecond: 40 })
    expect(readArguments(['--help'])).toBeNull()
  })

  it.each([
    [['--minutes', '2'], '--minutes: expected a number from 3 to 1440, received "2"'],
    [['--per-second', 'many'], '--per-second: expected a number from 1 to 10000, received "many"'],
    [['--minute', '3'], /--minute/],
    [['more'], /more/],
  ])('refuses %j', (words, message) => {
    expect(() => readArguments(words)).toThrow(message)
  })
})
