/** docs/behaviour/operator-api.md, "Moments". */
import { describe, expect, it } from 'vitest'
import { instantOrAgo } from '../../src/framework/instant.ts'

const NOW = Date.parse('2031-06-08T12:00:00Z')
const read = (given: unknown) => instantOrAgo(() => NOW).safeParse(given)

describe('a moment of a filter by time', () => {
  it.each([
    ['2031-06-01T12:00:00+02:00', '2031-06-01T10:00:00.000Z'],
    ['90m', '2031-06-08T10:30:00.000Z'],
    ['24h', '2031-06-07T12:00:00.000Z'],
    ['7d', '2031-06-01T12:00:00.000Z'],
  ])('%s is %s', (given, moment) => {
    expect(read(given).data?.toISOString()).toBe(moment)
  })

  it.each(['yesterday', '0h', '01h', '1.5h', '-1h', '24', '24 h', '30s', '1w', '999999d', '2031-06-01', '', 7, null])(
    '%j is refused, and what is allowed is said',
    (given) => {
      expect(read(given).error?.issues.map(({ message }) => message)).toEqual([
        'a moment in ISO 8601 with its offset, of the years 1 to 9999, such as 2031-06-01T12:00:00Z, or a length of time back such as 90m, 24h or 7d',
      ])
    },
  )
})
