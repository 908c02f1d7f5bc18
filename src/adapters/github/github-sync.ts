/** One sync of a repository's issues. Rule: docs/behaviour/github.md, "Sync". */
import type { Json, SyncSession } from '../../provider.ts'
import { InvalidArgumentException, paginate } from '../../provider.ts'
import { GitHubComments } from './comments.ts'
import type { GitHubIssue, GitHubRawComment } from './data.ts'
import { instantIn, instantText } from './github-arguments.ts'
import { GitHubIssueSynced } from './github-events.ts'
import { GitHubIssues, issuePage } from './issues.ts'
import { dispatchIssue, isPullRequest, issueItems } from './listed-issue.ts'
import { FIRST_PAGE } from './pages.ts'

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
  let newest: string | null = null
  await paginate(session, {
    first: { ...FIRST_PAGE, newest: null as string | null },
    async page(at) {
      const { entries, next } = await issuePage(integration, since, at, { signal })
      newest = at.page === FIRST_PAGE.page ? newestOf(entries.filter((entry) => !isPullRequest(entry))) : at.newest
      return { entries, next: next === null ? null : { ...next, newest } }
    },
    // The newest update comes first, so a changed issue moves to the front. Issues of later pages stay there or move back.
    next: ({ next }) => next,
    items: ({ entries }) => entries,
    ...issueItems(session),
  })
  return newest
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
    if (issue === null || isPullRequest(issue)) continue
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
