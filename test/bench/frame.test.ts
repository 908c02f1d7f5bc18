import { describe, expect, it } from 'vitest'
import type { Contender, Figure } from '../../bench/frame.ts'
import { compare, inTurn, jsonLine, median, percentile, table, target } from '../../bench/frame.ts'

const rate = (name: string, value: number): Figure => ({ name, value, unit: 'calls/s' })
const millis = (name: string, value: number): Figure => ({ name, value, unit: 'ms' })

describe('the median', () => {
  it.each([
    [[5], 5],
    [[3, 1, 2], 2],
    [[4, 1, 3, 2], 2.5],
    [[1, 1_000_000, 2], 2],
    [[10, 9, 100], 10],
  ])('of %j is %d', (values, expected) => expect(median(values)).toBe(expected))

  it('leaves the order of what it was given', () => {
    const values = [3, 1, 2]
    median(values)
    expect(values).toEqual([3, 1, 2])
  })

  it.each([[[]], [[1, Number.NaN, 2]]])('of %j is refused', (values) =>
    expect(() => median(values)).toThrow(RangeError),
  )
})

describe('a percentile', () => {
  const hundred = Array.from({ length: 100 }, (_, at) => 100 - at)
  it.each([
    [hundred, 0.99, 99],
    [hundred, 1, 100],
    [hundred, 0, 1],
    [[7], 0.99, 7],
    [[2, 1], 0.5, 1],
    [[10, 9, 100], 0.67, 100],
  ])('of %j at %d is %d: a value that was measured', (values, share, expected) =>
    expect(percentile(values, share)).toBe(expected),
  )

  it.each([[[]], [[1, Number.NaN, 2]]])('of %j is refused', (values) =>
    expect(() => percentile(values, 0.99)).toThrow(RangeError),
  )
})

describe('measuring in turn', () => {
  const contender = (name: string, values: number[], turns: string[]): Contender => ({
    name,
    measure: async () => {
      turns.push(name)
      return values.shift() as number
    },
  })

  it('goes A B A B, and leaves the first turn of each out', async () => {
    const turns: string[] = []
    const contenders = [contender('a', [999, 1, 5, 3], turns), contender('b', [0, 20, 30, 10], turns)]
    const medians = await inTurn(contenders, 3)
    expect(turns.join('')).toBe('abababab')
    expect([...medians]).toEqual([
      ['a', 3],
      ['b', 20],
    ])
  })

  it('takes one round, of which somebody else takes the median', async () => {
    expect([...(await inTurn([contender('a', [999, 7], [])], 1))]).toEqual([['a', 7]])
  })

  it.each([0, 2, 3.5])('refuses %d rounds', async (rounds) => {
    await expect(inTurn([], rounds)).rejects.toThrow(/at least 3 rounds/)
  })

  it('fails with a call that fails', async () => {
    const broken: Contender = { name: 'a', measure: () => Promise.reject(new Error('HTTP 500')) }
    await expect(inTurn([broken], 3)).rejects.toThrow('HTTP 500')
  })

  it('refuses two of one name', async () => {
    const turns: string[] = []
    await expect(inTurn([contender('a', [], turns), contender('a', [], turns)], 3)).rejects.toThrow(/same name/)
    expect(turns).toEqual([])
  })
})

describe('comparing', () => {
  it.each([
    [600, 1_000, 'ratio', 'at least', 0.6, 0.6, true],
    [599, 1_000, 'ratio', 'at least', 0.6, 0.599, false],
    [1_200, 1_000, 'ratio', 'at most', 1, 1.2, false],
    [2.5, 1, 'difference', 'at most', 1.5, 1.5, true],
    [2.6, 1, 'difference', 'at most', 1.5, 1.6, false],
    [0.5, 1, 'difference', 'at most', 1.5, -0.5, true],
  ] as const)('%d beside %d by %s, %s %d: %d, met: %s', (ours, peer, by, direction, goal, value, isMet) => {
    const compared = compare(rate('ours', ours), rate('peer', peer), by, { direction, value: goal })
    expect(compared.value).toBeCloseTo(value, 10)
    expect(compared.isMet).toBe(isMet)
  })

  it('refuses two units', () => {
    expect(() => compare(rate('a', 1), millis('b', 1), 'ratio', { direction: 'at least', value: 1 })).toThrow(/ms/)
  })
})

