import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Json } from '../../src/framework/json.ts'
import { ReducesCheckpointsByMax } from '../../src/provider.ts'
import {
  cursorBefore,
  cursorNotAfter,
  hasInstant,
  isNewerCopy,
  nextCursor,
  reduceCheckpointsByMax,
} from '../../src/syncs/checkpoint-rules.ts'

const ZONES = ['Z', '+00:00', '-00:00', '+02:00', '+0530', '-11:30']

/** The same moment, written in one of the ways that ISO 8601 has for it. */
function written(at: number, zone: string, digits: number): string {
  const sign = zone.startsWith('-') ? -1 : 1
  const [, hours = '0', minutes = '0'] = /(\d\d):?(\d\d)/.exec(zone) ?? []
  const local = new Date(at + sign * (Number(hours) * 60 + Number(minutes)) * 60_000).toISOString()
  return `${local.slice(0, 19)}${digits === 0 ? '' : `.${local.slice(20, 23).padEnd(digits, '0').slice(0, digits)}`}${zone}`
}

const moment = fc.integer({ min: Date.UTC(1990, 0, 1), max: Date.UTC(2090, 0, 1) })
// Few seconds apart and many zones, so that the text's order and the moment's often differ.
const crowdedMoment = fc.integer({ min: 0, max: 4 * 3600 }).map((second) => Date.UTC(2026, 0, 1) + second * 1_000)
const instant = fc
  .tuple(fc.oneof(moment, crowdedMoment), fc.constantFrom(...ZONES), fc.constantFrom(0, 3, 6, 9))
  .map(([at, zone, digits]) => written(at, zone, digits))
const plain = fc.oneof(
  fc.string({ maxLength: 6 }),
  fc.constantFrom('2026-01-01', '2026-01-01T01:30:00', '2026-01-01T02:00', '2026-13-01T00:00:00Z', 'évt_9', 'evt_10'),
)
const checkpoint = fc.oneof(instant, plain)
const checkpoints = fc.array(checkpoint, { minLength: 1, maxLength: 8 })

/** Two checkpoints that the reducer holds for equal: neither moves the other. */
function same(a: Json, b: Json): boolean {
  return reduceCheckpointsByMax([a, b]) === a && reduceCheckpointsByMax([b, a]) === b
}

