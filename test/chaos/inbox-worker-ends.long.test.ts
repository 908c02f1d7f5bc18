/**
 * Workers end under load, by `kill -9` and in order, and another one goes on: how long rows wait for it.
 *
 * `CHAOS_ENDS` (6) says how often each.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { InboxStack } from './inbox-stack.ts'
import { startInboxStack } from './inbox-stack.ts'
import type { KeptProcess } from './kept-process.ts'
import { allSettled, readLedger } from './ledger.ts'
import { sendSigned } from './signed-sender.ts'

const ENDS = Number(process.env.CHAOS_ENDS ?? 6)
const PER_SECOND = 100
/** A worker that starts loads both cores for seconds: the next end is judged when that is long over. */
const BETWEEN_SECONDS = 30
/** Rows of the second before an end and the ten after it are judged. */
const BEFORE_SECONDS = 1
const AFTER_SECONDS = 10
const UNHELD_WITHIN_SECONDS = 6
const HELD_WITHIN_SECONDS = 25
const P99_WITHIN_SECONDS = 0.15
const MINUTE_MS = 60_000

let stack: InboxStack

beforeAll(async () => {
  stack = await startInboxStack({ integrations: 30, workers: 2 })
})

afterAll(() => stack?.stop())

interface Waited {
  readonly rows: number
  readonly p50: number
  readonly p99: number
  readonly slowest: number
  /** Rows that the ended worker had claimed, and the slowest of them. */
  readonly held: number
  readonly slowestHeld: number
}

it(
  `${ENDS} workers killed under ${PER_SECOND} webhooks a second: rows that none of them held wait at most ${UNHELD_WITHIN_SECONDS} s, held ones ${HELD_WITHIN_SECONDS} s`,
  async () => {
    for (const waited of await endUnderLoad('killed', 1, (worker) => worker.kill())) {
      expect(waited.slowest).toBeLessThanOrEqual(UNHELD_WITHIN_SECONDS)
      expect(waited.slowestHeld).toBeLessThanOrEqual(HELD_WITHIN_SECONDS)
    }
  },
  15 * MINUTE_MS,
)

it(
  `${ENDS} workers stopped in order under ${PER_SECOND} webhooks a second: p99 from row to settlement at most ${P99_WITHIN_SECONDS * 1_000} ms, none is claimed twice`,
  async () => {
    for (const waited of await endUnderLoad('stopped', 0, replaceLater)) {
      expect(waited.p99).toBeLessThanOrEqual(P99_WITHIN_SECONDS)
      expect(waited.held).toBe(0)
    }
  },
  15 * MINUTE_MS,
)

/** As a deployment does on machines of their own: the start of the next worker is no part of the end of this one. */
async function replaceLater(worker: KeptProcess): Promise<void> {
  const comeBack = await worker.terminateAndKeepAway()
  await sleep(AFTER_SECONDS * 1_000)
  await comeBack()
}

/** @param slowShare how many of ten handlers work for half a second; the others for 10 ms */
async function endUnderLoad(
  how: string,
  slowShare: number,
  end: (worker: KeptProcess) => Promise<void>,
): Promise<Waited[]> {
  let isOver = false
  let sent = 0
  const sending = sendSigned({
    urls: stack.webhookUrls,
    answered: stack.answered,
    ratePerSecond: PER_SECOND,
    isEnough: () => isOver,
    workMs: () => (sent++ % 10 < slowShare ? 500 : 10),
  })
  const endedAt: Date[] = []
  const workers = [...stack.workers.values()]
  for (let n = 0; n < ENDS; n += 1) {
    await sleep(BETWEEN_SECONDS * 1_000)
    endedAt.push(new Date())
    await end(workers[n % workers.length] as KeptProcess)
  }
  await sleep(BETWEEN_SECONDS * 1_000)
  isOver = true
  const { deliveries, answers } = await sending
  await allSettled(stack, 30)
  expect(answers).toEqual({ 200: deliveries })
  expect((await readLedger(stack)).faults).toEqual([])
  const waits = await Promise.all(endedAt.map((at) => waitedAround(at)))
  for (const { rows, p50, p99, slowest, held, slowestHeld } of waits)
    console.log(
      `${how}: ${rows} rows, ms p50 ${ms(p50)}, p99 ${ms(p99)}, slowest ${ms(slowest)}; ${held} held, slowest ${ms(slowestHeld)}`,
    )
  return waits
}

/** From the row's insert to its settlement, by the database's clock. */
async function waitedAround(at: Date): Promise<Waited> {
  const [waited] = await stack.sql<[Waited]>`
    with timed as (
      select extract(epoch from processed_at - created_at)::float8 as seconds, attempts > 1 as held
      from integration_webhooks
      where created_at between ${at}::timestamptz - interval '1 second' * ${BEFORE_SECONDS}
        and ${at}::timestamptz + interval '1 second' * ${AFTER_SECONDS}
    )
    select count(*)::int as rows, percentile_cont(0.5) within group (order by seconds) as p50,
      percentile_cont(0.99) within group (order by seconds) as p99,
      max(seconds) filter (where not held) as slowest,
      count(*) filter (where held)::int as held, coalesce(max(seconds) filter (where held), 0) as "slowestHeld"
    from timed`
  return waited
}

function ms(seconds: number): number {
  return Math.round(seconds * 1_000)
}
