/** How things stand, for /metrics: asked rarely, answered in time or not at all. Rule: docs/behaviour/metrics.md, "Gauges". */

import { aroundCallStateId } from '../calls/call-target.ts'
import type { Framework } from '../framework/context.ts'
import { errorLine } from '../framework/logger.ts'
import { RepeatedWarnings } from '../framework/repeated-warnings.ts'
import type { Standing } from './metric-queries.ts'
import { standing } from './metric-queries.ts'

/** A scrape within this time gets the same answer: several Prometheus servers cost as much as one. */
const SHARED_FOR_MS = 5_000
/** Prometheus waits 10 s by default, and the counters are to reach it whatever becomes of the database. */
const ANSWER_WITHIN_MS = 4_000
/** Postgres itself gives up before. */
const STATEMENT_MS = 3_000

/**
 * @param db has a connection of its own: a busy pool must not look like a database that is away
 * @returns asks; null: the database did not answer in time
 */
export function standingReader(framework: Framework, db: Framework['db']): () => Promise<Standing | null> {
  const { config, tables, logger, clock } = framework
  const warnings = new RepeatedWarnings(logger, clock)
  const rules = {
    breakerEnabled: config.circuit_breaker.enabled,
    circuitOverrides: config.circuit_breaker.overrides_enabled,
    callKey: aroundCallStateId(framework),
    timeoutMs: STATEMENT_MS,
  } as const
  /** It may hang beyond all limits, and then no other one is begun: each would hold a connection. */
  let underWay: Promise<Standing | null> | null = null
  let answer: { readonly value: Standing | null; readonly at: number } | null = null

  async function read(): Promise<Standing | null> {
    let value: Standing | null = null
    try {
      value = await standing(db, tables, rules)
    } catch (error) {
      warnings.warn(
        'unread',
        () => ({ event: 'metrics.database_unread', error: errorLine(error, 300) }),
        'the gauges of /metrics could not be read from the database',
      )
    }
    answer = { value, at: performance.now() }
    underWay = null
    return value
  }

  return async () => {
    if (answer !== null && performance.now() - answer.at < SHARED_FOR_MS) return answer.value
    underWay ??= read()
    return inTime(underWay)
  }
}

function inTime(reading: Promise<Standing | null>): Promise<Standing | null> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(null), ANSWER_WITHIN_MS)
    void reading.then((value) => {
      clearTimeout(timer)
      resolve(value)
    })
  })
}