describe('reduceCheckpointsByMax', () => {
  it('is exported by both of its names', () => {
    expect(ReducesCheckpointsByMax).toBe(reduceCheckpointsByMax)
  })

  it.each<[string, Json[], Json]>([
    ['no checkpoint', [], null],
    ['nulls only', [null, null], null],
    ['one', ['2026-01-01T00:00:00Z'], '2026-01-01T00:00:00Z'],
    ['a null among others', [null, 'b', null, 'a'], 'b'],
    ['two instants', ['2026-01-01T00:00:00Z', '2026-01-02T00:00:00Z'], '2026-01-02T00:00:00Z'],
    [
      'instants whose zones turn their texts around',
      ['2026-01-01T23:00:00Z', '2026-01-02T00:30:00+02:00'],
      '2026-01-01T23:00:00Z',
    ],
    ['Z and +00:00 of one moment', ['2026-01-01T00:00:00Z', '2026-01-01T00:00:00+00:00'], '2026-01-01T00:00:00Z'],
    ['the same, the other way', ['2026-01-01T00:00:00+00:00', '2026-01-01T00:00:00Z'], '2026-01-01T00:00:00+00:00'],
    ['a fraction after Z', ['2026-01-01T00:00:00Z', '2026-01-01T00:00:00.5Z'], '2026-01-01T00:00:00.5Z'],
    ['a fraction of zero', ['2026-01-01T00:00:00Z', '2026-01-01T00:00:00.000Z'], '2026-01-01T00:00:00Z'],
    [
      'microseconds of one millisecond',
      ['2026-01-01T00:00:00.123456Z', '2026-01-01T00:00:00.123457Z', '2026-01-01T00:00:00.1234Z'],
      '2026-01-01T00:00:00.123457Z',
    ],
    ['a zone without colon', ['2026-01-01T00:00:00Z', '2026-01-01T05:00:00+0530'], '2026-01-01T00:00:00Z'],
    ['no seconds', ['2026-01-01T00:01Z', '2026-01-01T00:00:59Z'], '2026-01-01T00:01Z'],
    ['ids by code unit', ['evt_9', 'evt_10'], 'evt_9'],
    ['upper case before lower', ['a', 'B'], 'a'],
    ['dates without time', ['2026-01-02', '2026-01-10'], '2026-01-10'],
    ['times without zone', ['2026-01-01T02:00:00', '2026-01-01T01:59:59'], '2026-01-01T02:00:00'],
    ['a month that is none', ['2026-13-01T00:00:00Z', '2026-12-01T00:00:00Z'], '2026-13-01T00:00:00Z'],
    ['a number among texts', [7, '12'], '7'],
    ['an instant and a text with zeros', ['2026-01-01T00:00:00Z', '2026-01-01T00:00:00.00'], '2026-01-01T00:00:00.00'],
    ['an instant and a text with a dot', ['2026-01-01T00:00:00Z', '2026-01-01T00:00:00.'], '2026-01-01T00:00:00.'],
    [
      'years of six digits, by code unit',
      ['+002026-01-01T03:00:00+02:00', '+002026-01-01T02:00:00Z'],
      '+002026-01-01T03:00:00+02:00',
    ],
  ])('of %s', (_, given, max) => {
    expect(reduceCheckpointsByMax(given)).toBe(max)
  })

  it('takes no time that grows with the square of the zeros of a fraction', () => {
    const later = (end: number) => `2026-11-21T10:00:00.${'0'.repeat(200_000)}${end}Z`
    const startedAt = performance.now()
    expect(reduceCheckpointsByMax([later(1), later(2)])).toBe(later(2))
    // Some milliseconds. In quadratic time it would take half a minute.
    expect(performance.now() - startedAt).toBeLessThan(4_000)
  })

  it('is idempotent', () => {
    fc.assert(
      fc.property(checkpoints, (given) => {
        const max = reduceCheckpointsByMax(given)
        expect(reduceCheckpointsByMax([max])).toBe(max)
        expect(reduceCheckpointsByMax([max, ...given])).toBe(max)
      }),
    )
  })

  it('is associative', () => {
    fc.assert(
      fc.property(checkpoints, checkpoints, (left, right) => {
        const whole = reduceCheckpointsByMax([...left, ...right])
        expect(reduceCheckpointsByMax([reduceCheckpointsByMax(left), reduceCheckpointsByMax(right)])).toBe(whole)
      }),
      { numRuns: 1_000 },
    )
  })

  it('gives the same moment in whatever order', () => {
    fc.assert(
      fc.property(checkpoints, fc.infiniteStream(fc.nat()), (given, keys) => {
        const shuffled = given
          .map((value) => ({ value, key: keys.next().value ?? 0 }))
          .sort((a, b) => a.key - b.key)
          .map(({ value }) => value)
        expect(same(reduceCheckpointsByMax(given), reduceCheckpointsByMax(shuffled))).toBe(true)
      }),
      { numRuns: 1_000 },
    )
  })

  it('finds the latest of moments, however they are written', () => {
    const one = fc.tuple(moment, fc.constantFrom(...ZONES), fc.constantFrom(3, 6))
    fc.assert(
      fc.property(fc.array(one, { minLength: 1, maxLength: 6 }), (given) => {
        const max = reduceCheckpointsByMax(given.map(([at, zone, digits]) => written(at, zone, digits)))
        expect(Date.parse(String(max))).toBe(Math.max(...given.map(([at]) => at)))
      }),
    )
  })
})

