/** Claims of a few webhooks, settled, handed back, taken up from one another, and settled late. Rule: docs/behaviour/webhooks.md, "Claims". */
import { sql } from 'drizzle-orm'
import { handBack, settle, takeUp } from '../../src/claims/claimed-rows.ts'
import type { WebhookRow } from '../../src/db/schema/tables.ts'
import type { WebhookOutcome } from '../../src/webhooks/queries.ts'
import {
  claimedWebhooks,
  claimNextWebhooks,
  claimWebhook,
  WEBHOOK_LOSS,
  webhookOutcome,
} from '../../src/webhooks/queries.ts'
import type { Subject } from './history.ts'
import type { Lane } from './lane.ts'
import { pick, rest } from './lane.ts'

const MOST_AT_ONCE = 3

/** A claim whose process died may have taken any row: the test makes it an operation on each. */
export const ANY_ROW: Subject = { object: 'claim:any', model: 'claim' }
export const rowSubject = (id: number): Subject => ({ object: `claim:${id}`, model: 'claim' })

/** A row as this lane knows it. */
type Held = Pick<WebhookRow, 'id' | 'integrationId' | 'attempts' | 'claim'>

export async function claimOn(lane: Lane): Promise<void> {
  while (!lane.isOver()) {
    const held = await claimSome(lane)
    await rest(lane, 4)
    for (const row of held) await handle(lane, row)
    await look(lane)
  }
}

async function handle(lane: Lane, row: Held): Promise<void> {
  const what = lane.random()
  if (what < 0.2) await give(lane, row)
  // Else it is left behind, for another lane to take up.
  else if (what < 0.85) await end(lane, [row])
  // Late, or again.
  if (lane.random() < 0.3) await (lane.random() < 0.7 ? end(lane, [row]) : give(lane, row))
}

async function claimSome(lane: Lane): Promise<Held[]> {
  if (lane.random() < 0.5) return claimNext(lane)
  const { framework, history, round, client } = lane
  const id = pick(lane, round.webhooks)
  const claim = lane.name()
  const isReplay = lane.random() < 0.6
  const row = await history.record(
    rowSubject(id),
    client,
    { kind: 'claim', owner: claim, status: isReplay ? 'settled' : 'pending' },
    () => {
      const from = isReplay ? ({ replay: true } as const) : ({ status: 'pending' } as const)
      return claimWebhook(framework.db, framework.tables, { id, claim, from })
    },
    (taken) => ({ done: taken !== null, attempts: taken?.attempts }),
  )
  return row === null ? [] : [row]
}

async function claimNext({ framework, history, round, client, name }: Lane): Promise<Held[]> {
  const claim = name()
  const { webhooks: integrationId } = round.integrations
  const room = { after: integrationId - 1, integrations: 1, rows: MOST_AT_ONCE, room: MOST_AT_ONCE, rooms: {} }
  const { rows } = await history.record(
    ANY_ROW,
    client,
    { kind: 'claim next', owner: claim },
    () => claimNextWebhooks(framework.db, framework.tables, claim, room),
    (taken) => ({ rows: taken.rows.map(({ id, attempts }) => ({ id, attempts })) }),
  )
  return [...rows]
}

async function end(lane: Lane, rows: readonly Held[]): Promise<void> {
  const { framework, history, client } = lane
  const outcomes = rows.map((row): WebhookOutcome => {
    const isGood = lane.random() < 0.5
    const how = isGood ? ({ status: 'processed', result: null } as const) : ({ status: 'failed', error: 'no' } as const)
    return webhookOutcome(row as WebhookRow, how, 1)
  })
  const ends = outcomes.map(({ id, attempts, claim, status }) =>
    history.begin(rowSubject(id), client, { kind: 'settle', owner: claim, attempts, status }),
  )
  const settled = await settle(framework.db, claimedWebhooks(framework.tables), outcomes)
  for (const [at, written] of ends.entries()) written({ done: settled.has(outcomes[at]?.id as number) })
}

async function give({ framework, history, client }: Lane, row: Held): Promise<void> {
  await history.record(
    rowSubject(row.id),
    client,
    { kind: 'hand back', owner: row.claim, attempts: row.attempts },
    () => handBack(framework.db, claimedWebhooks(framework.tables), [row]),
    (given) => ({ done: given.has(row.id) }),
  )
}

/** Reads a row, and takes it up now and then if a claim holds it. */
async function look(lane: Lane): Promise<void> {
  const { framework, history, round, client } = lane
  const seen = await readRow(lane, pick(lane, round.webhooks))
  if (seen.status !== 'processing' || lane.random() < 0.5) return
  const newOwner = lane.name()
  const { id, attempts } = seen
  const row = { id, attempts, claim: seen.owner, integrationId: round.integrations.webhooks }
  const taken = await history.record(
    rowSubject(id),
    client,
    { kind: 'take up', owner: seen.owner, attempts, newOwner },
    () => takeUp(framework.db, claimedWebhooks(framework.tables), row, { ...WEBHOOK_LOSS, claim: newOwner }),
    (got) => ({ done: got !== null, attempts: got?.attempts }),
  )
  if (taken !== null) await handle(lane, taken)
}

interface Seen extends Record<string, unknown> {
  readonly id: number
  readonly status: string
  readonly owner: string
  readonly attempts: number
}

export function readRow({ framework, history, client }: Lane, id: number): Promise<Seen> {
  const { webhooks, logs } = framework.tables
  const read = async (): Promise<Seen> => {
    const [row] = await framework.db.execute<Seen>(sql`
      select w.id::int as id, w.status, coalesce(w.claim, '') as owner, w.attempts, w.lost_workers as lost,
        (select count(*)::int from ${logs} l where l.origin = 'webhook:' || w.id) as logs
      from ${webhooks} w where w.id = ${id}`)
    return row as Seen
  }
  return history.record(rowSubject(id), client, { kind: 'read' }, read, ({ id: _, ...seen }) => seen)
}
