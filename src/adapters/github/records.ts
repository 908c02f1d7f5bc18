/** Issues and comments, known again whichever way they come. Rule: docs/behaviour/github.md, "Echoes". */
import { z } from 'zod'
import type { Json, Told } from '../../provider.ts'
import { actionOf, eventOf, payloadOf } from './github-webhooks.ts'

export interface GitHubRecord {
  readonly key: string
  readonly content: Json
}

export function issueKey(number: number): string {
  return `issue:${number}`
}

const Named = z.union([z.string(), z.object({ name: z.string().nullish() }).transform(({ name }) => name ?? '')])
const Login = z.object({ login: z.string() }).transform(({ login }) => login)
const reactions = z.object({ total_count: z.number() }).nullish()

/** What people can change on an issue, and when one did last. Addresses and what is derived are left out. */
const Issue = z.object({
  number: z.number().int(),
  title: z.string(),
  body: z.string().nullish(),
  state: z.string(),
  state_reason: z.string().nullish(),
  labels: z.array(Named),
  assignees: z.array(Login).nullish(),
  milestone: z.object({ number: z.number() }).nullish(),
  type: z.object({ name: z.string() }).nullish(),
  locked: z.boolean(),
  active_lock_reason: z.string().nullish(),
  /** Another comment is news of its issue, too. */
  comments: z.number().int(),
  reactions,
  updated_at: z.string(),
})

const Comment = z.object({
  id: z.number().int(),
  issue_url: z.string(),
  body: z.string().nullish(),
  reactions,
  updated_at: z.string(),
})

/** Actions whose payload is the issue or comment, and nothing that stands beside it. */
const ISSUE_ACTIONS: ReadonlySet<string | null> = new Set([
  'opened',
  'edited',
  'closed',
  'reopened',
  'labeled',
  'unlabeled',
  'assigned',
  'unassigned',
  'milestoned',
  'demilestoned',
  'locked',
  'unlocked',
])
const COMMENT_ACTIONS: ReadonlySet<string | null> = new Set(['created', 'edited'])

/** Null: of no issue and no comment, or more than a version of one, such as a transfer. */
export function toldRecord(told: Told): GitHubRecord | null {
  if (told.kind === 'answer') return recordIn(told.body)
  if (told.kind === 'item') return recordIn(told.payload)
  const payload = payloadOf(told.request)
  const action = actionOf(payload)
  switch (eventOf(told.request)) {
    case 'issues':
      return ISSUE_ACTIONS.has(action) ? recordIn(Delivered.safeParse(payload).data?.issue) : null
    case 'issue_comment':
      return COMMENT_ACTIONS.has(action) ? recordIn(Delivered.safeParse(payload).data?.comment) : null
    default:
      return null
  }
}

const Delivered = z.object({ issue: z.unknown().optional(), comment: z.unknown().optional() })

/** A comment names its issue; an issue does not. */
function recordIn(value: unknown): GitHubRecord | null {
  const comment = Comment.safeParse(value).data
  if (comment !== undefined)
    return {
      key: `comment:${comment.id}`,
      content: {
        body: comment.body ?? '',
        reactions: comment.reactions?.total_count ?? 0,
        updatedAt: comment.updated_at,
      },
    }
  const issue = Issue.safeParse(value).data
  if (issue === undefined) return null
  return {
    key: issueKey(issue.number),
    content: {
      title: issue.title,
      body: issue.body ?? '',
      state: issue.state,
      stateReason: issue.state_reason ?? null,
      labels: issue.labels.toSorted(),
      assignees: (issue.assignees ?? []).toSorted(),
      milestone: issue.milestone?.number ?? null,
      type: issue.type?.name ?? null,
      isLocked: issue.locked,
      lockReason: issue.active_lock_reason ?? null,
      comments: issue.comments,
      reactions: issue.reactions?.total_count ?? 0,
      // Tells a foreign change back to what we wrote, but for one within the same second.
      updatedAt: issue.updated_at,
    },
  }
}
