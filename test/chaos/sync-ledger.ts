/** What became of a run's items, by three accounts: their rows, the operation log, and the tables of the host. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { ChaosStack } from './chaos-stack.ts'
import { diagnosis, SYNC_ITEMS } from './diagnosis.ts'
import type { Kind, Plan } from './sync-plan.ts'
import { kindOf } from './sync-plan.ts'

const POLL_MS = 100

/** As the host's module has it: `sync.item_tries`. */
const TRIES = 3

export interface SyncLedger {
  /** Items that a listener began again though their attempt did not count: their worker was lost. */
  readonly takenUpAgain: number
  /** Runs of the listener beyond the attempts that count. */
  readonly extraRuns: number
  /** What is not as promised, a line each. Empty: all is well. */
  readonly faults: readonly string[]
}

/** Waits until the only run is finalised and its end told. @throws with what holds it up */
export async function runEnded(stack: ChaosStack, withinSeconds: number): Promise<void> {
  const giveUpAt = performance.now() + withinSeconds * 1_000
  for (;;) {
    const ended = await stack.sql`
      select from integration_logs
      where operation = 'sync' and status <> 'processing' and metadata ? 'announced_at'`
    if (ended.length > 0) return
    if (performance.now() > giveUpAt)
      throw new Error(`The run did not end within ${withinSeconds} s.\n${await diagnosis(stack, SYNC_ITEMS)}`)
    await sleep(POLL_MS)
  }
}

interface Account {
  n: number
  rows: number
  status: string
  attempts: number
  claim: string | null
  error: string | null
  failures_logged: number
  runs: number
  effects: number
  told: number
}

/** What is promised of an item once its run is over. */
function isAsPromised(kind: Kind, account: Account): boolean {
  const { rows, status, attempts, claim, error, failures_logged, runs, effects, told } = account
  // Nobody may have run it less often than it counts; more often: its worker was lost.
  if (rows !== 1 || claim !== null || runs < attempts) return false
  // Whether its failure was told is left open: the worker may have died between noting it and telling.
  if (kind === 'poison') return status === 'failed' && attempts === TRIES && failures_logged === TRIES && effects === 0
  const isDone = status === 'success' && error === null && effects === 1 && told === 0
  if (kind === 'good') return isDone && attempts === 1 && failures_logged === 0
  // Its failure does not count if the worker was lost with it, and then it is not logged.
  return isDone && runs >= 2 && attempts <= 2 && failures_logged === attempts - 1
}

export async function readSyncLedger({ sql }: Pick<ChaosStack, 'sql'>, plan: Plan): Promise<SyncLedger> {
  const accounts = await sql<Account[]>`
    with logged as (
      select external_id, count(*)::int as lines from integration_logs where operation = 'sync_item' group by 1
    ), ran as (select n, count(*)::int as runs from entry_runs group by 1)
    , told as (select n, count(*)::int as events from told_failures group by 1)
    select i.external_id::int as n, count(*) over (partition by i.external_id)::int as rows, i.status, i.attempts,
      i.claim, i.error, coalesce(l.lines, 0) as failures_logged, coalesce(r.runs, 0) as runs,
      (select count(*)::int from effects e where e.n = i.external_id::int) as effects, coalesce(t.events, 0) as told
    from integration_sync_items i
    left join logged l on l.external_id = i.external_id
    left join ran r on r.n = i.external_id::int
    left join told t on t.n = i.external_id::int
    order by 1`
  const faults: string[] = []
  const seen = new Set<number>()
  let takenUpAgain = 0
  let extraRuns = 0
  for (const account of accounts) {
    seen.add(account.n)
    if (!isAsPromised(kindOf(plan, account.n), account)) faults.push(`not as promised: ${JSON.stringify(account)}`)
    extraRuns += Math.max(0, account.runs - account.attempts)
    if (account.runs > account.attempts) takenUpAgain += 1
  }
  for (let n = 1; n <= plan.items; n += 1) if (!seen.has(n)) faults.push(`LOST: entry ${n} has no row`)
  return { takenUpAgain, extraRuns, faults }
}