describe('the cursor after a clean run', () => {
  const T1 = '2026-01-01T00:00:00Z'
  const T2 = '2026-01-02T00:00:00Z'

  it.each<[string, Json, Json[], ReturnType<typeof nextCursor>]>([
    ['no checkpoints', T1, [], { kind: 'keep' }],
    ['null checkpoints only', T1, [null], { kind: 'keep' }],
    ['a first one', null, [T1, null, T2], { kind: 'advance', to: T2 }],
    ['a later one', T1, [T2], { kind: 'advance', to: T2 }],
    ['an equal one', T1, [T1], { kind: 'keep' }],
    ['the same moment in another text', T1, ['2026-01-01T00:00:00+00:00'], { kind: 'keep' }],
    ['an earlier one', T2, [T1], { kind: 'keep' }],
  ])('%s', (_, current, given, step) => {
    expect(nextCursor(current, given, reduceCheckpointsByMax)).toEqual(step)
  })

  it('stays when the reducer answers null', () => {
    expect(nextCursor(T1, [T2], () => null)).toEqual({ kind: 'keep' })
    expect(nextCursor(null, [T2], () => null)).toEqual({ kind: 'keep' })
  })

  it('does not count the order of keys as a change', () => {
    const last = (given: readonly Json[]): Json => given.at(-1) ?? null
    expect(nextCursor({ page: 1, since: T1 }, [{ since: T1, page: 1 }], last)).toEqual({ kind: 'keep' })
    expect(nextCursor({ page: 1 }, [{ page: 2 }], last)).toEqual({ kind: 'advance', to: { page: 2 } })
  })

  it('asks for nothing where there is nothing', () => {
    const broken = () => {
      throw new Error('asked')
    }
    expect(nextCursor(T1, [null], broken)).toEqual({ kind: 'keep' })
  })

  it('the first one is not compared', () => {
    const asked: Json[][] = []
    nextCursor(null, [T1], (given) => {
      asked.push([...given])
      return given.at(-1) ?? null
    })
    expect(asked).toEqual([[T1]])
  })

  it('is never asked about nulls', () => {
    const asked: Json[][] = []
    nextCursor(T1, [null, T2, null], (given) => {
      asked.push([...given])
      return given.at(-1) ?? null
    })
    expect(asked).toEqual([[T2], [T1, T2]])
  })

  it('never goes back, whatever runs come after one another', () => {
    const run = fc.array(fc.option(checkpoint), { maxLength: 5 })
    fc.assert(
      fc.property(fc.array(run, { minLength: 1, maxLength: 6 }), (runs) => {
        let cursor: Json = null
        for (const given of runs) {
          const step = nextCursor(cursor, given, reduceCheckpointsByMax)
          if (step.kind === 'keep') continue
          if (cursor !== null) {
            // What it moves to is preferred to where it was, also when asked the other way round.
            expect(reduceCheckpointsByMax([step.to, cursor])).toBe(step.to)
            expect(reduceCheckpointsByMax([cursor, step.to])).toBe(step.to)
          }
          cursor = step.to
        }
        const highest = reduceCheckpointsByMax(runs.flat())
        expect(cursor === null ? highest : reduceCheckpointsByMax([cursor, highest])).toBe(cursor)
      }),
      { numRuns: 1_000 },
    )
  })
})

describe('a cursor that is not after the beginning of its listing', () => {
  const began = new Date('2026-03-01T12:00:00.750Z')

  it.each<[string, Json, Json]>([
    ['an earlier time', '2026-03-01T12:00:00.749Z', '2026-03-01T12:00:00.749Z'],
    ['the very time', '2026-03-01T12:00:00.750000Z', '2026-03-01T12:00:00.750000Z'],
    ['a later time, as it is written', '2026-03-01T12:00:00.751Z', '2026-03-01T12:00:00.750Z'],
    ['later by less than a millisecond', '2026-03-01T12:00:00.7500001Z', '2026-03-01T12:00:00.7500000Z'],
    ['whole seconds: the second before', '2026-03-01T13:00:00Z', '2026-03-01T12:00:00Z'],
    ['whole minutes', '2026-03-01T13:00Z', '2026-03-01T12:00Z'],
    ['a zone of its own', '2026-03-02T01:00:00.0+05:30', '2026-03-01T17:30:00.7+05:30'],
    ['a zone without a colon, behind UTC', '2026-03-02T01:00:00-0800', '2026-03-01T04:00:00-0800'],
    [
      'an object',
      { a: '2027-01-01T00:00:00Z', b: ['2020-01-01T00:00:00Z', 7, null] },
      { a: '2026-03-01T12:00:00Z', b: ['2020-01-01T00:00:00Z', 7, null] },
    ],
    ['an id', 'evt_9', 'evt_9'],
    ['a number', 1_772_366_400, 1_772_366_400],
    ['a time without a zone', '2027-01-01T00:00:00', '2027-01-01T00:00:00'],
    ['no day', '2027-99-01T00:00:00Z', '2027-99-01T00:00:00Z'],
  ])('of %s', (_, cursor, expected) => {
    expect(cursorNotAfter(cursor, began)).toEqual(expected)
  })

  it('is never later, and in the form that it had', () => {
    fc.assert(
      fc.property(instant, moment, (text, at) => {
        const cut = cursorNotAfter(text, new Date(at)) as string
        expect(Date.parse(cut)).toBeLessThanOrEqual(Math.max(at, Math.min(at, Date.parse(text))))
        expect(cut.replace(/\d/g, '0')).toBe(text.replace(/\d(?=.*[Z+-])/g, '0').replace(/\d/g, '0'))
      }),
    )
  })
})

