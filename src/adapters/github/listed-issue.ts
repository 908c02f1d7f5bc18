/**
 * What both listings of issues do: hand an issue in, and go on where an earlier try stopped.
 *
 * Rules: docs/behaviour/github.md, "What is handed in" and "When a listing is cut off".
 */
import { z } from 'zod'
import type { Json, SyncSession } from '../../provider.ts'
import type { GitHubIssue } from './data.ts'
import { instantIn } from './github-arguments.ts'
import { GitHubIssueSynced } from './github-events.ts'
import { repositoryOf } from './repository.ts'

/** The session's limit for one item as JSON: docs/behaviour/sync-listing.md, "The session". */
const MAX_ISSUE_BYTES = 1_048_576

/**
 * Checkpoint `updated_at`, external id the issue's number.
 *
 * @param notAfter latest checkpoint; null: no checkpoint
 */
export function dispatchIssue(
  session: SyncSession,
  issue: GitHubIssue,
  { notAfter = issue.updated_at }: { readonly notAfter?: string | null } = {},
): Promise<void> {
  return session.dispatch(
    new GitHubIssueSynced(session.integration, withinLimit(session, issue)),
    checkpointOf(session, issue, notAfter),
    String(issue.number),
  )
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

function checkpointOf(session: SyncSession, issue: GitHubIssue, notAfter: string | null): string | null {
  const at = instantIn(issue.updated_at)
  const latest = instantIn(notAfter)
  if (at === null)
    session.warn(
      { integration_id: session.integration.id, issue_number: issue.number, updated_at: issue.updated_at },
      'the updated_at of an issue is no time: the issue is handed in, and takes no part in the cursor',
    )
  if (at === null || latest === null) return null
  return at > latest ? notAfter : issue.updated_at
}

/** Stores the position together with the repository that it belongs to. */
export function bookmarkListing(session: SyncSession, position: Readonly<Record<string, Json>>): Promise<void> {
  return session.bookmark({ repository: addressOf(session), ...position })
}

/**
 * The last bookmark of an earlier try. Null: begin at the beginning, also after a change of `owner`, `repo` or `base_url`: a position
 * in one repository's list means nothing in another's.
 */
export function resumedListing<S extends z.ZodType>(session: SyncSession, position: S): z.output<S> | null {
  const kept = session.resumeFrom()
  const isHere = z.looseObject({ repository: z.literal(addressOf(session)) }).safeParse(kept).success
  const parsed = position.safeParse(kept)
  return isHere && parsed.success ? parsed.data : null
}

function addressOf({ integration }: SyncSession): string {
  const { owner, repo, endpoint } = repositoryOf(integration)
  return endpoint('GET /repos/{owner}/{repo}', { owner, repo }).url
}
