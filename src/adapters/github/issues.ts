/** The issues of a repository. Rule: docs/behaviour/github.md, "Operations". */
import type { RestEndpointMethodTypes } from '@octokit/rest'
import type { HttpError, Integration, RequestOptions } from '../../provider.ts'
import { IntegrationsError, InvalidArgumentException, isIntegrationsError } from '../../provider.ts'
import type { GitHubIssue, WithOriginal } from './data.ts'
import { AnsweredIssue } from './data.ts'
import { checkBody, checkNumber, checkOneOf, checkText, checkTexts, instantText } from './github-arguments.ts'
import { callGitHub, nullWhenGone } from './github-call.ts'
import type { Callback, GitHubList, Page, PagePosition, Reading } from './pages.ts'
import { each, entriesBy, PAGE_SIZE, pageAt } from './pages.ts'
import { issueKey } from './records.ts'
import { repositoryOf } from './repository.ts'
import type { GitHubTimelineEvent } from './timeline.ts'
import { timelineOf } from './timeline.ts'
import { isOfRepository } from './transfers.ts'

type Issues = RestEndpointMethodTypes['issues']
type Writing = Pick<RequestOptions, 'idempotencyKey' | 'signal'>

/** Why an issue has its state: `state_reason`. https://docs.github.com/en/rest/issues/issues#update-an-issue */
export const GitHubIssueStateReason = {
  Completed: 'completed',
  NotPlanned: 'not_planned',
  Duplicate: 'duplicate',
  Reopened: 'reopened',
} as const
export type GitHubIssueStateReason = (typeof GitHubIssueStateReason)[keyof typeof GitHubIssueStateReason]

export const CLOSE_REASONS = ['completed', 'not_planned', 'duplicate'] as const
export type CloseReason = (typeof CLOSE_REASONS)[number]

export class GitHubIssues {
  readonly #integration: Integration

  constructor(integration: Integration) {
    this.#integration = integration
  }