describe('of two copies of an item', () => {
  it.each<[string, Json, Json, boolean]>([
    ['the later one, with a greater checkpoint', 'a', 'b', true],
    ['the earlier one, with a greater checkpoint', 'b', 'a', false],
    ['the later one, with the same checkpoint', 'a', 'a', true],
    ['the later one, of the same moment', '2026-01-01T00:00:00Z', '2026-01-01T01:00:00+01:00', true],
    ['the earlier one, later by its instant', '2026-01-01T00:30:00Z', '2026-01-01T01:00:00+01:00', false],
    ['the later one, where neither has a checkpoint', null, null, true],
    ['the later one, where only the earlier one has one', 'b', null, true],
    ['the later one, where only it has one', null, 'a', true],
  ])('the newer is %s', (_, kept, later, isNewer) => {
    expect(isNewerCopy(kept, later, reduceCheckpointsByMax)).toBe(isNewer)
  })

  it('are compared only where both have a checkpoint', () => {
    const firstOfAll = (given: readonly Json[]): Json => given.at(-1) ?? null
    expect(isNewerCopy(null, 'a', firstOfAll)).toBe(true)
    expect(isNewerCopy('a', null, firstOfAll)).toBe(true)
    expect(isNewerCopy('a', 'b', firstOfAll)).toBe(false)
  })

  it('the newer is the later one, where the reducer makes the same of both', () => {
    expect(isNewerCopy('A', 'a', (given) => String(given[0] ?? '').toLowerCase())).toBe(true)
  })

  it('the newer is the later one, where the reducer prefers neither or throws', () => {
    expect(isNewerCopy({ a: 2 }, { b: 1 }, () => ({ a: 2, b: 1 }))).toBe(true)
    const broken = () => {
      throw new Error('of the reducer')
    }
    expect(isNewerCopy('b', 'a', broken)).toBe(true)
  })
})

describe('a cursor moved back', () => {
  it.each<[string, Json, Json]>([
    ['a time', '2026-03-01T12:00:00.750Z', '2026-03-01T11:58:30.750Z'],
    ['whole seconds', '2026-03-01T12:00:00Z', '2026-03-01T11:58:30Z'],
    ['whole minutes: the minute before', '2026-03-01T12:00Z', '2026-03-01T11:58Z'],
    ['a zone of its own', '2026-03-01T12:00:00+05:30', '2026-03-01T11:58:30+05:30'],
    ['whole minutes with a zone', '2026-03-01T12:00+02:00', '2026-03-01T11:58+02:00'],
    ['a zone behind UTC', '2026-03-01T00:01:00-0800', '2026-02-28T23:59:30-0800'],
    ['a list', ['2026-03-01T12:00:00Z', 7, null], ['2026-03-01T11:58:30Z', 7, null]],
    ['an object', { since: '2026-03-01T12:00:00Z', page: 2 }, { since: '2026-03-01T11:58:30Z', page: 2 }],
    ['an id', 'evt_9', 'evt_9'],
    ['a number', 1_772_366_400, 1_772_366_400],
    ['nothing', null, null],
    ['a truth', true, true],
  ])('of %s', (_, cursor, expected) => {
    expect(cursorBefore(cursor, 90)).toEqual(expected)
  })

  it('differs by the seconds, and in nothing else', () => {
    fc.assert(
      fc.property(instant, fc.integer({ min: 0, max: 90 * 86_400 }), (text, seconds) => {
        const moved = cursorBefore(text, seconds) as string
        expect(Date.parse(moved)).toBe(Date.parse(text) - seconds * 1_000)
        expect(moved.replace(/\d(?=.*[Z+-])/g, '0')).toBe(text.replace(/\d(?=.*[Z+-])/g, '0'))
      }),
    )
  })
})

it.each<[Json, boolean]>([
  ['2026-03-01T12:00:00Z', true],
  ['evt_9', false],
  ['2026-03-01', false],
  [7, false],
  [null, false],
  [true, false],
  [[], false],
  [['a', '2026-03-01T12:00:00Z'], true],
  [['a', 7, null], false],
  [{ page: 1, since: { of: '2026-03-01T12:00:00Z' } }, true],
  [{ page: 1, since: null }, false],
])('in the cursor %j stands a time: %s', (cursor, expected) => {
  expect(hasInstant(cursor)).toBe(expected)
})
