/** The issues of a window of the past. Rule: docs/behaviour/github.md, "Backfills". */
import type { RestEndpointMethodTypes } from '@octokit/rest'
import { z } from 'zod'
import type { SyncSession } from '../../provider.ts'
import { paginate } from '../../provider.ts'
import type { GitHubIssue } from './data.ts'
import { AnsweredIssue } from './data.ts'
import { instantIn, instantText } from './github-arguments.ts'
import { callGitHub } from './github-call.ts'
import { GitHubIssueSynced } from './github-events.ts'
import { issueItems } from './listed-issue.ts'
import { lastUpdateOf, MAX_PAGE_BYTES, PAGE_SIZE } from './pages.ts'
import { repositoryOf } from './repository.ts'

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
  let asked = ''
  await paginate(session, {
    // An update time does not move; the page number is for more than a page within one second.
    first: { since: instantText('from', from), page: 1 },
    async page({ since, page }) {
      asked = since
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
      return (await callGitHub(repository, z.array(AnsweredIssue), call)).data
    },
    next(issues, { since, page }) {
      if (issues.length < PAGE_SIZE || issues.some((issue) => isAtOrAfter(issue, to))) return null
      const last = lastUpdateOf(issues) ?? since
      return last > since ? { since: last, page: 1 } : { since, page: page + 1 }
    },
    items: (issues) => issues,
    ...issueItems(session, {
      isAsked(issue) {
        const at = instantIn(issue.updated_at)
        // An issue without a readable time may be in the window: a superfluous item is better than a lost one.
        if (at !== null && (at < from || at >= to)) return false
        // A later time makes it a newer copy, which replaces the earlier one.
        const isNewer = at !== null && instantText('updated_at', at) > asked
        return isNewer || !session.has(GitHubIssueSynced, issue.number)
      },
    }),
  })
}

function isAtOrAfter(issue: GitHubIssue, moment: Date): boolean {
  const at = instantIn(issue.updated_at)
  return at !== null && at >= moment
}
