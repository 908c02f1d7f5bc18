/** The models of test/model/porcupine/, by histories of a few operations: what each allows, and what it does not. */
import { beforeAll, expect, it } from 'vitest'
import type { Operation } from './porcupine.ts'
import { findPorcupine, judge } from './porcupine.ts'

type Values = Readonly<Record<string, unknown>>
/** From and to: milliseconds; null: it has no end. */
type Step = readonly [from: number, to: number | null, input: Values, output?: Values]

let program: string
beforeAll(async () => {
  program = await findPorcupine()
})

function operation(model: string, client: number, [from, to, input, output = {}]: Step): Operation {
  const times = { call: from * 1_000, return: to === null ? null : to * 1_000, callMs: from, returnMs: to ?? from }
  return { object: 'x', model, client, ...times, input, output }
}

const claim = (owner: string) => ({ kind: 'claim', owner, status: 'pending' })
const settle = (owner: string) => ({ kind: 'settle', owner, attempts: 1, status: 'processed' })
const did = { done: true }
const not = {}
const asks = (callers: number) => ({ kind: 'admit', callers, limit: 3, ms: 100 })
const joins = (callers: number) => ({ kind: 'admit joined', callers, more: 0, limit: 3, ms: 100 })
const limited = (ms: number, admitted = 0) => ({ admitted, refusal: 'limited', ms })
const reserve = (owner: string) => ({ kind: 'reserve', owner })
const letsGo = (owner: string) => ({ kind: 'let go', owner })
const ends = (owner: string, status: string) => ({ kind: 'end', owner, status })
const lock = (kind: string, owner: string) => ({ kind, owner, ms: 100 })
const begin = (owner: string, token: string, askedMs: number) => ({ kind: 'begin', owner, token, askedMs, ms: 1_000 })
const end = (owner: string, token: string, brought: string) => ({ kind: 'end', owner, token, new: brought })

