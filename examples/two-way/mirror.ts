/**
 * Keeps an issue and a ticket the same, whichever was changed.
 *
 * An arrival says only that something has changed: both sides are read, what differs from what they last agreed on was changed since,
 * and the other side gets it. So late, lost and repeated arrivals do no harm. What we wrote ourselves is no change: the listeners skip
 * it (docs/behaviour/echoes.md), which saves the two reads, and would save a loop where a side can't be read.
 */
import type postgres from 'postgres'
import type { Content, Side } from './sides.ts'

/** Two integrations of one owner. */
export interface Pair {
  readonly owner: string
  readonly github: Side
  readonly deskline: Side
}

export type SideName = 'github' | 'deskline'

interface MirrorRow {
  readonly id: string
  readonly issue: number
  readonly ticket: string
  readonly title: string
  readonly is_open: boolean
}

/** A record changed on one side: the other one follows. @param content what it says now, for a record without a mirror */
export async function mirrorIssue(
  sql: postgres.Sql,
  pair: Pair,
  from: SideName,
  id: string,
  content: Content,
): Promise<void> {
  const mirror = await mirrorOf(sql, pair, from, id, content)
  if (mirror.isNew) return
  await locked(sql, `mirror ${mirror.id}`, async (tx) => {
    const [row] = await tx<MirrorRow[]>`select * from mirrored_issues where id = ${mirror.id}`
    if (row === undefined) return
    const issue = await pair.github.read(String(row.issue))
    const ticket = await pair.deskline.read(row.ticket)
    if (issue === null || ticket === null) return
    const agreed = { title: row.title, isOpen: row.is_open }
    const merged = {
      title: newer(agreed.title, issue.title, ticket.title),
      isOpen: newer(agreed.isOpen, issue.isOpen, ticket.isOpen),
    }
    if (differ(issue, merged)) await pair.github.write(String(row.issue), issue, merged)
    if (differ(ticket, merged)) await pair.deskline.write(row.ticket, ticket, merged)
    await tx`update mirrored_issues set title = ${merged.title}, is_open = ${merged.isOpen} where id = ${row.id}`
  })
}

/** A comment was made on one side: the other one gets it, once. */
export async function mirrorComment(
  sql: postgres.Sql,
  pair: Pair,
  from: SideName,
  on: { readonly id: string; readonly content: Content },
  comment: { readonly id: string; readonly body: string },
): Promise<void> {
  const mirror = await mirrorOf(sql, pair, from, on.id, on.content)
  await locked(sql, `mirror ${mirror.id}`, async (tx) => {
    const known =
      from === 'github'
        ? await tx`select from mirrored_comments where mirror_id = ${mirror.id} and issue_comment = ${comment.id}`
        : await tx`select from mirrored_comments where mirror_id = ${mirror.id} and ticket_comment = ${comment.id}`
    if (known.length > 0) return
    // It was deleted there.
    const other = from === 'github' ? pair.deskline.read(mirror.ticket) : pair.github.read(String(mirror.issue))
    if ((await other) === null) return
    const key = `comment of ${from} ${pair.owner}/${comment.id}`
    const [issueComment, ticketComment] =
      from === 'github'
        ? [comment.id, await pair.deskline.comment(mirror.ticket, comment.body, key)]
        : [await pair.github.comment(String(mirror.issue), comment.body, key), comment.id]
    await tx`insert into mirrored_comments values (${mirror.id}, ${issueComment}, ${ticketComment})`
  })
}

/** The row of a record; makes the mirror where there is none. One at a time: the mirror's own arrival finds the row. */
async function mirrorOf(
  sql: postgres.Sql,
  pair: Pair,
  from: SideName,
  id: string,
  content: Content,
): Promise<MirrorRow & { readonly isNew: boolean }> {
  const find = async (tx: postgres.Sql | postgres.TransactionSql): Promise<MirrorRow | undefined> => {
    const [row] =
      from === 'github'
        ? await tx<MirrorRow[]>`select * from mirrored_issues where owner = ${pair.owner} and issue = ${id}`
        : await tx<MirrorRow[]>`select * from mirrored_issues where owner = ${pair.owner} and ticket = ${id}`
    return row
  }
  const row = await find(sql)
  if (row !== undefined) return { ...row, isNew: false }
  return locked(sql, `new mirror of ${pair.owner}`, async (tx) => {
    const found = await find(tx)
    if (found !== undefined) return { ...found, isNew: false }
    const key = `mirror of ${from} ${pair.owner}/${id}`
    const [issue, ticket] =
      from === 'github' ? [id, await pair.deskline.create(content, key)] : [await pair.github.create(content, key), id]
    const [made] = await tx<MirrorRow[]>`
      insert into mirrored_issues (owner, issue, ticket, title, is_open)
      values (${pair.owner}, ${issue}, ${ticket}, ${content.title}, ${content.isOpen}) returning *`
    if (made === undefined) throw new Error('the row of a mirror was not made')
    return { ...made, isNew: true }
  })
}

/** What was changed since; GitHub's where both were. */
function newer<T>(agreed: T, issue: T, ticket: T): T {
  return issue !== agreed ? issue : ticket
}

function differ(a: Content, b: Content): boolean {
  return a.title !== b.title || a.isOpen !== b.isOpen
}

/** One at a time in all processes: a worker that dies lets go. */
function locked<T>(sql: postgres.Sql, name: string, work: (tx: postgres.TransactionSql) => Promise<T>): Promise<T> {
  return sql.begin(async (tx) => {
    await tx`select pg_advisory_xact_lock(hashtextextended(${name}, 0))`
    return work(tx)
  }) as Promise<T>
}
