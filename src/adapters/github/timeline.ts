/** The timeline of an issue. Rule: docs/behaviour/github.md, "Timeline". */
import type { RestEndpointMethodTypes } from '@octokit/rest'
import type { Integration } from '../../provider.ts'
import { checkNumber } from './arguments.ts'
import type { Reading } from './pages.ts'
import { PAGE_SIZE, pagesOf } from './pages.ts'
import { repositoryOf } from './repository.ts'
import type { GitHubTimelineEvent } from './timeline-event.ts'
import { AnsweredTimelineEvent } from './timeline-event.ts'

/** By `Link` alone: a page may be short though others follow. */
export async function* timelineOf(
  integration: Integration,
  number: number,
  options: Reading,
): AsyncGenerator<GitHubTimelineEvent> {
  checkNumber(number)
  const repository = repositoryOf(integration)
  const { owner, repo, path, endpoint } = repository
  const pages = pagesOf(repository, AnsweredTimelineEvent, {
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
  for await (const page of pages) yield* page
}
