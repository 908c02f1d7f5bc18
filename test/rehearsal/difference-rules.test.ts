/** What differs between two handlings: the rules, on pieces made by hand. */
import { describe, expect, it } from 'vitest'
import { startupOf } from '../../src/db/startup-message-rules.ts'
import { differences, withoutColumns } from '../../src/rehearsal/difference-rules.ts'
import { isMoment, withoutMoments } from '../../src/rehearsal/moment-rules.ts'
import type { Piece, PlayedCall, RecordedCall, RowChange } from '../../src/rehearsal/rehearsal-jobs.ts'

const call = (endpoint: string, at = 0): RecordedCall => ({
  method: 'GET',
  endpoint,
  data: null,
  idempotencyKey: null,
  relatedTo: null,
  beganAtMs: at,
  settledAtMs: at + 10,
})
let step = 0
/** After the one played before it. */
const played = (endpoint: string, recorded: number | null): PlayedCall => {
  const { beganAtMs: _, settledAtMs: __, ...asked } = call(endpoint)
  const span = { began: step + 1, ended: step + 2 }
  step += 2
  return { ...asked, recorded, sent: [], span }
}
const change = (operation: RowChange['operation'], before: object | null, after: object | null): RowChange =>
  ({ table: 'public.t', operation, before, after }) as RowChange

function piece(
  id: number,
  happened: Partial<Piece['happened']> = {},
  now: Partial<NonNullable<Piece['now']>> = {},
  cannot: readonly string[] = [],
): Piece {
  const end = { status: 'succeeded', error: null, result: null } as const
  return {
    kind: 'webhook',
    id,
    integrationId: 7,
    type: null,
    handledAt: '2031-06-01T12:00:00.000Z',
    happened: { ...end, calls: [], ...happened },
    now: { ...end, calls: [], rows: [], started: [], refused: [], ...now },
    cannot,
  }
}
const found = (pieces: readonly Piece[], baseline: readonly Piece[] | null = null): string[] =>
  differences(pieces, baseline).map(({ id, what }) => `${id} ${what}`)

describe('calls against the log', () => {
  it('have no order where they ran beside each other', () => {
    const calls = [call('a', 0), call('b', 5)]
    expect(found([piece(1, { calls }, { calls: [played('b', 1), played('a', 0)] })])).toEqual([])
  })

  it('have one where the one had ended before the other began', () => {
    const calls = [call('a', 0), call('b', 50)]
    expect(found([piece(1, { calls }, { calls: [played('b', 1), played('a', 0)] })])).toEqual(['1 call order'])
  })

  it('have none where they run beside each other now: the log does not say how long a call had waited', () => {
    const calls = [call('a', 0), call('b', 50)]
    const [b, a] = [played('b', 1), played('a', 0)]
    const beside = { ...a, span: { began: b.span.began, ended: a.span.ended } }
    expect(found([piece(1, { calls }, { calls: [b, beside] })])).toEqual([])
  })

  it('have none where the one began at the step at which the other ended', () => {
    const calls = [call('a', 0), call('b', 50)]
    const [b, a] = [played('b', 1), played('a', 0)]
    const beside = { ...a, span: { began: b.span.ended, ended: a.span.ended } }
    expect(found([piece(1, { calls }, { calls: [b, beside] })])).toEqual([])
  })

  it('are not missing after a call without an answer, which ends the handler', () => {
    const calls = [call('a'), call('b')]
    expect(found([piece(1, { calls }, { status: 'failed', calls: [played('c', null)] })])).toEqual(['1 call added'])
    expect(found([piece(1, { calls }, { status: 'failed', calls: [] }, ['a reason'])])).toEqual([])
  })

  it('for tokens may be missing', () => {
    const grant = { ...call('oauth/token'), method: 'POST', data: '{"grant_type":"refresh_token"}' }
    expect(found([piece(1, { calls: [grant] })])).toEqual([])
  })
})

describe('ends', () => {
  it('are alike where a moment of the rehearsal stands for one of then', () => {
    const [happened, now] = [{ result: { at: '2031-06-01T12:00:00Z', n: 1 } }, { result: { at: '(now)', n: 1 } }]
    expect(found([piece(1, happened, now)])).toEqual([])
    expect(found([piece(1, { result: { at: 'noon', n: 1 } }, now)])).toEqual(['1 outcome'])
  })
})