it.each<[name: string, model: string, verdict: 'legal' | 'illegal', steps: readonly Step[]]>([
  [
    'one of two claims gets the row',
    'claim',
    'legal',
    [
      [0, 9, claim('a'), did],
      [1, 8, claim('b'), not],
    ],
  ],
  [
    'both get it',
    'claim',
    'illegal',
    [
      [0, 9, claim('a'), did],
      [1, 8, claim('b'), did],
    ],
  ],
  ['no one gets it', 'claim', 'illegal', [[0, 1, claim('a'), not]]],
  [
    'a claim without an end has the row',
    'claim',
    'legal',
    [
      [0, null, claim('a')],
      [1, 2, claim('b'), not],
    ],
  ],
  [
    'or it does not',
    'claim',
    'legal',
    [
      [0, null, claim('a')],
      [1, 2, claim('b'), did],
    ],
  ],
  [
    'a row is settled once',
    'claim',
    'legal',
    [
      [0, 1, claim('a'), did],
      [2, 3, settle('a'), did],
      [4, 5, settle('a'), not],
    ],
  ],
  [
    'a row is settled twice',
    'claim',
    'illegal',
    [
      [0, 1, claim('a'), did],
      [2, 3, settle('a'), did],
      [4, 5, settle('a'), did],
    ],
  ],
  [
    'the limit is reached within a window',
    'limiter',
    'legal',
    [
      [1_010, 1_012, asks(2), { admitted: 2 }],
      [1_020, 1_022, asks(2), limited(79, 1)],
    ],
  ],
  [
    'one more than the limit is let through',
    'limiter',
    'illegal',
    [
      [1_010, 1_012, asks(2), { admitted: 2 }],
      [1_020, 1_022, asks(2), { admitted: 2 }],
    ],
  ],
  [
    'the next window counts from zero',
    'limiter',
    'legal',
    [
      [1_090, 1_092, asks(3), { admitted: 3 }],
      [1_101, 1_103, asks(3), { admitted: 3 }],
    ],
  ],
  [
    'a window counts on after its end',
    'limiter',
    'illegal',
    [
      [1_090, 1_092, asks(3), { admitted: 3 }],
      [1_105, 1_107, asks(1), limited(10)],
    ],
  ],
  [
    'the wait ends with the window',
    'limiter',
    'illegal',
    [
      [1_010, 1_012, asks(3), { admitted: 3 }],
      [1_020, 1_022, asks(1), limited(60)],
    ],
  ],
  [
    'a joined statement leaves a call undecided',
    'limiter',
    'legal',
    [
      [1_010, 1_012, joins(2), not],
      [1_013, 1_014, asks(3), { admitted: 3 }],
    ],
  ],
  [
    'a joined statement passes the limit',
    'limiter',
    'illegal',
    [
      [1_010, 1_012, asks(2), { admitted: 2 }],
      [1_020, 1_022, joins(2), { done: true, admitted: 2, ms: 79 }],
    ],
  ],
  [
    'a quiet keeps calls back until it is over',
    'limiter',
    'legal',
    [
      [1_000, 1_002, { kind: 'quiet', ms: 50 }],
      [1_010, 1_012, asks(1), { refusal: 'suppressed', ms: 40 }],
      [1_060, 1_062, asks(1), { admitted: 1 }],
    ],
  ],
  [
    'a call is let through in the quiet',
    'limiter',
    'illegal',
    [
      [1_000, 1_002, { kind: 'quiet', ms: 50 }],
      [1_010, 1_012, asks(1), { admitted: 1 }],
    ],
  ],
  [
    'a key is spent once',
    'ledger',
    'legal',
    [
      [0, 5, reserve('a'), did],
      [1, 6, reserve('b'), { prior: 'unknown' }],
    ],
  ],
  [
    'a refused call gives its key back',
    'ledger',
    'legal',
    [
      [0, 1, reserve('a'), did],
      [2, 3, ends('a', 'refused')],
      [4, 5, reserve('b'), did],
    ],
  ],
  [
    'a call of unknown effect keeps it',
    'ledger',
    'illegal',
    [
      [0, 1, reserve('a'), did],
      [2, 3, ends('a', 'unknown')],
      [4, 5, reserve('b'), did],
    ],
  ],
  [
    'a process that died keeps it',
    'ledger',
    'legal',
    [
      [0, null, reserve('a')],
      [4, 5, reserve('b'), { prior: 'unknown' }],
    ],
  ],
  [
    'a provider that knows keys gets it again',
    'turns',
    'legal',
    [
      [0, 1, reserve('a'), did],
      [2, 3, ends('a', 'unknown')],
      [4, 5, reserve('b'), did],
    ],
  ],
  [
    'a caller that was cut off lets go of its turn, and of the key that it has spent',
    'turns',
    'legal',
    [
      [0, null, reserve('a')],
      [0, 9, letsGo('a'), {}],
      [2, 3, reserve('b'), { prior: 'unknown' }],
      [4, 5, { kind: 'record' }, { prior: 'none' }],
      [6, 7, reserve('c'), did],
    ],
  ],
  [
    'but of no other caller’s',
    'turns',
    'illegal',
    [
      [0, 1, reserve('a'), did],
      [0, 9, letsGo('b'), {}],
      [2, 3, reserve('c'), did],
    ],
  ],
  [
    'a repeat may be quicker than the caller that spends the key, and does not give it back',
    'turns',
    'legal',
    [
      [0, 9, reserve('a'), { prior: 'unknown' }],
      [1, 2, { kind: 'record' }, { prior: 'unknown' }],
      [3, 4, reserve('b'), did],
      [5, 10, ends('b', 'refused')],
      [11, 12, { kind: 'record' }, { prior: 'unknown' }],
    ],
  ],
  [
    'but not two calls at once',
    'turns',
    'illegal',
    [
      [0, 1, reserve('a'), did],
      [2, 3, reserve('b'), did],
      [4, 5, ends('a', 'unknown')],
    ],
  ],
  [
    'a lock passes on once its time is over',
    'lock',
    'legal',
    [
      [0, 2, lock('acquire', 'a'), did],
      [50, 52, lock('acquire', 'b'), not],
      [110, 112, lock('acquire', 'b'), did],
    ],
  ],
  [
    'a lock is taken within its time',
    'lock',
    'illegal',
    [
      [0, 2, lock('acquire', 'a'), did],
      [50, 52, lock('acquire', 'b'), did],
    ],
  ],
  [
    'a lock outlives its time',
    'lock',
    'illegal',
    [
      [0, 2, lock('acquire', 'a'), did],
      [110, 112, lock('acquire', 'b'), not],
    ],
  ],
  [
    'only its holder gives it back',
    'lock',
    'illegal',
    [
      [0, 2, lock('acquire', 'a'), did],
      [3, 4, lock('release', 'b')],
      [5, 6, lock('acquire', 'b'), did],
    ],
  ],
  [
    'one refresh follows the other',
    'tokens',
    'legal',
    [
      [1, 1, begin('a', 'first', 0)],
      [2, 3, end('a', 'first', 'second'), { token: 'second' }],
      [4, 4, begin('b', 'second', 3)],
    ],
  ],
  [
    'two refreshes run at once',
    'tokens',
    'illegal',
    [
      [1, 1, begin('a', 'first', 0)],
      [4, 4, begin('b', 'first', 3)],
    ],
  ],
  [
    'the lock of a refresh that died is over',
    'tokens',
    'legal',
    [
      [1, 1, begin('a', 'first', 0)],
      [1_004, 1_004, begin('b', 'first', 1_003)],
    ],
  ],
  [
    'a replaced token is sent',
    'tokens',
    'illegal',
    [
      [1, 1, begin('a', 'first', 0)],
      [2, 3, end('a', 'first', 'second'), { token: 'second' }],
      [4, 4, begin('b', 'first', 3)],
    ],
  ],
])('%s (%s): %s', async (_, model, verdict, steps) => {
  const [judged] = await judge(
    program,
    steps.map((step, client) => operation(model, client, step)),
  )
  expect(judged).toMatchObject({ verdict, operations: steps.length })
})

it('names the line that is no operation, and the model that it does not know', async () => {
  const known = operation('lock', 0, [0, 1, lock('acquire', 'a'), did])
  await expect(judge(program, [{ ...known, call: '1' as never }])).rejects.toThrow(
    'line 1: expected an operation as JSON',
  )
  await expect(judge(program, [{ ...known, model: 'door' }])).rejects.toThrow('no model is called "door"')
})
