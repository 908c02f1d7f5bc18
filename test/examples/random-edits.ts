/** Random edits on both sides of examples/two-way, while its handlers run and an automation rewrites what they write. */
import { expect } from 'vitest'
import type { Change, World } from './two-way-world.ts'

export interface RandomEdits {
  readonly edits: number
  readonly records: number
  /** Edits while one batch of webhooks is handled, at most. */
  readonly burst: number
  readonly seed: number
}

/** @returns what was seen, for a line of a report */
export async function editAtRandom(world: World, { edits, records, burst, seed }: RandomEdits) {
  const random = randomOf(seed)
  const below = (limit: number): number => Math.floor(random() * limit)
  for (let nth = 0; nth < records; nth += 1)
    await (nth % 2 === 0 ? world.openIssue(`Issue ${nth}`) : world.openTicket(`Ticket ${nth}`))
  await world.settle(10)
  const mirrors = (await world.mirrors()).slice(-records)
  expect(mirrors).toHaveLength(records)

  let rewritten = 0
  let seenOfLedger = 0
  /** Puts a label on, and a mark behind, what our handlers have written: once each time. */
  const automate = async (): Promise<void> => {
    const changes = await world.githubLedger(seenOfLedger)
    for (const change of changes) {
      if (change.by !== 'api' || !change.record.startsWith('issue:')) continue
      const [title = ''] = JSON.parse(change.content) as [string]
      if (title.endsWith('*') || below(3) > 0) continue
      rewritten += 1
      await world.editIssue(Number(change.record.slice('issue:'.length)), { title: `${title}*` })
    }
    seenOfLedger += changes.length
  }

  for (let nth = 0; nth < edits; ) {
    const last = Math.min(edits, nth + 1 + below(burst))
    const working = world.send().then(() => world.work())
    for (; nth < last; nth += 1) {
      const { issue, ticket } = mirrors[below(records)] as { issue: number; ticket: string }
      // Few texts: the same one comes again, also one that we have written (ABA).
      const text = `Says ${below(4)}`
      const edit = below(7)
      if (edit === 0) await world.editIssue(issue, { title: text })
      else if (edit === 1) await world.editIssue(issue, { state: below(2) === 0 ? 'open' : 'closed' })
      else if (edit === 2) await world.editIssue(issue, { labels: below(2) === 0 ? ['bug'] : [] })
      else if (edit === 3 && nth < 400) await world.editIssue(issue, { comment: `Comment ${nth}` })
      else if (edit === 4 && nth < 400) await world.comment(ticket, `Comment ${nth}`)
      else if (edit === 5) await world.editTicket(ticket, { subject: text })
      else await world.editTicket(ticket, { status: (['open', 'pending', 'solved'] as const)[below(3)] ?? 'open' })
    }
    await working
    if (below(4) === 0) await automate()
  }
  const rounds = await world.settle(20)
  await world.compare()
  return { ...(await judge(world)), rewritten, rounds }
}

/**
 * No foreign change is suppressed: what was marked own, and a person did, says what a write of ours said, down to the time of the
 * change. That is one that put the record back within the grain of the provider's clock.
 */
async function judge(world: World) {
  const { sql } = world.test
  const rows = await sql<{ delivery_id: string; is_own: boolean | null; status: string; provider: string }[]>`
    select w.delivery_id, w.is_own, w.status, i.provider from integration_webhooks w
    join integrations i on i.id = w.integration_id`
  expect(rows.filter(({ status }) => status !== 'processed')).toEqual([])
  const verdicts = new Map(rows.map((row) => [`${row.provider} ${row.delivery_id}`, row.is_own]))
  const ledger = await world.ledger()
  const written = new Set(ledger.filter(({ by }) => by === 'api').map(textOf))
  const count = { own: 0, recognised: { github: 0, deskline: 0 }, foreign: 0, sameAsOurs: 0 }
  const wrong: Change[] = []
  for (const change of ledger) {
    const verdict = verdicts.get(`${change.side} ${change.deliveryId}`)
    if (change.by === 'api') {
      count.own += 1
      if (verdict === true) count.recognised[change.side] += 1
    } else {
      count.foreign += 1
      if (verdict !== true) continue
      if (written.has(textOf(change))) count.sameAsOurs += 1
      else wrong.push(change)
    }
  }
  expect(wrong).toEqual([])
  return count
}

const textOf = ({ side, record, content }: Change): string => `${side} ${record} ${content}`

/** Mulberry32: https://gist.github.com/tommyettinger/46a874533244883189143505d203312c */
function randomOf(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}