describe('an absolute goal', () => {
  it.each([
    [30, 'at most', 30, true],
    [30.1, 'at most', 30, false],
    [500, 'at least', 500, true],
    [499, 'at least', 500, false],
    [Number.NaN, 'at most', 30, false],
  ] as const)('%d, %s %d: met: %s', (value, direction, goal, isMet) => {
    const judged = target(millis('idle', value), { direction, value: goal })
    expect(judged).toMatchObject({ name: `idle, ${direction}`, peer: null, value, isMet })
  })
})

describe('what is printed', () => {
  const outcome = {
    figures: [rate('ours', 1_234.5), rate('peer', 2_000), millis('idle', 0.1234)],
    comparisons: [
      compare(rate('ours', 1_234.5), rate('peer', 2_000), 'ratio', { direction: 'at least', value: 0.6 }),
      compare(millis('one', 3), millis('bare', 1), 'difference', { direction: 'at most', value: 1.5 }),
    ],
  }

  it('is a table of figure, peer, ratio, target and whether it is met', () => {
    const lines = table(outcome)
      .split('\n')
      .map((line) =>
        line
          .split('|')
          .map((cell) => cell.trim())
          .slice(1, -1),
      )
    expect(lines[0]).toEqual(['figure', 'peer', 'ratio', 'target', 'met'])
    expect(lines.slice(2)).toEqual([
      ['ours: 1,235 calls/s', 'peer: 2,000 calls/s', '0.62', '>= 0.6', 'met'],
      ['one: 3.00 ms', 'bare: 1.00 ms', '+2.00 ms', '<= 1.5 ms', 'NOT MET'],
      ['idle: 0.123 ms', '', '', '', ''],
    ])
  })

  it('has a line for an absolute goal, and one for what was left out', () => {
    const idle = target(millis('idle', 31.4), { direction: 'at most', value: 30 })
    const lines = table({ figures: [idle.figure], comparisons: [idle], leftOut: ['a minute of load', 'many'] }).split(
      '\n',
    )
    expect(lines.slice(2)).toEqual([
      '| idle: 31.4 ms |      |       | <= 30 ms | NOT MET |',
      '',
      'Left out by --quick: a minute of load; many.',
    ])
    expect(JSON.parse(jsonLine('x', 'y', { figures: [], comparisons: [idle], leftOut: ['many'] }))).toMatchObject({
      targets: [{ name: 'idle, at most', value: 31.4, goal: 30, met: false }],
      leftOut: ['many'],
    })
  })

  it('is one line of JSON', () => {
    const line = jsonLine('request', 'a machine', outcome)
    expect(line).not.toContain('\n')
    expect(JSON.parse(line)).toEqual({
      name: 'request',
      machine: 'a machine',
      figures: [
        { name: 'ours', value: 1_234.5, unit: 'calls/s' },
        { name: 'peer', value: 2_000, unit: 'calls/s' },
        { name: 'idle', value: 0.1234, unit: 'ms' },
      ],
      targets: [
        {
          name: 'ours / peer, at least',
          value: 0.61725,
          goal: 0.6,
          met: true,
          direction: 'at least',
          by: 'ratio',
          figure: { name: 'ours', value: 1_234.5, unit: 'calls/s' },
          peer: { name: 'peer', value: 2_000, unit: 'calls/s' },
        },
        expect.objectContaining({ name: 'one - bare, at most', value: 2, goal: 1.5, met: false, direction: 'at most' }),
      ],
    })
  })
})
