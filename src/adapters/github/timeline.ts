/** The timeline of an issue. Rule: docs/behaviour/github.md, "Timeline". */
import type { RestEndpointMethodTypes } from '@octokit/rest'
import { z } from 'zod'
import type { Integration } from '../../provider.ts'
import { GitHubUser } from './data.ts'
import { checkNumber } from './github-arguments.ts'
import type { Reading } from './pages.ts'
import { entriesOf, PAGE_SIZE } from './pages.ts'
import { repositoryOf } from './repository.ts'

/** By `Link` alone: a page may be short though others follow. */
export async function* timelineOf(
  integration: Integration,
  number: number,
  options: Reading,
): AsyncGenerator<GitHubTimelineEvent> {
  checkNumber(number)
  const repository = repositoryOf(integration)
  const { owner, repo, path, endpoint } = repository
  yield* entriesOf(repository, AnsweredTimelineEvent, {
    path: `${path}/issues/${number}/timeline`,
    page: (page) =>
      endpoint('GET /repos/{owner}/{repo}/issues/{issue_number}/timeline', {
        owner,
        repo,
        issue_number: number,
        per_page: PAGE_SIZE,
        page,
      } satisfies RestEndpointMethodTypes['issues']['listEventsForTimeline']['parameters']),
    nextBy: 'link',
    endsWith: 'no link',
    ofIssue: true,
    ...options,
  })
}

/** https://docs.github.com/en/rest/using-the-rest-api/issue-event-types */
export const TIMELINE_EVENTS = [
  'closed',
  'reopened',
  'labeled',
  'unlabeled',
  'assigned',
  'unassigned',
  'milestoned',
  'demilestoned',
  'renamed',
  'locked',
  'unlocked',
  'transferred',
  'referenced',
  'mentioned',
  'subscribed',
  'unsubscribed',
  'review_requested',
  'review_request_removed',
  'review_dismissed',
  'reviewed',
  'ready_for_review',
  'convert_to_draft',
  'merged',
  'marked_as_duplicate',
  'unmarked_as_duplicate',
  'commented',
  'comment_deleted',
  'cross-referenced',
  'committed',
  'connected',
  'disconnected',
  'head_ref_deleted',
  'head_ref_restored',
  'head_ref_force_pushed',
  'base_ref_changed',
  'converted_note_to_issue',
  'moved',
  'added_to_project',
  'removed_from_project',
  'added_to_project_v2',
  'removed_from_project_v2',
  'project_v2_item_status_changed',
  'converted_to_discussion',
  'issue_type_added',
  'issue_type_changed',
  'issue_type_removed',
  'sub_issue_added',
  'sub_issue_removed',
  'parent_issue_added',
  'parent_issue_removed',
  'pinned',
  'unpinned',
] as const

const KNOWN: ReadonlySet<string> = new Set(TIMELINE_EVENTS)

export const GitHubTimelineEvent = z.looseObject({
  /** GitHub's own as text; of a commit its SHA; `xref-<source number>-<unix time>` of a reference from elsewhere. */
  id: z.string(),
  /** `unknown`: GitHub has a new kind; `raw_event` names it. */
  event: z.enum([...TIMELINE_EVENTS, 'unknown']),
  raw_event: z.string().optional(),
  url: z.string().nullable(),
  node_id: z.string().nullable(),
  /** When it was submitted, of a review; when it was committed, of a commit. */
  created_at: z.string().nullable(),
  /** Null when the account was deleted, and of a commit, whose author need not have one. */
  actor: GitHubUser.nullable(),
  label: z.looseObject({ name: z.string().nullish() }).nullish(),
  assignee: GitHubUser.nullish(),
  milestone: z.looseObject({ title: z.string().nullish() }).nullish(),
  rename: z.looseObject({ from: z.string().nullish(), to: z.string().nullish() }).nullish(),
  commit_id: z.string().nullish(),
  commit_url: z.string().nullish(),
  state_reason: z.string().nullish(),
  /** Of a reference: what refers to this issue. */
  source: z.looseObject({}).nullish(),
  source_type: z.enum(['issue', 'pull_request']).optional(),
  source_number: z.number().int().optional(),
})
export type GitHubTimelineEvent = z.infer<typeof GitHubTimelineEvent>

type Raw = Record<string, unknown>

/** An event as GitHub answers it, in the shape that all kinds have in common. */
export const AnsweredTimelineEvent = z.record(z.string(), z.unknown()).transform(inCommon).pipe(GitHubTimelineEvent)

function inCommon(raw: Raw): Raw {
  const event = textOf(raw.event) ?? ''
  const createdAt =
    textOf(raw.created_at) ?? textOf(raw.submitted_at) ?? textOf(inner(raw.committer, 'date')) ?? firstCommentAt(raw)
  return {
    ...raw,
    ...sourceOf(raw),
    ...(KNOWN.has(event) ? {} : { raw_event: event }),
    id: idOf(raw, event, createdAt),
    event: KNOWN.has(event) ? event : 'unknown',
    url: raw.url ?? null,
    node_id: raw.node_id ?? null,
    created_at: createdAt,
    actor: raw.actor ?? raw.user ?? null,
  }
}

function idOf(raw: Raw, event: string, createdAt: string | null): string {
  if (typeof raw.id === 'number' || typeof raw.id === 'string') return String(raw.id)
  const seconds = createdAt === null ? 0 : Math.floor(Date.parse(createdAt) / 1_000)
  const { source_number: source } = sourceOf(raw)
  if (source !== undefined) return `xref-${source}-${seconds}`
  return textOf(raw.sha) ?? textOf(raw.node_id) ?? `${event}-${seconds}`
}

function sourceOf({ source }: Raw): { source_type?: 'issue' | 'pull_request'; source_number?: number } {
  const issue = inner(source, 'issue')
  const number = inner(issue, 'number')
  if (typeof number !== 'number') return {}
  const isPullRequest = (inner(issue, 'pull_request') ?? null) !== null
  return { source_type: isPullRequest ? 'pull_request' : 'issue', source_number: number }
}

/** Comments on a line or a commit come as one event without a time of its own. */
function firstCommentAt({ comments }: Raw): string | null {
  return Array.isArray(comments) ? textOf(inner(comments[0], 'created_at')) : null
}

function textOf(value: unknown): string | null {
  return typeof value === 'string' ? value : null
}

function inner(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Raw)[key] : undefined
}
