/**
 * What both listings of issues do: hand an issue in, and go on where an earlier try stopped.
 *
 * Rules: docs/behaviour/github.md, "What is handed in" and "When a listing is cut off".
 */
import type { PagedListing, SyncSession } from '../../provider.ts'
import type { GitHubIssue } from './data.ts'
import { instantIn } from './github-arguments.ts'
import { GitHubIssueSynced } from './github-events.ts'
import { repositoryOf } from './repository.ts'

/** The session's limit for one item as JSON: docs/behaviour/sync-listing.md, "The session". */
const MAX_ISSUE_BYTES = 1_048_576

/** What `paginate()` asks of an issue: event, checkpoint `updated_at`, and its number as the external id. */
export function issueItems(
  session: SyncSession,
  { isAsked = () => true }: { readonly isAsked?: (issue: GitHubIssue) => boolean } = {},
): Pick<PagedListing<unknown, unknown, GitHubIssue>, 'name' | 'event' | 'checkpoint' | 'externalId'> {
  return {
    name: addressOf(session),
    event: (issue) => (isPullRequest(issue) || !isAsked(issue) ? null : eventOf(session, issue)),
    checkpoint: (issue) => checkpointOf(session, issue),
    externalId: ({ number }) => String(number),
  }
}

/** GitHub lists a pull request as an issue. */
export function isPullRequest(issue: GitHubIssue): boolean {
  return issue.pull_request !== undefined
}

export function dispatchIssue(session: SyncSession, issue: GitHubIssue): Promise<void> {
  return session.dispatch(eventOf(session, issue), checkpointOf(session, issue), String(issue.number))
}

function eventOf(session: SyncSession, issue: GitHubIssue): GitHubIssueSynced {
  return new GitHubIssueSynced(session.integration, withinLimit(session, issue))
}

/** Anyone can write an issue whose HTML is too large. It must not end the listing, which would fail at it each time. */
function withinLimit(session: SyncSession, issue: GitHubIssue): GitHubIssue {
  const bytes = bytesOf(issue)
  if (bytes <= MAX_ISSUE_BYTES) return issue
  const { body_html: _html, body_text: _text, ...rest } = issue
  const isStillTooLarge = bytesOf(rest) > MAX_ISSUE_BYTES
  session.warn(
    { integration_id: session.integration.id, issue_number: issue.number, bytes, without_attachments: isStillTooLarge },
    `an issue has more than ${MAX_ISSUE_BYTES} bytes, and is handed in without body_html and body_text`,
  )
  return isStillTooLarge ? { ...rest, attachments: [] } : rest
}

function bytesOf(issue: GitHubIssue): number {
  return Buffer.byteLength(JSON.stringify(issue))
}

function checkpointOf(session: SyncSession, issue: GitHubIssue): string | null {
  const { number, updated_at: at } = issue
  if (instantIn(at) !== null) return at
  session.warn(
    { integration_id: session.integration.id, issue_number: number, updated_at: at },
    'the updated_at of an issue is no time: the issue is handed in, and takes no part in the cursor',
  )
  return null
}

/** Tells the bookmarks of one repository from those of another: the integration may be pointed elsewhere between two tries. */
export function addressOf({ integration }: SyncSession): string {
  const { owner, repo, endpoint } = repositoryOf(integration)
  return endpoint('GET /repos/{owner}/{repo}', { owner, repo }).url
}
