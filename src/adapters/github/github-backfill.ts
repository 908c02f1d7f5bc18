/** The issues of a window of the past. Rule: docs/behaviour/github.md, "Backfills". */
import type { RestEndpointMethodTypes } from '@octokit/rest'
import { z } from 'zod'
import type { SyncSession } from '../../provider.ts'
import type { GitHubIssue } from './data.ts'
import { AnsweredIssue } from './data.ts'
import { instantIn, instantText } from './github-arguments.ts'
import { callGitHub } from './github-call.ts'
import { GitHubIssueSynced } from './github-events.ts'
import { bookmarkListing, dispatchIssue, resumedListing } from './listed-issue.ts'
import { MAX_PAGE_BYTES, PAGE_SIZE } from './pages.ts'
import { repositoryOf } from './repository.ts'

/** Position of a listing: an update time, which does not move; the page number is for more than a page within one second. */
const Position = z.object({ since: z.iso.datetime(), page: z.number().int().min(1) })

/**
 * Every issue whose last update lies in the window.
 *
 * Oldest update first; each page begins at the last update of the page before. An issue that is updated meanwhile moves to the end.
 * With page numbers all issues behind it would move forward by one, and one of them would be on no page.
 */
export async function syncWindow(
  session: SyncSession,
  { from, to }: { readonly from: Date; readonly to: Date },
): Promise<void> {
  const { integration, signal } = session
  const repository = repositoryOf(integration)
  const { owner, repo, path, endpoint } = repository
  let { since, page } = resumedListing(session, Position) ?? { since: instantText('from', from), page: 1 }
  for (;;) {
    const request = endpoint('GET /repos/{owner}/{repo}/issues', {
      owner,
      repo,
      state: 'all',
      sort: 'updated',
      direction: 'asc',
      since,
      per_page: PAGE_SIZE,
      page,
    } satisfies RestEndpointMethodTypes['issues']['listForRepo']['parameters'])
    const call = { endpoint: `${path}/issues?page=${page}`, request, maxBytes: MAX_PAGE_BYTES, signal }
    const { data } = await callGitHub(repository, z.array(AnsweredIssue), call)
    for (const issue of data) {
      const at = instantIn(issue.updated_at)
      if (at !== null && at >= to) return
      // An issue without a readable time may be in the window: a superfluous item is better than a lost one.
      const isEarlier = at !== null && at < from
      // A later time makes it a newer copy, which replaces the earlier one.
      const isNewer = at !== null && instantText('updated_at', at) > since
      const isRepeat = !isNewer && session.has(GitHubIssueSynced, issue.number)
      if (!isEarlier && !isRepeat && issue.pull_request === undefined) await dispatchIssue(session, issue)
    }
    if (data.length < PAGE_SIZE) return
    const last = lastUpdateOf(data) ?? since
    if (last > since) [since, page] = [last, 1]
    else page += 1
    await bookmarkListing(session, { since, page })
  }
}

/** Null: no issue has a readable time. */
function lastUpdateOf(issues: readonly GitHubIssue[]): string | null {
  const last = issues.map(({ updated_at: at }) => instantIn(at)).findLast((at) => at !== null)
  return last == null ? null : instantText('updated_at', last)
}
