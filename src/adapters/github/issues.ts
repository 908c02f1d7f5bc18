/** The repository's issues, page by page. */
import { z } from 'zod'
import type { Integration, RequestOptions } from '../../provider.ts'
import type { Repository } from './client.ts'
import { repositoryOf } from './client.ts'
import type { GitHubIssue } from './data.ts'
import { IssueListEntry } from './data.ts'

/** GitHub's maximum: https://docs.github.com/en/rest/issues/issues#list-repository-issues */
const PAGE_SIZE = 100

/** Octokit's answer, as far as paging needs it. */
const Page = z.object({ data: z.array(IssueListEntry), headers: z.object({ link: z.string().optional() }) })

/**
 * Every issue updated at or after `since`, pull requests left out.
 *
 * Newest update first: an issue that is updated while the pages are read moves to the front and repeats at most; sorted
 * the other way, a later page would skip one. The end is judged by what GitHub sent, before pull requests are dropped.
 */
export async function* issuesSince(
  integration: Integration,
  since: string,
  { fetch, ...options }: Pick<RequestOptions, 'signal'> & { fetch?: typeof globalThis.fetch | undefined } = {},
): AsyncGenerator<GitHubIssue> {
  const repository = repositoryOf(integration, fetch)
  const { octokit, owner, repo } = repository
  let next: string | null = null
  for (let page = 1; ; page += 1) {
    const link: string | null = next
    const { data, headers } = await integration.requestAs(
      Page,
      `repos/${owner}/${repo}/issues?page=${page}`,
      'GET',
      ({ signal }) =>
        link === null
          ? octokit.rest.issues.listForRepo({
              owner,
              repo,
              state: 'all',
              sort: 'updated',
              direction: 'desc',
              since,
              per_page: PAGE_SIZE,
              page,
              request: { signal },
            })
          : octokit.request(`GET ${link}`, { request: { signal } }),
      options,
    )
    for (const { pull_request: pullRequest, ...issue } of data) if (pullRequest === undefined) yield issue
    if (data.length < PAGE_SIZE) return
    next = nextPage(repository, headers.link)
  }
}

/** The `next` link (RFC 8288) if it stays on the API's own origin: page numbers are capped on long lists, links are not. */
function nextPage({ origin }: Repository, link: string | undefined): string | null {
  const found = /<([^>]+)>;\s*rel="next"/.exec(link ?? '')?.[1]
  if (found === undefined || !URL.canParse(found)) return null
  return new URL(found).origin === origin ? found : null
}
