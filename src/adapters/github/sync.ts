/** One sync of a repository's issues. */
import type { Json, SyncSession } from '../../provider.ts'
import { InvalidArgumentException } from '../../provider.ts'
import { GitHubIssueSynced } from './events.ts'
import { issuesSince } from './issues.ts'

/** `updated_at` can trail the change it stands for, so each run looks back by an hour; listeners see repeats. */
const CURSOR_OVERLAP_SECONDS = 3_600
const BEGINNING = '1970-01-01T00:00:00Z'
/** ISO 8601 with a zone: without one the same text would be another moment on another machine. */
const INSTANT = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$/

/** Hands every issue updated since the cursor to the session: checkpoint `updated_at`, external id the issue's number. */
export async function syncIssues(session: SyncSession, fetch?: typeof globalThis.fetch): Promise<void> {
  const { integration, signal } = session
  for await (const issue of issuesSince(integration, sinceOf(session.cursor()), { signal, fetch }))
    await session.dispatch(
      new GitHubIssueSynced(integration, issue),
      INSTANT.test(issue.updated_at) ? issue.updated_at : null,
      String(issue.number),
    )
}

/** @throws InvalidArgumentException for a cursor that is no instant: it was set by hand, and guessing would lose issues */
export function sinceOf(cursor: Json): string {
  if (cursor === null || cursor === '') return BEGINNING
  if (typeof cursor !== 'string' || !INSTANT.test(cursor) || Number.isNaN(Date.parse(cursor)) || !isDay(cursor))
    throw new InvalidArgumentException(
      'cursor',
      `an ISO 8601 time with a zone is allowed, such as 2026-01-31T12:00:00Z; given was ${JSON.stringify(cursor)}`,
    )
  const since = new Date(Date.parse(cursor) - CURSOR_OVERLAP_SECONDS * 1_000)
  return since.toISOString().replace(/\.\d{3}Z$/, 'Z')
}

/** `Date.parse()` takes the 30th of February for the 2nd of March. */
function isDay(instant: string): boolean {
  const day = instant.slice(0, 10)
  return new Date(`${day}T00:00:00Z`).toISOString().startsWith(day)
}