describe('rows against the copy', () => {
  it('may be put back and forth', () => {
    const [old, recent] = [
      { id: 1, s: 'old' },
      { id: 1, s: 'new' },
    ]
    const pieces = [
      piece(1, {}, { rows: [change('update', recent, old)] }),
      piece(2, {}, { rows: [change('update', old, recent)] }),
    ]
    expect(found(pieces)).toEqual([])
    expect(found(pieces.slice(0, 1))).toEqual(['1 rows'])
  })

  it('may have moments of the rehearsal', () => {
    expect(found([piece(1, {}, { rows: [change('update', { id: 1, at: 'x' }, { id: 1, at: '(now)' })] })])).toEqual([])
  })

  it('are no different for an insert that found a row in its way', () => {
    expect(found([piece(1, {}, { rows: [change('insert', null, { id: 1 })] })])).toEqual([])
    const took = [change('insert', null, { id: 1 }), change('inserted', null, { id: 1 })]
    expect(found([piece(1, {}, { rows: took })])).toEqual(['1 rows'])
  })

  it('are compared without columns that are ignored', () => {
    const rows = [change('update', { id: 1, token: 'a' }, { id: 1, token: 'b' })]
    expect(found(withoutColumns([piece(1, {}, { rows })], ['public.t.token']))).toEqual([])
  })
})

describe('against the old code', () => {
  const insert = change('insert', null, { id: 1 })

  it.each<[string, Piece, Piece, string[]]>([
    ['the same', piece(1, {}, { rows: [insert] }), piece(1, {}, { rows: [insert] }), []],
    ['a write that is left out', piece(1), piece(1, {}, { rows: [insert] }), ['1 rows']],
    [
      'another order of calls',
      piece(1, {}, { calls: [played('b', 1), played('a', 0)] }),
      piece(1, {}, { calls: [played('a', 0), played('b', 1)] }),
      ['1 call order'],
    ],
    [
      'something else on the wire',
      piece(1, {}, { calls: [{ ...played('a', 0), sent: [{ method: 'GET', url: 'https://x/', bodyHash: null }] }] }),
      piece(1, {}, { calls: [played('a', 0)] }),
      ['1 call changed'],
    ],
    ['another workflow', piece(1, {}, { started: ['ours'] }), piece(1), ['1 workflows']],
    ['a connection of its own', piece(1, {}, { refused: ['a connection'] }, ['it …']), piece(1), ['1 network']],
    ['a piece that can no longer be rehearsed', piece(1, {}, {}, ['a reason']), piece(1), ['1 outcome']],
  ])('%s', (_, now, before, expected) => {
    expect(found([now], [before])).toEqual(expected)
  })
})

describe('moments of the rehearsal', () => {
  const span = { beganAt: new Date('2031-06-01T12:00:00Z'), endedAt: new Date('2031-06-01T12:01:00Z') }

  it.each([
    ['2031-06-01T12:00:30.123456+00:00', '(now)'],
    ['2031-06-01 14:00:30+02', '(now)'],
    [Date.parse('2031-06-01T12:00:30Z'), '(now)'],
    [Date.parse('2031-06-01T12:00:30Z') / 1_000, '(now)'],
    ['2031-06-01T13:00:30Z', '2031-06-01T13:00:30Z'],
    ['a text', 'a text'],
    [7, 7],
    [null, null],
    [true, true],
    ['2031-06-01T12:00:30', '(now)'],
    ['2031-06-01 12:00', '(now)'],
    ['2031-06-01T12:00Z', '(now)'],
    ['2031-06-01T14:00:30+0200', '(now)'],
    ['2031-06-01T09:30:30-02:30', '(now)'],
    ['2031-06-01T09:30:30-02', '2031-06-01T09:30:30-02'],
    ['at 2031-06-01T12:00:30Z', 'at 2031-06-01T12:00:30Z'],
    ['2031-06-01T12:00:30Z.', '2031-06-01T12:00:30Z.'],
    // Two seconds on either side.
    ['2031-06-01T11:59:58Z', '(now)'],
    ['2031-06-01T11:59:57.999Z', '2031-06-01T11:59:57.999Z'],
    ['2031-06-01T12:01:02Z', '(now)'],
    ['2031-06-01T12:01:02.001Z', '2031-06-01T12:01:02.001Z'],
    [{ a: ['2031-06-01T12:00:30Z', 7] }, { a: ['(now)', 7] }],
  ])('%j', (value, expected) => {
    expect(withoutMoments(value, span)).toEqual(expected)
  })
})

