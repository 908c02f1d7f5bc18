import { describe, expect, it } from 'vitest'
import { quantitiesOf } from './quantities.ts'

describe('quantities', () => {
  it('have a series each, by what they are of', () => {
    const samples = [1, 2].map((n) => ({
      atSeconds: n * 10,
      readings: [
        { kind: 'heap', of: 'api', value: n },
        { kind: 'heap', of: 'worker', value: 10 * n },
      ] as const,
    }))
    expect(quantitiesOf(samples)).toMatchObject([
      {
        name: 'api: heap after a collection',
        unit: 'bytes',
        series: [
          { atSeconds: 10, value: 1 },
          { atSeconds: 20, value: 2 },
        ],
      },
      { name: 'worker: heap after a collection', series: [{ value: 10 }, { value: 20 }] },
    ])
  })

  it('take tables together that are never large, and none that gets large later', () => {
    const size = (of: string, value: number) => ({ kind: 'table', of, value }) as const
    const samples = [
      { atSeconds: 10, readings: [size('a', 8_192), size('b', 16_384), size('c', 8_192)] },
      { atSeconds: 20, readings: [size('a', 8_192), size('b', 24_576), size('c', 262_144)] },
    ]
    expect(quantitiesOf(samples).map(({ name, series }) => [name, ...series.map(({ value }) => value)])).toEqual([
      ['all other tables: table', 24_576, 32_768],
      ['c: table', 8_192, 262_144],
    ])
  })

  it('of what comes and goes with the work count by the lowest of each block', () => {
    const samples = [
      {
        atSeconds: 10,
        readings: [
          { kind: 'heap', of: 'api', value: 1 },
          { kind: 'sockets', of: 'api', value: 1 },
          { kind: 'connections', of: 'Postgres', value: 1 },
        ] as const,
      },
    ]
    expect(quantitiesOf(samples).map(({ blockValue }) => blockValue)).toEqual(['median', 'lowest', 'lowest'])
  })

  it('miss what a sample has not', () => {
    const samples = [
      { atSeconds: 10, readings: [] },
      { atSeconds: 20, readings: [{ kind: 'p50', of: 'sync runs', value: 5 }] as const },
    ]
    expect(quantitiesOf(samples)).toMatchObject([{ series: [{ atSeconds: 20, value: 5 }] }])
  })
})
