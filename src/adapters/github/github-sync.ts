/** One sync of a repository's issues. Rule: docs/behaviour/github.md, "Sync". */
import type { Json, SyncSession } from '../../provider.ts'
import { InvalidArgumentException, paginate } from '../../provider.ts'
import { behindComments, commentsPage } from './comments.ts'
import type { GitHubRawComment } from './data.ts'
import { instantIn, instantText } from './github-arguments.ts'
import { GitHubIssueSynced } from './github-events.ts'
import { GitHubIssues, issuePage } from './issues.ts'
import { addressOf, dispatchIssue, isPullRequest, issueItems } from './listed-issue.ts'
import { FIRST_PAGE } from './pages.ts'

/** `updated_at` can trail its change, so each run looks back an hour; listeners see repeats. */
const CURSOR_OVERLAP_SECONDS = 3_600
const BEGINNING = '1970-01-01T00:00:00Z'

/** Hands in every issue updated since the cursor, then issues that the list left out but a comment shows. */
export async function syncIssues(session: SyncSession): Promise<void> {
  const cursor = session.cursor()
  const since = sinceOf(cursor)
  await listIssues(session, since)
  // Without a cursor the listing was complete.
  if (!isNone(cursor)) await recoverIssues(session, since)
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

async function listIssues(session: SyncSession, since: string): Promise<void> {
  const { integration, signal } = session
  await paginate(session, {
    first: FIRST_PAGE,
    page: (at) => issuePage(integration, since, at, { signal }),
    // The newest update comes first, so a changed issue moves to the front. Issues of later pages stay there or move back.
    next: ({ next }) => next,
    items: ({ entries }) => entries,
    ...issueItems(session),
  })
}

/** GitHub's list can leave out an issue that has just been commented on; the list of comments has the comment. */
async function recoverIssues(session: SyncSession, since: string): Promise<void> {
  const { integration, signal } = session
  const asked = new Set<number>()
  await paginate(session, {
    name: `${addressOf(session)}/comments`,
    first: { since, page: 1 },
    async page(at) {
      const comments = await commentsPage(integration, at, { signal })
      // Before the bookmark behind the page: a later try does not read it again.
      await recoverParents(session, comments, { asked, since })
      return comments
    },
    next: (comments, at) => behindComments(comments, at),
    items: (comments) => comments,
    event: () => null,
    checkpoint: () => null,
    externalId: (comment) => JSON.stringify(comment),
  })
}

/** @param asked the parents that were fetched in this try */
async function recoverParents(
  session: SyncSession,
  comments: readonly GitHubRawComment[],
  { asked, since }: { readonly asked: Set<number>; readonly since: string },
): Promise<void> {
  const { integration, signal } = session
  const issues = new GitHubIssues(integration)
  for (const comment of comments) {
    const number = parentIssueOf(comment)
    if (number === null || asked.has(number) || session.has(GitHubIssueSynced, number)) continue
    asked.add(number)
    const issue = await issues.get(number, { signal })
    if (issue === null || isPullRequest(issue)) continue
    session.warn(
      { integration_id: integration.id, issue_number: number, since },
      'an issue was missing from the list of issues, and was found by a comment',
    )
    await dispatchIssue(session, issue)
  }
}

/** Null for a comment of a pull request, and if GitHub names no issue. */
function parentIssueOf({ html_url: page, issue_url: issue }: GitHubRawComment): number | null {
  if (typeof page === 'string' && /\/pull\/\d+(?:[#?]|$)/.test(page)) return null
  const number = Number(typeof issue === 'string' ? /\/(\d+)$/.exec(issue)?.[1] : Number.NaN)
  return Number.isSafeInteger(number) && number >= 1 ? number : null
}
