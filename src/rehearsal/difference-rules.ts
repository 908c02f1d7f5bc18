/** What differs between two handlings of the same pieces. Rule: docs/behaviour/rehearsal.md, "What is compared". */
import type { Json } from '../framework/json.ts'
import { canonicalJson, jsonEquals } from '../framework/json.ts'
import { isMoment, NOW } from './moment-rules.ts'
import { netChanges } from './net-change-rules.ts'
import type {
  AskedCall,
  Difference,
  Handled,
  Piece,
  Played,
  PlayedCall,
  RecordedCall,
  RowChange,
} from './rehearsal-jobs.ts'
import { isForToken } from './stored-answer-rules.ts'

type Found = Pick<Difference, 'what' | 'message' | 'before' | 'after'>

/** @param baseline what the old code does with the same copy; null: what the log says that happened, and what the copy holds */
export function differences(pieces: readonly Piece[], baseline: readonly Piece[] | null): Difference[] {
  const old = new Map(baseline?.map((piece) => [keyOf(piece), piece]))
  const changed = baseline === null ? netChanges(pieces) : new Map<Piece, readonly RowChange[]>()
  return pieces.flatMap((piece) => {
    const { kind, id, integrationId } = piece
    const found =
      baseline === null
        ? [...againstLog(piece), ...rowDifferences([], changed.get(piece) ?? [])]
        : againstBaseline(piece, old.get(keyOf(piece)) ?? null)
    return found.map((difference) => ({ kind, id, integrationId, ...difference }))
  })
}

/** The pieces without the values of these columns, each `table.column`. */
export function withoutColumns(pieces: readonly Piece[], ignored: readonly string[]): readonly Piece[] {
  if (ignored.length === 0) return pieces
  const without = new Set(ignored)
  const image = (table: string, row: Json): Json =>
    row === null
      ? row
      : Object.fromEntries(Object.entries(row).filter(([column]) => !without.has(`${table}.${column}`)))
  const change = ({ table, operation, before, after }: RowChange): RowChange => {
    return { table, operation, before: image(table, before), after: image(table, after) }
  }
  return pieces.map((piece) =>
    piece.now === null ? piece : { ...piece, now: { ...piece.now, rows: piece.now.rows.map(change) } },
  )
}

const keyOf = ({ kind, id }: Piece): string => `${kind}:${id}`

/** Whether it was run to its end, so that what is missing is missing. */
const isWhole = ({ now, cannot }: Piece): boolean =>
  now !== null && cannot.length === 0 && now.calls.every(({ recorded }) => recorded !== null)

function againstLog(piece: Piece): Found[] {
  const { happened, now } = piece
  if (now === null) return []
  const used = new Set(now.calls.map(({ recorded }) => recorded))
  // A refusal of ours is a reason of its own, and no call.
  const unknown = now.calls.filter(({ recorded }) => recorded === null).map(({ span: _, ...call }) => call)
  const added = piece.cannot.length > 0 ? [] : unknown
  const missing = happened.calls.filter((call, index) => !used.has(index) && !isForToken(call))
  const whole = isWhole(piece)
  const outcome = whole && !isSameEnd(happened, now) ? [ended(happened, now)] : []
  return [
    ...callDifferences(missing, added, { isCut: !whole }),
    ...relations(happened.calls, now.calls),
    ...order(happened.calls, now.calls),
    ...outcome,
  ]
}

function againstBaseline(piece: Piece, baseline: Piece | null): Found[] {
  const [before, now] = [baseline?.now ?? null, piece.now]
  if (before === null || now === null) return before === now ? [] : [runnable(baseline, piece)]
  const missing = without(before.calls.map(asSent), now.calls.map(asSent))
  const added = without(now.calls.map(asSent), before.calls.map(asSent))
  const isReordered =
    missing.length + added.length === 0 &&
    !jsonEquals(before.calls.map(asSent) as never, now.calls.map(asSent) as never)
  const reasons = baseline?.cannot ?? []
  return [
    ...callDifferences(missing, added, { isCut: false }),
    ...(isReordered ? [reordered(before.calls, now.calls)] : []),
    ...(isSameEnd(before, now) ? [] : [ended(before, now)]),
    ...rowDifferences(without(asked(before), asked(now)), without(asked(now), asked(before))),
    ...lists('workflows', 'it starts other workflows', before.started, now.started),
    ...lists('network', 'it reaches the network by itself otherwise', before.refused, now.refused),
    ...(jsonEquals(reasons, piece.cannot) || jsonEquals(before.refused, now.refused) === false
      ? []
      : [
          {
            what: 'outcome' as const,
            message: 'other calls of it cannot be rehearsed',
            before: reasons,
            after: piece.cannot,
          },
        ]),
  ]
}

function runnable(baseline: Piece | null, piece: Piece): Found {
  const [before, after] = [baseline?.cannot ?? [], piece.cannot]
  return { what: 'outcome', message: 'only one of the two can be rehearsed', before, after }
}

/** What the log says of a moment is another moment. */
function isSameEnd(before: Handled, now: Handled): boolean {
  return before.status === now.status && before.error === now.error && isAlike(before.result, now.result)
}

