/** The issues of a window of the past. Rule: docs/behaviour/github.md, "Backfills". */
import type { RestEndpointMethodTypes } from '@octokit/rest'
import { z } from 'zod'
import type { SyncSession } from '../../provider.ts'
import { instantText } from './arguments.ts'
import { callGitHub } from './call.ts'
import { AnsweredIssue } from './data.ts'
import { PAGE_SIZE } from './pages.ts'
import { repositoryOf } from './repository.ts'
import { dispatchIssue } from './sync.ts'

/** Where a listing goes on: from an update time, which stands still; by number within more than a page of one second. */
const Position = z.object({ since: z.iso.datetime(), page: z.number().int().min(1) })
type Position = z.infer<typeof Position>

/**
 * Every issue whose last update lies in the window.
 *
 * Oldest update first, and each page from the last one's last update on: an issue that is updated meanwhile moves to the end,
 * and by page numbers the rows behind it would each move one place forward, one of them over to a page that was read.
 */
export async function syncWindow(
  session: SyncSession,
  { from, to }: { readonly from: Date; readonly to: Date },
): Promise<void> {
  const { integration, signal } = session
  const repository = repositoryOf(integration)
  const { owner, repo, path, endpoint } = repository
  let position: Position = Position.nullable().parse(session.resumeFrom()) ?? {
    since: instantText('from', from),
    page: 1,
  }
  let before: ReadonlySet<number> = new Set()
  for (;;) {
    const { since, page } = position
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
    const call = { endpoint: `${path}/issues?page=${page}`, request, signal }
    const { data } = await callGitHub(repository, z.array(AnsweredIssue), call)
    for (const issue of data) {
      const at = new Date(issue.updated_at)
      if (at >= to) return
      const isRepeat = before.has(issue.number)
      if (at >= from && !isRepeat && issue.pull_request === undefined) await dispatchIssue(session, issue)
    }
    if (data.length < PAGE_SIZE) return
    const last = instantText('updated_at', data.at(-1)?.updated_at ?? since)
    position = last > since ? { since: last, page: 1 } : { since, page: page + 1 }
    before = new Set(data.map(({ number }) => number))
    await session.bookmark(position)
  }
}
