/** One sync of a repository's issues. Rule: docs/behaviour/github.md, "Sync". */
import { z } from 'zod'
import type { Json, SyncSession } from '../../provider.ts'
import { InvalidArgumentException } from '../../provider.ts'
import { GitHubComments } from './comments.ts'
import type { GitHubIssue, GitHubRawComment } from './data.ts'
import { instantIn, instantText } from './github-arguments.ts'
import { GitHubIssueSynced } from './github-events.ts'
import { GitHubIssues, issuePages } from './issues.ts'
import { bookmarkListing, dispatchIssue, resumedListing } from './listed-issue.ts'
import type { PagePosition } from './pages.ts'
import { FIRST_PAGE } from './pages.ts'
import { repositoryOf } from './repository.ts'

/** `updated_at` can trail its change, so each run looks back an hour; listeners see repeats. */
const CURSOR_OVERLAP_SECONDS = 3_600
const BEGINNING = '1970-01-01T00:00:00Z'

/** Hands in every issue updated since the cursor, then issues that the list left out but a comment shows. */
export async function syncIssues(session: SyncSession): Promise<void> {
  const cursor = session.cursor()
  const since = sinceOf(cursor)
  const newest = await listIssues(session, since)
  // Without a cursor the listing was complete.
  if (!isNone(cursor)) await recoverIssues(session, since, newest)
}

/** @throws InvalidArgumentException for a cursor that is no instant: it was set by hand, and guessing would lose issues */
export function sinceOf(cursor: Json): string {
  if (isNone(cursor)) return BEGINNING
  const at = instantIn(cursor)
  if (at === null)
    throw new InvalidArgumentException(
      'cursor',
      `an ISO 8601 time with a zone is allowed, such as 2026-01-31T12:00:00Z; given was ${JSON.stringify(cursor)}`,
    )
  return instantText('cursor', new Date(at.getTime() - CURSOR_OVERLAP_SECONDS * 1_000))
}

function isNone(cursor: Json): boolean {
  return cursor === null || cursor === ''
}

/** @returns the greatest update time on the first page; null: nothing was on it */
async function listIssues(session: SyncSession, since: string): Promise<string | null> {
  const { integration, signal } = session
  const resumed = resumedListing(session, Position)
  let newest = resumed?.newest
  for await (const { entries, next } of issuePages(integration, since, { signal, from: fromOf(session, resumed) })) {
    if (newest === undefined) newest = newestOf(entries)
    for (const issue of entries) await dispatchIssue(session, issue)
    // The newest update comes first, so a changed issue moves to the front. Issues of later pages stay there or move back.
    if (next !== null) await bookmarkListing(session, { ...next, newest })
  }
  return newest ?? null
}

const Position = z.object({
  page: z.number().int().min(1),
  url: z.string().nullable(),
  /** What `listIssues()` returns. */
  newest: z.string().nullable(),
})

/** A link is followed on the API's own origin only. */
function fromOf({ integration }: SyncSession, resumed: z.infer<typeof Position> | null): PagePosition {
  if (resumed === null) return FIRST_PAGE
  const { page, url } = resumed
  const isOurs = url !== null && URL.canParse(url) && new URL(url).origin === repositoryOf(integration).origin
  return { page, url: isOurs ? url : null }
}

function newestOf(issues: readonly GitHubIssue[]): string | null {
  const times = issues.map(({ updated_at: at }) => at).filter((at) => instantIn(at) !== null)
  return times.reduce<string | null>(
    (newest, at) => (newest === null || Date.parse(at) > Date.parse(newest) ? at : newest),
    null,
  )
}

/**
 * GitHub's list can leave out an issue that has just been commented on; the list of comments has the comment.
 *
 * @param newest limit of the found issues' checkpoints. An issue that moved to the front during the listing was not listed, so the
 *   next run must ask for it
 */
async function recoverIssues(session: SyncSession, since: string, newest: string | null): Promise<void> {
  const { integration, signal } = session
  const missing = new Set<number>()
  for await (const comment of new GitHubComments(integration).since(since, { signal })) {
    const parent = parentIssueOf(comment)
    if (parent !== null && !session.has(GitHubIssueSynced, parent)) missing.add(parent)
  }
  const issues = new GitHubIssues(integration)
  for (const number of missing) {
    const issue = await issues.get(number, { signal })
    if (issue === null || issue.pull_request !== undefined) continue
    session.warn(
      { integration_id: integration.id, issue_number: number, since },
      'an issue was missing from the list of issues, and was found by a comment',
    )
    await dispatchIssue(session, issue, { notAfter: newest })
  }
}

/** Null for a comment of a pull request, and if GitHub names no issue. */
function parentIssueOf({ html_url: page, issue_url: issue }: GitHubRawComment): number | null {
  if (typeof page === 'string' && /\/pull\/\d+(?:[#?]|$)/.test(page)) return null
  const number = Number(typeof issue === 'string' ? /\/(\d+)$/.exec(issue)?.[1] : Number.NaN)
  return Number.isSafeInteger(number) && number >= 1 ? number : null
}
