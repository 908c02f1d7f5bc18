import { expect, it } from 'vitest'
import { withoutTrailingZeros } from '../../src/framework/digit-rules.ts'

it.each([
  ['120', '12'],
  ['1200', '12'],
  ['12', '12'],
  ['102', '102'],
  ['0', ''],
  ['', ''],
])('of %j is left %j without zeros at its end', (digits, left) => {
  expect(withoutTrailingZeros(digits)).toBe(left)
})

it('of a million zeros takes no time', () => {
  expect(withoutTrailingZeros('1'.padEnd(1_000_000, '0'))).toBe('1')
})
