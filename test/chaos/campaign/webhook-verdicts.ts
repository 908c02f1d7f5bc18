/** The promises about webhooks: what was answered 2xx, the parts of a delivery, the order of a key, and how often handlers run. */
import type { Accounted } from '../inbox-runs.ts'
import { accountForRuns } from '../inbox-runs.ts'
import { readLedger } from '../ledger.ts'
import type { Evidence, Verdict } from './verdict.ts'
import { count, sum } from './verdict.ts'
import { lookOnce } from './watch.ts'

export async function webhooks({ stack, sent, story }: Evidence): Promise<Verdict[]> {
  const { rows, claimedAgain, faults } = await readLedger({ sql: stack.sql, answered: sent.answered }, stack.atticId)
  const { faults: unexplained, ...runs }: Accounted = await accountForRuns(stack, story)
  const unstored = faults.filter((fault) => /^(LOST|a second row|a row that was never)/.test(fault))
  return [
    {
      promise: 'every webhook answered 2xx is stored once',
      counts: `${count(sent.answered.size)} answered, ${count(rows)} rows`,
      broken: [...unstored, ...sent.refusals.map((refusal) => `refused: ${refusal}`)],
    },
    {
      promise: 'every stored webhook is settled once',
      counts: `${count(rows)} rows, ${count(claimedAgain)} claimed again`,
      broken: faults.filter((fault) => !unstored.includes(fault)),
    },
    {
      promise: 'a handler runs again only after its worker died or was silent',
      counts: `${count(runs.runs)} runs, ${runs.afterDeath} after a death, ${runs.afterSilence} after a silence`,
      broken: unexplained,
    },
  ]
}

export async function whole({ stack, sent, watched }: Evidence): Promise<Verdict> {
  await lookOnce(stack, watched)
  const stored = await stack.sql<{ delivery_id: string; parts: number }[]>`
    select delivery_id, parts from integration_deliveries`
  const parts = new Map(stored.map((row) => [row.delivery_id, row.parts]))
  const wrong = [...sent.many].filter(([id, events]) => parts.get(id) !== events)
  return {
    promise: 'a delivery of many is stored as a whole',
    counts: `${count(sent.many.size)} deliveries, ${count(sum([...sent.many.values()]))} events, ${watched.looks} looks`,
    broken: [...watched.torn, ...wrong.map(([id, events]) => `${id}: ${events} events sent, ${parts.get(id)} stored`)],
  }
}

/** By the attempts that count: each begins when the one before it has ended. */
export async function inOrder({ stack, sent }: Evidence): Promise<Verdict> {
  const attempts = await stack.sql<{ delivery_id: string; id: number; begun: number; ended: number | null }[]>`
    select w.delivery_id, w.id::int, extract(epoch from r.begun_at)::float8 as begun, extract(epoch from r.ended_at)::float8 as ended
    from integration_webhooks w join handler_runs r on r.delivery_id = w.delivery_id and r.attempt = w.attempts
    where w.ordering_key is not null`
  const byId = new Map(attempts.map((attempt) => [attempt.delivery_id, attempt]))
  const broken: string[] = []
  for (const [key, ids] of sent.ordered)
    for (const [at, id] of ids.entries()) {
      const now = byId.get(id)
      const before = at === 0 ? undefined : byId.get(ids[at - 1] as string)
      if (now === undefined) broken.push(`${key}: number ${at + 1} has no run`)
      else if (before !== undefined && !(before.id < now.id && (before.ended ?? Infinity) <= now.begun))
        broken.push(`${key}: number ${at + 1} began before number ${at} had ended: ${JSON.stringify({ before, now })}`)
    }
  const webhooks = sum([...sent.ordered.values()].map((ids) => ids.length))
  return {
    promise: 'webhooks of a key are handled in the order of their arrival',
    counts: `${sent.ordered.size} keys, ${count(webhooks)} webhooks`,
    broken,
  }
}
