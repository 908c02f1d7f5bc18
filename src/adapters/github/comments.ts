/** The comments of issues and pull requests. Rule: docs/behaviour/github.md, "Operations". */
import type { RestEndpointMethodTypes } from '@octokit/rest'
import { z } from 'zod'
import type { Integration, RequestOptions } from '../../provider.ts'
import { eachPage } from '../../provider.ts'
import type { GitHubComment, WithOriginal } from './data.ts'
import { AnsweredComment, GitHubRawComment } from './data.ts'
import { checkNumber, checkText, instantText } from './github-arguments.ts'
import { callGitHub, nullWhenGone } from './github-call.ts'
import type { Callback, Reading } from './pages.ts'
import { each, entriesOf, lastUpdateOf, MAX_PAGE_BYTES, PAGE_SIZE } from './pages.ts'
import { repositoryOf } from './repository.ts'

type Issues = RestEndpointMethodTypes['issues']

export class GitHubComments {
  readonly #integration: Integration

  constructor(integration: Integration) {
    this.#integration = integration
  }

  /** All comments of an issue or a pull request, oldest first. */
  list(number: number, options?: Reading): AsyncGenerator<WithOriginal<GitHubComment>>
  list(number: number, callback: Callback<WithOriginal<GitHubComment>>, options?: Reading): Promise<void>
  list(number: number, first?: Callback<WithOriginal<GitHubComment>> | Reading, second?: Reading) {
    return each((options) => this.#list(number, options), first, second)
  }

  /** Every comment of the repository updated at or after `since`, those of pull requests too, oldest update first, as GitHub sent it. */
  since(since: string | Date, options?: Reading): AsyncGenerator<GitHubRawComment>
  since(since: string | Date, callback: Callback<GitHubRawComment>, options?: Reading): Promise<void>
  since(since: string | Date, first?: Callback<GitHubRawComment> | Reading, second?: Reading) {
    return each((options) => this.#since(since, options), first, second)
  }

  /** Null: there is no such issue. */
  async add({
    number,
    body,
    ...options
  }: Pick<RequestOptions, 'idempotencyKey' | 'signal'> & {
    number: number
    body: string
  }): Promise<WithOriginal<GitHubComment> | null> {
    checkNumber(number)
    checkText('body', body)
    const repository = repositoryOf(this.#integration)
    const { owner, repo, path, endpoint } = repository
    const request = endpoint('POST /repos/{owner}/{repo}/issues/{issue_number}/comments', {
      owner,
      repo,
      issue_number: number,
      body,
    } satisfies Issues['createComment']['parameters'])
    const writes = { record: null, ifTold: true } as const
    const call = { endpoint: `${path}/issues/${number}/comments`, request, writes, ...options }
    return (await nullWhenGone(callGitHub(repository, AnsweredComment, call)))?.data ?? null
  }

  async *#list(number: number, options: Reading): AsyncGenerator<WithOriginal<GitHubComment>> {
    checkNumber(number)
    const repository = repositoryOf(this.#integration)
    const { owner, repo, path, endpoint } = repository
    yield* entriesOf(repository, AnsweredComment, {
      path: `${path}/issues/${number}/comments`,
      page: (page) =>
        endpoint('GET /repos/{owner}/{repo}/issues/{issue_number}/comments', {
          owner,
          repo,
          issue_number: number,
          per_page: PAGE_SIZE,
          page,
        } satisfies Issues['listComments']['parameters']),
      nextBy: 'number',
      endsWith: 'short page',
      ofIssue: true,
      ...options,
    })
  }

  async *#since(given: string | Date, options: Reading): AsyncGenerator<GitHubRawComment> {
    const pages = eachPage({
      first: { since: instantText('since', given), page: 1 },
      page: (at) => commentsPage(this.#integration, at, options),
      next: (comments, at) => behindComments(comments, at),
      items: (comments) => comments,
      ...options,
    })
    for await (const { items } of pages) yield* items
  }
}

/** Position in the comments of a repository: plain JSON, so that it can be stored. */
interface CommentsPosition {
  readonly since: string
  readonly page: number
}

/** A page of the comments of a repository, those of pull requests too, oldest update first, as GitHub sent them. */
export async function commentsPage(
  integration: Integration,
  { since, page }: CommentsPosition,
  options: Reading,
): Promise<GitHubRawComment[]> {
  const repository = repositoryOf(integration)
  const { owner, repo, path, endpoint } = repository
  const request = endpoint('GET /repos/{owner}/{repo}/issues/comments', {
    owner,
    repo,
    sort: 'updated',
    direction: 'asc',
    since,
    per_page: PAGE_SIZE,
    page,
  } satisfies Issues['listCommentsForRepo']['parameters'])
  const call = { endpoint: `${path}/issues/comments?page=${page}`, request, maxBytes: MAX_PAGE_BYTES, ...options }
  return (await callGitHub(repository, z.array(GitHubRawComment), call)).data
}

/** Beyond 10,000 entries of a list GitHub refuses page numbers: docs/decisions/0061-comments-by-update-time.md. */
const LAST_PAGE = 100

/**
 * The position of the next page; null: this was the last. The page behind the last number begins at the last update
 * time. Higher numbers are only for more than `LAST_PAGE` pages of one second, or of comments without a readable time.
 */
export function behindComments(
  comments: readonly GitHubRawComment[],
  { since, page }: CommentsPosition,
): CommentsPosition | null {
  if (comments.length < PAGE_SIZE) return null
  const last = page < LAST_PAGE ? null : lastUpdateOf(comments)
  if (last === null || last <= since) return { since, page: page + 1 }
  // Asked for from its last time, a page of one second would come once more.
  return { since: last, page: lastUpdateOf(comments.slice(0, 1)) === last ? 2 : 1 }
}