function isAlike(before: Json, now: Json): boolean {
  if (now === NOW) return before === NOW || isMoment(before)
  if (typeof before !== 'object' || before === null || typeof now !== 'object' || now === null)
    return jsonEquals(before, now)
  const [a, b] = [Object.entries(before), Object.entries(now)]
  return (
    Array.isArray(before) === Array.isArray(now) &&
    a.length === b.length &&
    a.every(
      ([key, value]) => Object.hasOwn(now, key) && isAlike(value as Json, (now as Record<string, Json>)[key] as Json),
    )
  )
}

function ended(before: Handled, now: Handled): Found {
  const message =
    before.status !== now.status
      ? `it ${ENDS[now.status]}, and ${ENDS_THEN[before.status]} before`
      : before.error !== now.error
        ? 'it fails with another error'
        : 'its handler gives another result'
  const told = ({ status, error, result }: typeof before): Json => ({ status, error, result })
  return { what: 'outcome', message, before: told(before), after: told(now) }
}

const ENDS = { succeeded: 'succeeds', failed: 'fails', 'put off': 'is put off' } as const
const ENDS_THEN = { succeeded: 'succeeded', failed: 'failed', 'put off': 'was put off' } as const

type Sent = Omit<PlayedCall, 'recorded' | 'span'> | AskedCall

/** A call that is missing and one that is new, of the same method and endpoint, are one call that has changed. */
function callDifferences(missing: readonly Sent[], added: readonly Sent[], { isCut }: { isCut: boolean }): Found[] {
  const left = [...missing]
  const found: Found[] = []
  for (const call of added) {
    const at = left.findIndex(({ method, endpoint }) => method === call.method && endpoint === call.endpoint)
    const [before] = at < 0 ? [] : left.splice(at, 1)
    found.push(
      before === undefined
        ? { what: 'call added', message: `it calls ${nameOf(call)}`, before: null, after: json(call) }
        : {
            what: 'call changed',
            message: `it calls ${nameOf(call)} otherwise`,
            before: json(before),
            after: json(call),
          },
    )
  }
  // It has ended before it could have made them.
  if (isCut) return found
  return [
    ...found,
    ...left.map(
      (call): Found => ({
        what: 'call missing',
        message: `it no longer calls ${nameOf(call)}`,
        before: json(call),
        after: null,
      }),
    ),
  ]
}

/** The record that a call is about is no part of what the log is asked by. */
function relations(then: readonly RecordedCall[], now: readonly PlayedCall[]): Found[] {
  return now.flatMap((call) => {
    const before = call.recorded === null ? undefined : then[call.recorded]
    return before === undefined || before.relatedTo === call.relatedTo
      ? []
      : [
          {
            what: 'call changed',
            message: `it relates ${nameOf(call)} to another record`,
            before: before.relatedTo,
            after: call.relatedTo,
          },
        ]
  })
}

/**
 * Only where one had ended before the other began, then and now: calls beside each other have no order. The log does not say how long
 * a call had waited for its limit or its cache before it began, so what is beside now may look apart there.
 */
function order(then: readonly RecordedCall[], now: readonly PlayedCall[]): Found[] {
  const made = now.flatMap((call) => {
    const recorded = call.recorded === null ? undefined : then[call.recorded]
    return recorded === undefined ? [] : [{ call, recorded }]
  })
  for (const { call, recorded } of made) {
    const earlier = made.find(
      (later) => call.span.ended < later.call.span.began && later.recorded.settledAtMs < recorded.beganAtMs,
    )
    if (earlier !== undefined)
      return [
        {
          what: 'call order',
          message: `it calls ${nameOf(call)} before ${nameOf(earlier.call)}`,
          before: null,
          after: null,
        },
      ]
  }
  return []
}

function reordered(before: readonly PlayedCall[], now: readonly PlayedCall[]): Found {
  return {
    what: 'call order',
    message: 'it makes its calls in another order',
    before: before.map(nameOf),
    after: now.map(nameOf),
  }
}

function lists(what: Found['what'], message: string, before: readonly string[], after: readonly string[]): Found[] {
  return jsonEquals(before, after) ? [] : [{ what, message, before, after }]
}

const nameOf = ({ method, endpoint }: AskedCall): string => `${method} ${endpoint}`

const asSent = ({ recorded: _recorded, span: _span, ...call }: PlayedCall) => call

/** Writes that were tried, also in vain. */
const asked = ({ rows }: Played): RowChange[] => rows.filter(({ operation }) => operation !== 'inserted')

/** By table, so that a long list stays readable. */
function rowDifferences(before: readonly RowChange[], after: readonly RowChange[]): Found[] {
  const tables = [...new Set([...before, ...after].map(({ table }) => table))]
  return tables.map((table) => {
    const of = (rows: readonly RowChange[]): RowChange[] => rows.filter((row) => row.table === table)
    return {
      what: 'rows',
      message: `it writes ${table} otherwise`,
      before: of(before).map(json),
      after: of(after).map(json),
    }
  })
}

/** The first list without what the second has, each as often. */
function without<T>(list: readonly T[], others: readonly T[]): T[] {
  const left = new Map<string, number>()
  for (const other of others) left.set(textOf(other), (left.get(textOf(other)) ?? 0) + 1)
  return list.filter((one) => {
    const count = left.get(textOf(one)) ?? 0
    left.set(textOf(one), count - 1)
    return count <= 0
  })
}

const textOf = (value: unknown): string => canonicalJson(json(value))
const json = (value: unknown): Json => value as Json
