/** Digits of numbers and of fractions of a second, as others write them. */

/** No regular expression: `/0+$/` takes quadratic time for a run of zeros, and others decide how long it is. */
export function withoutTrailingZeros(digits: string): string {
  let end = digits.length
  while (digits[end - 1] === '0') end -= 1
  return digits.slice(0, end)
}
