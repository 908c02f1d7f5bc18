/** Rows that kill each worker that handles them, among many that do not: what they take with them, and how they end. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { InboxStack } from './inbox-stack.ts'
import { startInboxStack } from './inbox-stack.ts'
import { allSettled, readLedger } from './ledger.ts'
import { sendSigned } from './signed-sender.ts'

const PER_SECOND = 20
const FOR_SECONDS = 60
/** Counted among all that are sent. */
const POISON = [100, 101, 600]
const WORK_MS = 50
/** As in inbox-host.ts, which is another process's module. A run that kills has no end: it works for so long. */
const KILLS = -1
const KILLS_AFTER_MS = 1_000
/** Rule: docs/behaviour/webhook-recovery.md, "One webhook". Each is noticed within 25 s. */
const MOST_LOSSES = 5
/** A row that has lost so many workers is under suspicion: docs/behaviour/webhooks.md, "Claims". */
const SUSPECT_LOSSES = 3
const SETTLED_WITHIN_SECONDS = 300
const MINUTE_MS = 60_000

let stack: InboxStack

beforeAll(async () => {
  stack = await startInboxStack({ integrations: 30, workers: 2 })
})

afterAll(() => stack?.stop())

it(
  `${POISON.length} rows kill each worker that handles them: they end failed after ${MOST_LOSSES} losses, one at a time in a worker, and no other row ends so`,
  async () => {
    let sent = 0
    const startedAt = performance.now()
    const { deliveries, answers } = await sendSigned({
      urls: stack.webhookUrls,
      answered: stack.answered,
      ratePerSecond: PER_SECOND,
      isEnough: () => performance.now() - startedAt > FOR_SECONDS * 1_000,
      workMs: () => (POISON.includes(sent++) ? KILLS : WORK_MS),
    })
    expect(answers).toEqual({ 200: deliveries })
    await allSettled(stack, SETTLED_WITHIN_SECONDS)

    const rows = await stack.sql<
      { status: string; kills: boolean; lost: number; rows: number; error: string | null }[]
    >`
      select status, (payload::jsonb ->> 'work_ms')::int = ${KILLS} as kills, error, count(*)::int as rows
      from integration_webhooks group by 1, 2, 3 order by 2`
    console.log(JSON.stringify(rows))
    expect(rows).toMatchObject([
      { status: 'processed', kills: false, error: null, rows: deliveries - POISON.length },
      { status: 'failed', kills: true, error: 'worker lost', rows: POISON.length },
    ])
    // The innocent ones were settled once each; the ledger calls a row that is not processed a fault.
    expect((await readLedger(stack)).faults).toHaveLength(POISON.length)

    const beside = await stack.sql`
      with suspected as (
        select r.*, coalesce(r.ended_at, r.begun_at + interval '1 millisecond' * ${KILLS_AFTER_MS}) as until
        from handler_runs r join integration_webhooks w using (delivery_id)
        where r.attempt > ${SUSPECT_LOSSES}
      )
      select a.delivery_id, b.delivery_id as other, a.member from suspected a join suspected b
        on a.member = b.member and a.id < b.id and a.begun_at < b.until and b.begun_at < a.until`
    expect(beside).toEqual([])
    const [ended] = await stack.sql<[{ workers: number }]>`
      select count(*)::int as workers from handler_runs where ended_at is null`
    console.log(`${deliveries} deliveries, ${ended.workers} runs ended with their worker`)
  },
  10 * MINUTE_MS,
)