describe('the first message of a session', () => {
  it.each([
    ['no message', 'text', 'other'],
    ['too short', Buffer.from([0, 0, 0, 8]), 'other'],
    ['a request for encryption', Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]), 'encryption'],
    ['a cancellation', Buffer.from([0, 0, 0, 16, 4, 210, 22, 46, 0, 0, 0, 1, 0, 0, 0, 2]), 'cancel'],
  ])('%s', (_, message, kind) => {
    expect(startupOf(message)).toEqual({ kind })
  })
})

it.each([
  ['2031-06-01T12:00:30Z', true],
  ['2031-06-01', false],
  ['noon', false],
  ['7000000000', false],
  ['at 2031-06-01T12:00:30Z', false],
  ['2031-06-01T12:00:30Z.', false],
  [['2031-06-01T12:00:30Z'], false],
  [1_000_000_000, false],
  [1_000_000_001, true],
  [7, false],
  [true, false],
  [null, false],
  [[1_000_000_001], false],
])('%j may stand for a moment: %s', (value, is) => {
  expect(isMoment(value)).toBe(is)
})

describe('what a difference says', () => {
  const told = (now: Piece, before: Piece | null = null) =>
    differences([now], before === null ? null : [before]).map(({ kind, id, integrationId, ...difference }) => {
      expect([kind, id, integrationId]).toEqual(['webhook', 1, 7])
      return difference
    })
  const asked = (endpoint: string, more: object = {}) => {
    const { beganAtMs: _, settledAtMs: __, ...rest } = call(endpoint)
    return { ...rest, ...more }
  }
  const end = (status: string, error: string | null = null, result: unknown = null) => ({ status, error, result })

  it('of a call against the log', () => {
    expect(told(piece(1, { calls: [call('a')] }, { calls: [played('b', null)] }))).toEqual([
      {
        what: 'call added',
        message: 'it calls GET b',
        before: null,
        after: { ...asked('b'), recorded: null, sent: [] },
      },
    ])
    expect(told(piece(1, { calls: [call('a')] }))).toEqual([
      { what: 'call missing', message: 'it no longer calls GET a', before: call('a'), after: null },
    ])
    const other = { ...played('a', null), data: '{}' }
    expect(told(piece(1, { calls: [call('a')] }, { calls: [other] }))).toEqual([
      {
        what: 'call changed',
        message: 'it calls GET a otherwise',
        before: call('a'),
        after: { ...asked('a'), recorded: null, sent: [], data: '{}' },
      },
    ])
  })

  it('of a call by another method is two', () => {
    const now = [{ ...played('a', null), method: 'POST' }]
    const before = piece(1, {}, { calls: [played('a', 0)] })
    expect(told(piece(1, {}, { calls: now }), before).map(({ message }) => message)).toEqual([
      'it calls POST a',
      'it no longer calls GET a',
    ])
  })

  it('of a call that is about another record', () => {
    const now = { ...played('a', 0), relatedTo: 'order:8' }
    const then = { ...call('a'), relatedTo: 'order:7' }
    expect(told(piece(1, { calls: [then] }, { calls: [now] }))).toEqual([
      { what: 'call changed', message: 'it relates GET a to another record', before: 'order:7', after: 'order:8' },
    ])
    expect(told(piece(1, { calls: [then] }, { calls: [{ ...now, relatedTo: 'order:7' }] }))).toEqual([])
  })

  it('of the order, which only calls after one another have', () => {
    const calls = [call('a', 0), call('b', 11), call('c', 10)]
    const order = (...now: PlayedCall[]) => told(piece(1, { calls }, { calls: now }))
    expect(order(played('c', 2), played('b', 1), played('a', 0))).toEqual([
      { what: 'call order', message: 'it calls GET b before GET a', before: null, after: null },
    ])
    expect(order(played('c', 2), played('a', 0), played('b', 1))).toEqual([])
    expect(order(played('a', 0), played('b', 1), played('c', 2))).toEqual([])
  })

  it.each([
    [end('succeeded'), end('failed', 'x'), 'it fails, and succeeded before'],
    [end('failed', 'x'), end('succeeded'), 'it succeeds, and failed before'],
    [end('succeeded'), end('put off'), 'it is put off, and succeeded before'],
    [end('put off'), end('succeeded'), 'it succeeds, and was put off before'],
    [end('failed', 'x'), end('failed', 'y'), 'it fails with another error'],
    [end('succeeded', null, 1), end('succeeded', null, 2), 'its handler gives another result'],
  ] as const)('of the end: %j and now %j', (then, now, message) => {
    expect(told(piece(1, then as never, now as never))).toEqual([
      { what: 'outcome', message, before: then, after: now },
    ])
  })

  it.each([
    [{ a: 1 }, [1]],
    [[1], { 0: 1 }],
    [{ a: 1 }, { a: 1, b: 2 }],
    [{ a: 1, b: 2 }, { a: 1 }],
    [{ a: 1 }, { b: 1 }],
    [{ a: 1 }, null],
    [null, { a: 1 }],
    [{}, 'x'],
    ['x', {}],
    [7, '(now)'],
    [{ toString: 1 }, { a: 1 }],
    [7, {}],
    [{}, 7],
  ])('of the results %j and %j, which are not alike', (then, now) => {
    expect(told(piece(1, { result: then }, { result: now })).map(({ what }) => what)).toEqual(['outcome'])
  })

  it.each([
    ['(now)', '(now)'],
    [{ a: [1, { b: 2 }] }, { a: [1, { b: 2 }] }],
    [[1_800_000_000], ['(now)']],
  ])('of the results %j and %j is nothing: these are alike', (then, now) => {
    expect(told(piece(1, { result: then }, { result: now }))).toEqual([])
  })

  it('of the end of a piece whose calls are all in the log', () => {
    const [then, now] = [{ calls: [call('a')] }, { calls: [played('a', 0)], result: 2 }]
    expect(told(piece(1, then, now)).map(({ what }) => what)).toEqual(['outcome'])
  })

  it('of the end beside the old code', () => {
    expect(told(piece(1, {}, end('failed', 'x') as never), piece(1))).toEqual([
      {
        what: 'outcome',
        message: 'it fails, and succeeded before',
        before: end('succeeded'),
        after: end('failed', 'x'),
      },
    ])
  })

  it('of a new call, unless a refusal of ours may be its reason', () => {
    const calls = [played('c', null), played('a', 0)]
    expect(told(piece(1, { calls: [call('a')] }, { calls })).map(({ message }) => message)).toEqual(['it calls GET c'])
    expect(told(piece(1, { calls: [call('a')] }, { calls }, ['a reason']))).toEqual([])
  })

  it('of rows, by table', () => {
    const one = change('insert', null, { id: 1 })
    const other = { ...change('insert', null, { id: 2 }), table: 'public.u' }
    const before = piece(1, {}, { rows: [one, one] })
    expect(told(piece(1, {}, { rows: [one, other] }), before)).toEqual([
      { what: 'rows', message: 'it writes public.t otherwise', before: [one], after: [] },
      { what: 'rows', message: 'it writes public.u otherwise', before: [], after: [other] },
    ])
    const took = { ...one, operation: 'inserted' as const }
    expect(told(piece(1, {}, { rows: [one, one, took] }), before)).toEqual([])
  })

  it('of a row that was updated, once', () => {
    const update = change('update', { id: 1, s: 'old' }, { id: 1, s: 'new' })
    expect(told(piece(1, {}, { rows: [update] }))).toEqual([
      { what: 'rows', message: 'it writes public.t otherwise', before: [], after: [update] },
    ])
  })

  it('of workflows and the network, each list whole', () => {
    expect(
      told(piece(1, {}, { started: ['a'], refused: ['b'] }, ['b is refused']), piece(1, {}, { started: ['c'] })),
    ).toEqual([
      { what: 'workflows', message: 'it starts other workflows', before: ['c'], after: ['a'] },
      { what: 'network', message: 'it reaches the network by itself otherwise', before: [], after: ['b'] },
    ])
  })

  it('of what cannot be rehearsed', () => {
    expect(told(piece(1, {}, {}, ['a']), piece(1, {}, {}, ['b']))).toEqual([
      { what: 'outcome', message: 'other calls of it cannot be rehearsed', before: ['b'], after: ['a'] },
    ])
    expect(told(piece(1, {}, {}, ['a']), piece(1, {}, {}, ['a']))).toEqual([])
    const notRun = (why: string[]): Piece => ({ ...piece(1, {}, {}, why), now: null })
    const runnable = { what: 'outcome', message: 'only one of the two can be rehearsed' }
    expect(told(notRun(['a']), piece(1))).toEqual([{ ...runnable, before: [], after: ['a'] }])
    expect(told(piece(1), notRun(['a']))).toEqual([{ ...runnable, before: ['a'], after: [] }])
    expect(told(notRun(['a']), notRun(['b']))).toEqual([])
    expect(told(notRun(['a']))).toEqual([])
  })

  it('of a piece that the old code was not given', () => {
    expect(differences([piece(1)], [{ ...piece(1), kind: 'item' }, piece(2)])).toMatchObject([
      { message: 'only one of the two can be rehearsed', before: [], after: [] },
    ])
  })

  it('of an order of calls of the old code', () => {
    const now = piece(1, {}, { calls: [played('b', 1), played('a', 0)] })
    expect(told(now, piece(1, {}, { calls: [played('a', 0), played('b', 1)] }))).toEqual([
      {
        what: 'call order',
        message: 'it makes its calls in another order',
        before: ['GET a', 'GET b'],
        after: ['GET b', 'GET a'],
      },
    ])
  })

  it('of the end, where a call is missing in a whole piece only', () => {
    const cut = piece(1, { calls: [call('a')] }, { status: 'failed' }, ['a reason'])
    expect(told(cut)).toEqual([])
    expect(told(piece(1, { calls: [call('a')] }, { status: 'failed' })).map(({ what }) => what)).toEqual([
      'call missing',
      'outcome',
    ])
  })
})

