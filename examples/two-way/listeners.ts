/** What this host does with what comes in. A function, so that its test registers the very same. */
import type { Integration, Integrations } from 'durable-integrations'
import { GitHubComment, GitHubIssue, GitHubIssueSynced, GitHubWebhookReceived } from 'durable-integrations/github'
import type postgres from 'postgres'
import { z } from 'zod'
import type { DesklineProvider } from '../helpdesk/deskline/provider.ts'
import { TicketSynced } from '../helpdesk/deskline/ticket.ts'
import { TicketChanged, TicketCommented } from '../helpdesk/deskline/ticket-event.ts'
import type { Pair } from './mirror.ts'
import { mirrorComment, mirrorIssue } from './mirror.ts'
import { contentOfIssue, contentOfTicket, desklineSide, githubSide } from './sides.ts'

const Delivered = z.object({ issue: GitHubIssue, comment: GitHubComment.optional() })

/** @param requester whose tickets the mirrored issues are */
export function register(
  integrations: Integrations,
  { sql, deskline, requester }: { sql: postgres.Sql; deskline: DesklineProvider; requester: string },
): void {
  // What we wrote ourselves is no change to be mirrored.
  const skipOwn = { skipOwn: true }

  integrations.on(
    GitHubIssueSynced,
    async ({ integration, payload }) => {
      const pair = await pairOf(integration)
      if (pair !== null) await mirrorIssue(sql, pair, 'github', String(payload.number), contentOfIssue(payload))
    },
    skipOwn,
  )
  integrations.on(
    GitHubWebhookReceived,
    async ({ integration, event, action, payload }) => {
      const pair = event === 'issues' || event === 'issue_comment' ? await pairOf(integration) : null
      if (pair === null) return
      const { issue, comment } = Delivered.parse(payload)
      if (issue.pull_request !== undefined) return
      const on = { id: String(issue.number), content: contentOfIssue(issue) }
      if (comment === undefined) await mirrorIssue(sql, pair, 'github', on.id, on.content)
      else if (action === 'created')
        await mirrorComment(sql, pair, 'github', on, { id: String(comment.id), body: comment.body })
    },
    skipOwn,
  )

  integrations.on(
    TicketSynced,
    async ({ integration, payload }) => {
      const pair = await pairOf(integration)
      if (pair !== null) await mirrorIssue(sql, pair, 'deskline', payload.id, contentOfTicket(payload))
    },
    skipOwn,
  )
  integrations.on(
    TicketChanged,
    async ({ integration, event: { type, ticket } }) => {
      const pair = type === 'ticket.deleted' ? null : await pairOf(integration)
      if (pair !== null) await mirrorIssue(sql, pair, 'deskline', ticket.id, contentOfTicket(ticket))
    },
    skipOwn,
  )
  integrations.on(
    TicketCommented,
    async ({ integration, ticket, comment }) => {
      const pair = await pairOf(integration)
      const on = { id: ticket.id, content: contentOfTicket(ticket) }
      if (pair !== null) await mirrorComment(sql, pair, 'deskline', on, comment)
    },
    skipOwn,
  )

  /** The two integrations of one owner. Null: it has no other one yet. */
  async function pairOf({ owner }: Integration): Promise<Pair | null> {
    if (owner === null) return null
    const github = await first({ provider: 'github', owner })
    const other = await first({ provider: 'deskline', owner })
    if (github === null || other === null) return null
    return {
      owner: `${owner.type}:${owner.id}`,
      github: githubSide(github),
      deskline: desklineSide(deskline, other, requester),
    }
  }

  async function first(filter: Parameters<Integrations['list']>[0]): Promise<Integration | null> {
    for await (const integration of integrations.list({ ...filter, limit: 1 })) return integration
    return null
  }
}
