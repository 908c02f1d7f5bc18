/**
 * Temporal is killed and stays away, and webhooks go on coming: the pump that has promised to look needs nobody.
 *
 * `CHAOS_AWAY_SECONDS` (600) says for how long. A pump's session is ten minutes, so its end falls into the absence.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { InboxStack } from './inbox-stack.ts'
import { startInboxStack } from './inbox-stack.ts'
import { allSettled, readLedger } from './ledger.ts'
import { sendSigned } from './signed-sender.ts'

const AWAY_SECONDS = Number(process.env.CHAOS_AWAY_SECONDS ?? 600)
const PER_SECOND = 100
const BEFORE_SECONDS = 30
/** Its pump is taken for dead and gets a successor, the server's queues are read again. */
const AFTER_SECONDS = 60
const WINDOW_SECONDS = 10
const P95_BELOW_SECONDS = 1
const MINUTE_MS = 60_000

let stack: InboxStack

beforeAll(async () => {
  stack = await startInboxStack({ integrations: 100, workers: 1 })
})

afterAll(() => stack?.stop())

it(
  `Temporal away for ${AWAY_SECONDS} s under ${PER_SECOND} webhooks a second of 100 integrations: p95 stays below ${P95_BELOW_SECONDS} s, and none is handled twice`,
  async () => {
    let isOver = false
    const startedAt = Date.now()
    const sending = sendSigned({
      urls: stack.webhookUrls,
      answered: stack.answered,
      ratePerSecond: PER_SECOND,
      isEnough: () => isOver,
      workMs: () => 10,
    })
    await sleep(BEFORE_SECONDS * 1_000)
    const comeBack = await stack.temporal.killAndKeepAway()
    const awayMs = Date.now()
    await sleep(AWAY_SECONDS * 1_000)
    await comeBack()
    const backMs = Date.now()
    await sleep(AFTER_SECONDS * 1_000)
    isOver = true
    const sent = await sending
    await allSettled(stack, 30)
    expect(sent.answers).toEqual({ 200: sent.deliveries })

    const ledger = await readLedger(stack)
    expect(ledger.faults).toEqual([])
    expect(ledger.rows).toBe(sent.deliveries)
    expect(ledger.extraRuns).toBe(0)

    const windows = await windowsOf(stack, startedAt)
    const phase = (at: number): string => (at < awayMs ? 'before' : at < backMs ? 'away' : 'after')
    for (const { fromMs, rows, p50, p95, slowest } of windows)
      console.log(
        `${phase(fromMs)} ${Math.round((fromMs - startedAt) / 1_000)} s: ${rows} rows, ms p50 ${ms(p50)}, p95 ${ms(p95)}, slowest ${ms(slowest)}`,
      )
    // Before, a worker that has just started gets to know its integrations.
    const judged = windows.filter(({ fromMs }) => fromMs + WINDOW_SECONDS * 1_000 > awayMs)
    expect(judged.filter(({ p95 }) => p95 >= P95_BELOW_SECONDS)).toEqual([])
  },
  AWAY_SECONDS * 1_000 + 10 * MINUTE_MS,
)

interface Window {
  readonly fromMs: number
  readonly rows: number
  readonly p50: number
  readonly p95: number
  readonly slowest: number
}

/** From the row's insert, which comes before the answer, to its settlement. */
function windowsOf({ sql }: InboxStack, startedMs: number): Promise<Window[]> {
  return sql<Window[]>`
    with timed as (
      select floor((extract(epoch from created_at) - ${startedMs / 1_000}::float8) / ${WINDOW_SECONDS}) as number,
        extract(epoch from processed_at - created_at)::float8 as seconds
      from integration_webhooks
    )
    select ${startedMs}::float8 + number * ${WINDOW_SECONDS * 1_000}::float8 as "fromMs", count(*)::int as rows,
      percentile_cont(0.5) within group (order by seconds) as p50,
      percentile_cont(0.95) within group (order by seconds) as p95, max(seconds) as slowest
    from timed group by number order by number`
}

function ms(seconds: number): number {
  return Math.round(seconds * 1_000)
}
