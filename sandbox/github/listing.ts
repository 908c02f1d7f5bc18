import type { Dataset, SandboxComment, SandboxIssue } from './dataset.ts'
import type { FieldError } from './failures.ts'
import { validationFailed } from './failures.ts'

const ISSUES = '/repos/{owner}/{repo}/issues'
const COMMENTS = '/repos/{owner}/{repo}/issues/comments'

// A client that pages through a long list asks for the same order again and again.
const lastListed = new WeakMap<Dataset, { version: number; key: string; issues: SandboxIssue[] }>()

/** Issues and pull requests of a query, in order. Equal moments are ordered by number, in the same direction. */
export function listIssues(dataset: Dataset, query: URLSearchParams): SandboxIssue[] {
  const errors: FieldError[] = []
  const state = oneOf(query, 'state', ['open', 'closed', 'all'], 'open', errors)
  const sort = oneOf(query, 'sort', ['created', 'updated', 'comments'], 'created', errors)
  const direction = oneOf(query, 'direction', ['asc', 'desc'], 'desc', errors)
  const since = sinceMs(query, errors)
  if (errors.length > 0) throw validationFailed(errors, 'GET', ISSUES)
  const creator = query.get('creator')
  const assignee = query.get('assignee')
  const labels = query.get('labels')?.toLowerCase().split(',').filter(Boolean) ?? []

  const key = JSON.stringify([state, sort, direction, since, creator, assignee, labels])
  const last = lastListed.get(dataset)
  if (last?.version === dataset.version && last.key === key) return last.issues
  const rank = (issue: SandboxIssue): string | number =>
    sort === 'comments'
      ? (dataset.commentsByIssue.get(issue.number)?.length ?? 0)
      : sort === 'updated'
        ? issue.updatedAt
        : issue.createdAt
  const issues = dataset.issues
    .filter((issue) => state === 'all' || issue.state === state)
    .filter((issue) => since === null || Date.parse(issue.updatedAt) >= since)
    .filter((issue) => creator === null || issue.user?.login === creator)
    .filter((issue) => isAssigned(issue, assignee))
    .filter((issue) => labels.every((name) => issue.labels.some((label) => label.name.toLowerCase() === name)))
    .sort((a, b) => order(rank(a), rank(b)) || a.number - b.number)
  if (direction === 'desc') issues.reverse()
  lastListed.set(dataset, { version: dataset.version, key, issues })
  return issues
}

/** Comments of the whole repository: by ascending id, unless `sort` is given. */
export function listComments(dataset: Dataset, query: URLSearchParams): SandboxComment[] {
  const errors: FieldError[] = []
  const sort = oneOf(query, 'sort', ['created', 'updated'], 'created', errors)
  const direction = oneOf(query, 'direction', ['asc', 'desc'], 'desc', errors)
  const comments = commentsSince(dataset.comments, sinceMs(query, errors))
  if (errors.length > 0) throw validationFailed(errors, 'GET', COMMENTS)
  if (!query.has('sort')) return comments
  const moment = (comment: SandboxComment): string => (sort === 'updated' ? comment.updatedAt : comment.createdAt)
  comments.sort((a, b) => order(moment(a), moment(b)) || a.id - b.id)
  return direction === 'desc' ? comments.reverse() : comments
}

export function listIssueComments(dataset: Dataset, issue: SandboxIssue, query: URLSearchParams): SandboxComment[] {
  const errors: FieldError[] = []
  const comments = commentsSince(dataset.commentsByIssue.get(issue.number) ?? [], sinceMs(query, errors))
  if (errors.length > 0) throw validationFailed(errors, 'GET', COMMENTS)
  return comments
}

function commentsSince(comments: SandboxComment[], since: number | null): SandboxComment[] {
  return comments.filter((comment) => since === null || Date.parse(comment.updatedAt) >= since)
}

function isAssigned(issue: SandboxIssue, wanted: string | null): boolean {
  if (wanted === null) return true
  if (wanted === 'none') return issue.assignees.length === 0
  if (wanted === '*') return issue.assignees.length > 0
  return issue.assignees.some((assignee) => assignee.login === wanted)
}

function oneOf<T extends string>(
  query: URLSearchParams,
  field: string,
  allowed: readonly T[],
  otherwise: T,
  errors: FieldError[],
): T {
  const value = query.get(field)
  if (value === null || value === '') return otherwise
  const found = allowed.find((candidate) => candidate === value)
  if (found === undefined) errors.push({ resource: 'Issue', field, code: 'invalid', value })
  return found ?? otherwise
}

/** `since` is inclusive: what was updated at that very moment is listed. */
function sinceMs(query: URLSearchParams, errors: FieldError[]): number | null {
  const value = query.get('since')
  if (value === null || value === '') return null
  const parsed = Date.parse(value)
  if (Number.isNaN(parsed)) errors.push({ resource: 'Issue', field: 'since', code: 'invalid', value })
  return parsed
}

function order(a: string | number, b: string | number): number {
  return a < b ? -1 : a > b ? 1 : 0
}