describe('rows without columns', () => {
  it('keep the others, and lists without any stay as they are', () => {
    const rows = [change('update', { id: 1, a: 1 }, { id: 1, a: 2 }), change('delete', { id: 2, a: 1 }, null)]
    const other = { ...change('insert', null, { a: 1 }), table: 'public.u' }
    const pieces = [piece(1, {}, { rows: [...rows, other] })]
    expect(withoutColumns(pieces, [])).toBe(pieces)
    expect(withoutColumns(pieces, ['public.t.a'])[0]?.now?.rows).toEqual([
      change('update', { id: 1 }, { id: 1 }),
      change('delete', { id: 2 }, null),
      other,
    ])
    const notRun = { ...piece(1), now: null }
    expect(withoutColumns([notRun], ['public.t.a'])).toEqual([notRun])
  })
})

describe('rows that are there in the end', () => {
  const row = (n: number) => ({ id: n })
  it('are told of the piece that wrote last, each change once', () => {
    const twice = change('update', row(1), row(2))
    const pieces = [piece(1, {}, { rows: [change('inserted', null, row(1))] }), piece(2, {}, { rows: [twice] })]
    expect(differences(pieces, null)).toMatchObject([{ id: 2, what: 'rows', before: [], after: [twice] }])
    // One row less and one more, by one change.
    expect(found([piece(1, {}, { rows: [change('update', row(3), row(4))] })])).toEqual(['1 rows'])
  })

  it('count as often as they are there', () => {
    const added = change('inserted', null, row(1))
    expect(
      found([piece(1, {}, { rows: [added, added] }), piece(2, {}, { rows: [change('delete', row(1), null)] })]),
    ).toEqual(['2 rows'])
    expect(found([piece(1, {}, { rows: [added] }), piece(2, {}, { rows: [change('delete', row(1), null)] })])).toEqual(
      [],
    )
  })

  it('of an emptied table are told, and of a piece that was not run none', () => {
    expect(found([piece(1, {}, { rows: [change('truncate', null, null)] })])).toEqual(['1 rows'])
    expect(found([{ ...piece(1), now: null }, piece(2)])).toEqual([])
  })

  it('of two tables are two', () => {
    const one = change('inserted', null, row(1))
    expect(found([piece(1, {}, { rows: [one, { ...change('delete', row(1), null), table: 'public.u' }] })])).toEqual([
      '1 rows',
      '1 rows',
    ])
  })
})
