/** What became of the deliveries that were answered 2xx, by three accounts: the rows, the operation log, the host's own table. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { ChaosStack } from './chaos-stack.ts'
import { diagnosis, WEBHOOKS } from './diagnosis.ts'
import type { WebhookStack } from './webhook-stack.ts'

const POLL_MS = 100

export interface Ledger {
  readonly rows: number
  /** Rows that were claimed more than once. */
  readonly claimedAgain: number
  /** Runs of the handler beyond one for each row. */
  readonly extraRuns: number
  /** From the row's insert to its settlement, by the database's clock. */
  readonly slowestSeconds: number
  /** What is not as promised, a line for each delivery. Empty: all is well. */
  readonly faults: readonly string[]
}

/**
 * Waits until no delivery waits or is in hand.
 *
 * @param except an integration whose deliveries are to wait
 * @throws with the rows that are left, who holds them and what Temporal knows of their inbox
 */
export async function allSettled(stack: ChaosStack, withinSeconds: number, except = 0): Promise<void> {
  const giveUpAt = performance.now() + withinSeconds * 1_000
  for (;;) {
    const [left] = await stack.sql<{ count: number }[]>`
      select count(*)::int as count from integration_webhooks where status in ('pending', 'processing') and integration_id <> ${except}`
    if (left?.count === 0) return
    if (performance.now() > giveUpAt)
      throw new Error(
        `${left?.count} deliveries were not settled within ${withinSeconds} s.\n${await diagnosis(stack, WEBHOOKS)}`,
      )
    await sleep(POLL_MS)
  }
}

interface Account {
  delivery_id: string
  id: string
  status: string
  attempts: number
  claim: string | null
  error: string | null
  seconds: number
  successes: number
  failures: number
  runs: number
  attempts_run: number | null
  last_run: number | null
}

/** @param except an integration whose rows nobody has sent */
export async function readLedger(
  { sql, answered }: Pick<WebhookStack, 'sql' | 'answered'>,
  except = 0,
): Promise<Ledger> {
  const accounts = await sql<Account[]>`
    with logged as (
      select external_id, count(*) filter (where status = 'success')::int as successes,
        count(*) filter (where status <> 'success')::int as failures
      from integration_logs where operation like 'webhook%' group by external_id
    ), ran as (
      select delivery_id, count(*)::int as runs, count(distinct attempt)::int as attempts, max(attempt) as last
      from handler_runs group by delivery_id
    )
    select w.delivery_id, w.id, w.status, w.attempts, w.claim, w.error,
      extract(epoch from w.processed_at - w.created_at)::float8 as seconds,
      coalesce(l.successes, 0) as successes, coalesce(l.failures, 0) as failures,
      coalesce(r.runs, 0) as runs, r.attempts as attempts_run, r.last as last_run
    from integration_webhooks w
    left join logged l on l.external_id = w.delivery_id
    left join ran r on r.delivery_id = w.delivery_id
    where w.integration_id <> ${except}
    order by w.id`
  const faults: string[] = []
  const seen = new Set<string>()
  for (const account of accounts) {
    if (seen.has(account.delivery_id)) faults.push(`a second row: ${JSON.stringify(account)}`)
    seen.add(account.delivery_id)
    if (!answered.has(account.delivery_id)) faults.push(`a row that was never answered 2xx: ${JSON.stringify(account)}`)
    if (!isSettledOnce(account)) faults.push(`not settled exactly once: ${JSON.stringify(account)}`)
  }
  for (const id of answered) if (!seen.has(id)) faults.push(`LOST: ${id} was answered 2xx and has no row`)
  const orphans = await sql<{ external_id: string }[]>`
    select external_id from integration_logs l where operation like 'webhook%'
      and not exists (select from integration_webhooks w where w.delivery_id = l.external_id)`
  for (const { external_id } of orphans) faults.push(`a log line without a row: ${external_id}`)
  return {
    rows: accounts.length,
    claimedAgain: accounts.filter((account) => account.attempts > 1).length,
    extraRuns: accounts.reduce((sum, { runs }) => sum + Math.max(0, runs - 1), 0),
    slowestSeconds: Math.max(...accounts.map((account) => account.seconds)),
    faults,
  }
}

/**
 * A handler may run again when its worker died with it, once for each time that the row was claimed; the last run is the one that
 * counts, and its success is logged once.
 */
function isSettledOnce(account: Account): boolean {
  const { status, claim, attempts, successes, failures, runs, attempts_run, last_run } = account
  const isProcessed = status === 'processed' && claim === null
  return isProcessed && successes === 1 && failures === 0 && runs === attempts_run && last_run === attempts
}
