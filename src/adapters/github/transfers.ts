/**
 * An issue that was transferred to another repository. Rule: docs/behaviour/github.md, "What is not there".
 *
 * GitHub redirects a transferred issue, and any path below a repository's old name, to the new address with the repository's id: https://docs.github.com/en/rest/issues/issues#get-an-issue,
 * https://docs.github.com/en/rest/using-the-rest-api/best-practices-for-using-the-rest-api#follow-redirects
 */
import type { RestEndpointMethodTypes } from '@octokit/rest'
import { z } from 'zod'
import { IntegrationsError } from '../../provider.ts'
import type { GitHubCall } from './github-call.ts'
import { callGitHub } from './github-call.ts'
import type { Repository } from './repository.ts'

/** The issue was transferred to another repository. */
export class GitHubIssueTransferred extends IntegrationsError {
  override readonly code = 'github_issue_transferred'
  constructor(
    readonly repository: string,
    /** Its present path in the API. */
    readonly movedTo: string,
  ) {
    super(
      `${repository} has the issue no longer: GitHub redirects to ${movedTo}, in another repository. Issues of the integration's own repository are allowed.`,
    )
  }
}

const Repo = z.looseObject({ id: z.number().int(), full_name: z.string() })

/**
 * Whether an answer is of the integration's repository. Without a redirect it is. Otherwise one request asks for the repository's id:
 * a redirect from the old name of a renamed repository leads to the same id.
 *
 * @param redirectedTo the address of the answer; null: there was no redirect
 * @throws errors of `request()`
 */
export async function isOfRepository(
  repository: Repository,
  redirectedTo: URL | null,
  { signal }: Pick<GitHubCall, 'signal'>,
): Promise<boolean> {
  if (redirectedTo === null) return true
  const { owner, repo, path, endpoint } = repository
  const request = endpoint('GET /repos/{owner}/{repo}', {
    owner,
    repo,
  } satisfies RestEndpointMethodTypes['repos']['get']['parameters'])
  const call = { endpoint: path, request, ...(signal === undefined ? {} : { signal }) }
  const { data } = await callGitHub(repository, Repo, call)
  const { origin, pathname } = redirectedTo
  const own = [`/repositories/${data.id}/issues/`, `/repos/${data.full_name}/issues/`]
  return origin === repository.origin && own.some((place) => pathname.toLowerCase().includes(place.toLowerCase()))
}

/** @throws GitHubIssueTransferred; errors of `request()` */
export async function checkOfRepository(
  repository: Repository,
  redirectedTo: URL | null,
  options: Pick<GitHubCall, 'signal'>,
): Promise<void> {
  if (await isOfRepository(repository, redirectedTo, options)) return
  throw new GitHubIssueTransferred(repository.path, redirectedTo?.pathname ?? '')
}