  /** @throws GitHubLabelsNotPermitted, InvalidArgumentException; errors of `request()` */
  async create({
    title,
    body,
    labels,
    ...options
  }: Writing & { title: string; body?: string | null; labels?: readonly string[] | null }): Promise<
    WithOriginal<GitHubIssue>
  > {
    checkText('title', title)
    if (isGiven(body)) checkBody(body)
    if (isGiven(labels)) checkTexts('labels', labels)
    const repository = repositoryOf(this.#integration)
    const { owner, repo, path, endpoint } = repository
    const request = endpoint('POST /repos/{owner}/{repo}/issues', {
      owner,
      repo,
      title,
      ...(isGiven(body) ? { body } : {}),
      ...(isGiven(labels) ? { labels: [...labels] } : {}),
    } satisfies Issues['create']['parameters'])
    try {
      const { data } = await callGitHub(repository, AnsweredIssue, {
        endpoint: `${path}/issues`,
        request,
        writes: { record: null, ifTold: true },
        ...options,
      })
      return data
    } catch (error) {
      if (isLabelPermissionError(error)) throw new GitHubLabelsNotPermitted(labels ?? [], { cause: error })
      throw error
    }
  }

  /** A pull request has `pull_request`. Null: it does not exist, or was transferred to another repository. */
  async get(number: number, options: Reading = {}): Promise<WithOriginal<GitHubIssue> | null> {
    checkNumber(number)
    const repository = repositoryOf(this.#integration)
    const { owner, repo, path, endpoint } = repository
    const request = endpoint('GET /repos/{owner}/{repo}/issues/{issue_number}', {
      owner,
      repo,
      issue_number: number,
    } satisfies Issues['get']['parameters'])
    const call = callGitHub(repository, AnsweredIssue, { endpoint: `${path}/issues/${number}`, request, ...options })
    const answer = await nullWhenGone(call)
    // GitHub redirects to a transferred issue, mostly with another number. Then the repository need not be checked.
    if (answer === null || answer.data.number !== number) return null
    return (await isOfRepository(repository, answer.redirectedTo, options)) ? answer.data : null
  }

  /**
   * Every issue updated at or after `since`, pull requests left out.
   *
   * Newest update first: an issue that is updated while the pages are read moves to the front and repeats at most; sorted
   * the other way, a later page would skip one. The end is judged by what GitHub sent, before pull requests are dropped.
   */
  since(since: string | Date, options?: Reading): AsyncGenerator<WithOriginal<GitHubIssue>>
  since(since: string | Date, callback: Callback<WithOriginal<GitHubIssue>>, options?: Reading): Promise<void>
  since(since: string | Date, first?: Callback<WithOriginal<GitHubIssue>> | Reading, second?: Reading) {
    return each((options) => this.#since(since, options), first, second)
  }

  /** Closes it with a reason. Null: there is no such issue. */
  async close({
    number,
    stateReason,
    ...options
  }: Writing & { number: number; stateReason: CloseReason }): Promise<WithOriginal<GitHubIssue> | null> {
    checkNumber(number)
    checkOneOf('stateReason', CLOSE_REASONS, stateReason)
    return this.#edit(number, { state: 'closed', state_reason: stateReason }, options)
  }

  /** Null: there is no such issue. */
  async reopen({ number, ...options }: Writing & { number: number }): Promise<WithOriginal<GitHubIssue> | null> {
    checkNumber(number)
    return this.#edit(number, { state: 'open', state_reason: 'reopened' }, options)
  }

  /** At least one of title and body; an empty body is one. Null: there is no such issue. */
  async update({
    number,
    title,
    body,
    ...options
  }: Writing & {
    number: number
    title?: string | null
    body?: string | null
  }): Promise<WithOriginal<GitHubIssue> | null> {
    checkNumber(number)
    if (isGiven(title)) checkText('title', title)
    if (isGiven(body)) checkBody(body)
    if (!isGiven(title) && !isGiven(body))
      throw new InvalidArgumentException('title', 'at least one of title and body is needed; given was neither')
    return this.#edit(number, { ...(isGiven(title) ? { title } : {}), ...(isGiven(body) ? { body } : {}) }, options)
  }

  /** What happened to the issue, oldest first. */
  timeline(number: number, options?: Reading): AsyncGenerator<GitHubTimelineEvent>
  timeline(number: number, callback: Callback<GitHubTimelineEvent>, options?: Reading): Promise<void>
  timeline(number: number, first?: Callback<GitHubTimelineEvent> | Reading, second?: Reading) {
    return each((options) => timelineOf(this.#integration, number, options), first, second)
  }

  async *#since(since: string | Date, options: Reading): AsyncGenerator<WithOriginal<GitHubIssue>> {
    for await (const issue of entriesBy((at) => issuePage(this.#integration, since, at, options), options))
      if (issue.pull_request === undefined) yield issue
  }

  async #edit(
    number: number,
    edit: Pick<Issues['update']['parameters'] & object, 'title' | 'body' | 'state' | 'state_reason'>,
    options: Writing,
  ): Promise<WithOriginal<GitHubIssue> | null> {
    const repository = repositoryOf(this.#integration)
    const { owner, repo, path, endpoint } = repository
    const request = endpoint('PATCH /repos/{owner}/{repo}/issues/{issue_number}', {
      owner,
      repo,
      issue_number: number,
      ...edit,
    } satisfies Issues['update']['parameters'])
    const writes = { record: issueKey(number), ifTold: true } as const
    const call = { endpoint: `${path}/issues/${number}`, request, writes, ...options }
    return (await nullWhenGone(callGitHub(repository, AnsweredIssue, call)))?.data ?? null
  }
}

function isGiven<T>(value: T | null | undefined): value is T {
  return value !== null && value !== undefined
}

/** A page of {@link GitHubIssues.since}, with its pull requests, so that an interrupted listing can go on at a page. */
export async function issuePage(
  integration: Integration,
  given: string | Date,
  at: PagePosition,
  options: Reading,
): Promise<Page<WithOriginal<GitHubIssue>>> {
  const since = instantText('since', given)
  const repository = repositoryOf(integration)
  const { owner, repo, path, endpoint } = repository
  const list = {
    path: `${path}/issues`,
    page: (page: number) =>
      endpoint('GET /repos/{owner}/{repo}/issues', {
        owner,
        repo,
        state: 'all',
        sort: 'updated',
        direction: 'desc',
        since,
        per_page: PAGE_SIZE,
        page,
      } satisfies Issues['listForRepo']['parameters']),
    nextBy: 'link',
    endsWith: 'short page',
    ...options,
  } satisfies GitHubList
  return pageAt(repository, AnsweredIssue, list, at)
}

/** The token may open issues, but not with labels that the repository does not have yet. */
export class GitHubLabelsNotPermitted extends IntegrationsError {
  override readonly code = 'github_labels_not_permitted'
  constructor(
    readonly labels: readonly string[],
    options?: { cause?: unknown },
  ) {
    super(
      `GitHub opened no issue: the token must not create labels in this repository, and one of these would be new: ${labels.join(', ')}. Labels that exist are allowed, and so is a token with write access.`,
      options,
    )
  }
}

/** As GitHub answers it: 403 with `errors: [{resource: "Repository", field: "label", code: "unauthorized"}]`. */
function isLabelPermissionError(error: unknown): boolean {
  if (!isIntegrationsError(error, 'http_error')) return false
  const { status, body } = error as HttpError
  const errors = typeof body === 'object' && body !== null ? (body as { errors?: unknown }).errors : undefined
  if ((status !== 403 && status !== 422) || !Array.isArray(errors)) return false
  return errors.some((entry: { field?: unknown; code?: unknown } | null) => {
    return entry?.field === 'label' && entry.code === 'unauthorized'
  })
}
