/** `reduceCheckpoints()`. Rule: docs/behaviour/sync-cursor.md, "The cursor". */
import assert from 'node:assert/strict'
import type { Json } from '../../framework/json.ts'
import { isJson } from '../../framework/json.ts'
import type { HasScheduledSync } from '../../providers/contracts.ts'
import type { Chapter, Check } from './conformance-check.ts'
import { shown } from './outcome-checks.ts'

type Reduce = (checkpoints: readonly Json[]) => Json

export function reducerChapter(checkpoints: readonly Json[]): Chapter {
  return {
    contract: 'HasScheduledSync: reduceCheckpoints()',
    checks: [
      empty(),
      nulls(checkpoints),
      idempotent(checkpoints),
      ordered(checkpoints),
      associative(checkpoints),
      forward(checkpoints),
    ],
  }
}

function empty(): Check {
  return rule('of nothing gives null', (reduce) => {
    expectSame('[]', reduce([]), 'null', null)
  })
}

function nulls(checkpoints: readonly Json[]): Check {
  return rule('passes nulls over', (reduce) => {
    const whole = reduce(checkpoints)
    expectSame('[null]', reduce([null]), 'null', null)
    const among = [null, ...checkpoints.flatMap((checkpoint) => [checkpoint, null])]
    expectSame('the checkpoints with nulls among them', reduce(among), 'the result without nulls', whole)
  })
}

function idempotent(checkpoints: readonly Json[]): Check {
  return rule('gives the same for what it has seen twice', (reduce) => {
    for (const checkpoint of checkpoints) {
      const once = reduce([checkpoint])
      expectSame(`[${shown(checkpoint)}] twice`, reduce([checkpoint, checkpoint]), 'that of once', once)
      expectSame(`its own result for [${shown(checkpoint)}]`, reduce([once]), 'that result', once)
    }
    const whole = reduce(checkpoints)
    expectSame('all checkpoints twice', reduce([...checkpoints, ...checkpoints]), 'that of once', whole)
    expectSame('its own result', reduce([whole]), 'that result', whole)
  })
}

function ordered(checkpoints: readonly Json[]): Check {
  return rule('gives the same in any order', (reduce) => {
    const whole = reduce(checkpoints)
    for (const order of orders(checkpoints))
      expectSame(`the order ${shown(order)}`, reduce(order), 'that of the order given', whole)
  })
}

function associative(checkpoints: readonly Json[]): Check {
  return rule('gives the same however the checkpoints are split up', (reduce) => {
    const whole = reduce(checkpoints)
    for (let at = 1; at < checkpoints.length; at += 1) {
      const first = checkpoints.slice(0, at)
      const second = checkpoints.slice(at)
      const split = `the first ${at} and the other ${second.length}`
      expectSame(split, reduce([reduce(first), reduce(second)]), 'that of all at once', whole)
      expectSame(`${split}, one by one`, reduce([reduce(first), ...second]), 'that of all at once', whole)
    }
  })
}

/** The fixtures' checkpoints are in the order of time. */
function forward(checkpoints: readonly Json[]): Check {
  return rule('moves on with a later checkpoint', (reduce) => {
    const before = reduce(checkpoints.slice(0, -1))
    const after = reduce(checkpoints)
    assert.notDeepEqual(
      after,
      before,
      `reduceCheckpoints() must move on with a later checkpoint, or each run lists the same again; with and without ${shown(checkpoints.at(-1))} it gave ${shown(after)}. (The fixtures' checkpoints are in the order of time.)`,
    )
  })
}

function rule(text: string, check: (reduce: Reduce) => void): Check {
  return {
    name: `the reducer ${text}`,
    async run({ provider }) {
      check((checkpoints) => {
        const result = (provider as HasScheduledSync).reduceCheckpoints(checkpoints)
        assert(
          isJson(result),
          `reduceCheckpoints(${shown(checkpoints)}) must give JSON, which a cursor is stored as; it gave ${shown(result)}`,
        )
        return result
      })
    },
  }
}

function expectSame(given: string, actual: Json, of: string, expected: Json): void {
  assert.deepEqual(
    actual,
    expected,
    `reduceCheckpoints() of ${given} gave ${shown(actual)}, expected was ${of}: ${shown(expected)}. Checkpoints come in any order and grouping, and again after a lost worker.`,
  )
}

/** Every turn of the list, each forwards and backwards: all orders of three, and enough of more. */
function orders(checkpoints: readonly Json[]): Json[][] {
  return checkpoints.flatMap((_, at) => {
    const turned = [...checkpoints.slice(at), ...checkpoints.slice(0, at)]
    return [turned, [...turned].reverse()]
  })
}
