/** What differs between two handlings: the rules, on pieces made by hand. */
import { describe, expect, it } from 'vitest'
import { startupOf } from '../../src/db/startup-message-rules.ts'
import { differences, withoutColumns } from '../../src/rehearsal/difference-rules.ts'
import { withoutMoments } from '../../src/rehearsal/moment-rules.ts'
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
const played = (endpoint: string, recorded: number | null): PlayedCall => {
  const { beganAtMs: _, settledAtMs: __, ...asked } = call(endpoint)
  return { ...asked, recorded, sent: [] }
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
