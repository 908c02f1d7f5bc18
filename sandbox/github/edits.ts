import type { Dataset, SandboxComment, SandboxIssue, SandboxLabel, SandboxUser, StateReason } from './dataset.ts'
import { appendComment, FIRST_ISSUE_ID, moment, record, seedIssue } from './dataset.ts'
import { OTHER_EVENTS } from './other-event-kinds.ts'

/** What `POST` and `PATCH` of an issue may set. A key that is absent leaves its field alone. */
export interface IssueEdit {
  title?: string
  body?: string | null
  state?: 'open' | 'closed'
  stateReason?: StateReason | null
  /** Names; one the repository does not have is created, as GitHub does. */
  labels?: string[]
  /** Logins; unknown ones must have been refused before. */
  assignees?: string[]
}

export function openIssue(dataset: Dataset, edit: IssueEdit & { title: string }, now: Date): SandboxIssue {
  const at = moment(now)
  const number = dataset.issues.length + 1
  const issue: SandboxIssue = {
    id: FIRST_ISSUE_ID + number,
    number,
    title: edit.title,
    body: edit.body ?? null,
    state: 'open',
    stateReason: null,
    user: dataset.viewer,
    labels: [],
    assignees: [],
    pullRequest: null,
    createdAt: at,
    updatedAt: at,
    closedAt: null,
    closedBy: null,
  }
  dataset.issues.push(issue)
  relabel(dataset, issue, edit.labels, at)
  reassign(dataset, issue, edit.assignees, at)
  dataset.version++
  return issue
}

/** Applies what differs, with its timeline. An edit that changes nothing leaves `updated_at` alone. */
export function editIssue(dataset: Dataset, issue: SandboxIssue, edit: IssueEdit, now: Date): void {
  const at = moment(now)
  const changes = [
    rename(dataset, issue, edit.title, at),
    rewrite(issue, edit.body),
    changeState(dataset, issue, edit, at),
    relabel(dataset, issue, edit.labels, at),
    reassign(dataset, issue, edit.assignees, at),
  ]
  if (!changes.includes(true)) return
  issue.updatedAt = at
  dataset.version++
}

export function comment(dataset: Dataset, issue: SandboxIssue, body: string, now: Date): SandboxComment {
  const added = appendComment(dataset, issue, dataset.viewer, body, moment(now))
  issue.updatedAt = added.createdAt
  dataset.version++
  return added
}

/** Moves the `updated_at` of the issues that were updated longest ago to now, as if each had been edited. */
export function touchOldest(dataset: Dataset, count: number, now: Date): SandboxIssue[] {
  const oldest = [...dataset.issues]
    .sort((a, b) => (a.updatedAt < b.updatedAt ? -1 : a.updatedAt > b.updatedAt ? 1 : a.number - b.number))
    .slice(0, count)
  for (const issue of oldest) issue.updatedAt = moment(now)
  dataset.version++
  return oldest
}

/** One line of each kind that nothing else here writes; what is referred from is the entry before, the last one for the first. */
export function recordOthers(dataset: Dataset, issue: SandboxIssue, now: Date): void {
  const about = dataset.issues.at(issue.number - 2) ?? issue
  for (const event of OTHER_EVENTS) record(dataset, issue, dataset.viewer, moment(now), { event, about })
  issue.updatedAt = moment(now)
  dataset.version++
}

/** Adds entries of the seed's kind (every eighth a pull request), created now. */
export function addIssues(dataset: Dataset, count: number, now: Date): SandboxIssue[] {
  return Array.from({ length: count }, () => seedIssue(dataset, now.getTime(), now.getTime()))
}

function rename(dataset: Dataset, issue: SandboxIssue, title: string | undefined, at: string): boolean {
  if (title === undefined || title === issue.title) return false
  record(dataset, issue, dataset.viewer, at, { event: 'renamed', from: issue.title, to: title })
  issue.title = title
  return true
}

function rewrite(issue: SandboxIssue, body: string | null | undefined): boolean {
  if (body === undefined || body === issue.body) return false
  issue.body = body
  return true
}

/** `state_reason` is ignored unless the state changes; a pull request has none. */
function changeState(dataset: Dataset, issue: SandboxIssue, edit: IssueEdit, at: string): boolean {
  if (edit.state === undefined || edit.state === issue.state) return false
  const isClosing = edit.state === 'closed'
  const reason = isClosing ? (edit.stateReason ?? 'completed') : 'reopened'
  issue.state = edit.state
  issue.stateReason = issue.pullRequest === null ? reason : null
  issue.closedAt = isClosing ? at : null
  issue.closedBy = isClosing ? dataset.viewer : null
  const event = isClosing ? 'closed' : 'reopened'
  record(dataset, issue, dataset.viewer, at, { event, stateReason: isClosing ? issue.stateReason : null })
  return true
}

function relabel(dataset: Dataset, issue: SandboxIssue, names: string[] | undefined, at: string): boolean {
  if (names === undefined) return false
  const wanted = [...new Set(names)].map((name) => labelNamed(dataset, name))
  const added = wanted.filter((label) => !issue.labels.includes(label))
  const removed = issue.labels.filter((label) => !wanted.includes(label))
  for (const label of added) record(dataset, issue, dataset.viewer, at, { event: 'labeled', label })
  for (const label of removed) record(dataset, issue, dataset.viewer, at, { event: 'unlabeled', label })
  issue.labels = wanted
  return added.length + removed.length > 0
}

function reassign(dataset: Dataset, issue: SandboxIssue, logins: string[] | undefined, at: string): boolean {
  if (logins === undefined) return false
  const wanted = dataset.users.filter((user) => logins.includes(user.login))
  const added = wanted.filter((user) => !issue.assignees.includes(user))
  const removed = issue.assignees.filter((user) => !wanted.includes(user))
  for (const assignee of added) record(dataset, issue, dataset.viewer, at, { event: 'assigned', assignee })
  for (const assignee of removed) record(dataset, issue, dataset.viewer, at, { event: 'unassigned', assignee })
  issue.assignees = wanted
  return added.length + removed.length > 0
}

function labelNamed(dataset: Dataset, name: string): SandboxLabel {
  const existing = dataset.labels.find((label) => label.name.toLowerCase() === name.toLowerCase())
  if (existing !== undefined) return existing
  const id = 8_000_001 + dataset.labels.length
  const created: SandboxLabel = { id, name, color: 'ededed', description: null, isDefault: false }
  dataset.labels.push(created)
  return created
}

export function userNamed(dataset: Dataset, login: string): SandboxUser | undefined {
  return dataset.users.find((user) => user.login === login)
}
