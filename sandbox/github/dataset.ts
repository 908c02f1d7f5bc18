/**
 * The repository the sandbox serves: seeded by nothing but indexes, so that two sandboxes hold the same rows.
 *
 * Entry n of the seed is a pull request when n is a multiple of 8, closed when it is a multiple of 3, and was last
 * updated ten minutes after entry n-1, but for each tenth entry, which shares its predecessor's moment: a cursor has to
 * cope with equal times. Moments are ISO 8601 to the second in UTC, as GitHub's are, so they order as strings.
 */

import type { OtherEvent } from './other-event-kinds.ts'

export interface SandboxUser {
  id: number
  login: string
  association: 'OWNER' | 'MEMBER' | 'CONTRIBUTOR' | 'NONE'
}

export interface SandboxLabel {
  id: number
  name: string
  color: string
  description: string | null
  isDefault: boolean
}

export type StateReason = 'completed' | 'not_planned' | 'duplicate' | 'reopened'

export interface SandboxIssue {
  id: number
  number: number
  title: string
  body: string | null
  state: 'open' | 'closed'
  stateReason: StateReason | null
  /** Null: the account was deleted. */
  user: SandboxUser | null
  labels: SandboxLabel[]
  assignees: SandboxUser[]
  pullRequest: { isDraft: boolean; mergedAt: string | null } | null
  createdAt: string
  updatedAt: string
  closedAt: string | null
  closedBy: SandboxUser | null
}

export interface SandboxComment {
  id: number
  issueNumber: number
  user: SandboxUser
  body: string
  createdAt: string
  updatedAt: string
}

export type TimelineChange =
  | { event: 'labeled' | 'unlabeled'; label: SandboxLabel }
  | { event: 'assigned' | 'unassigned'; assignee: SandboxUser }
  | { event: 'renamed'; from: string; to: string }
  | { event: 'closed' | 'reopened'; stateReason: StateReason | null }
  | { event: 'commented'; comment: SandboxComment }
  | { event: OtherEvent; about: SandboxIssue }

export type TimelineEntry = TimelineChange & { id: number; actor: SandboxUser; createdAt: string }

export interface Dataset {
  owner: { id: number; login: string }
  repository: { id: number; name: string; createdAt: string }
  /** The user whom the token belongs to. */
  viewer: SandboxUser
  users: SandboxUser[]
  labels: SandboxLabel[]
  /** By number: issue n is at n - 1, numbers have no gaps. */
  issues: SandboxIssue[]
  /** By id, ascending. */
  comments: SandboxComment[]
  commentsByIssue: Map<number, SandboxComment[]>
  timelines: Map<number, TimelineEntry[]>
  nextEventId: number
  /** Grows with each edit: what was sorted from an earlier version is stale. */
  version: number
}

export interface DatasetOptions {
  owner?: string
  name?: string
  /** Issues and pull requests together. */
  entries?: number
}

const FIRST_CREATED_AT = Date.UTC(2020, 0, 1)
const FIRST_UPDATED_AT = Date.UTC(2020, 5, 1)
// Ten minutes an entry: 300,000 entries still end in the past.
const MINUTE = 60_000
const HOUR = 60 * MINUTE

// Above 2^31, as GitHub's own are by now: a 32-bit column for them must fail here, not in production.
export const FIRST_ISSUE_ID = 3_000_000_000
const FIRST_COMMENT_ID = 3_500_000_000
const FIRST_EVENT_ID = 20_000_000_000

const USERS: SandboxUser[] = [
  { id: 9_000_001, login: 'octo-ada', association: 'MEMBER' },
  { id: 9_000_002, login: 'octo-barbara', association: 'MEMBER' },
  { id: 9_000_003, login: 'octo-edsger', association: 'CONTRIBUTOR' },
  { id: 9_000_004, login: 'octo-grace', association: 'MEMBER' },
  { id: 9_000_005, login: 'octo-tony', association: 'NONE' },
]

const LABELS: SandboxLabel[] = [
  { id: 8_000_001, name: 'bug', color: 'd73a4a', description: "Something isn't working", isDefault: true },
  { id: 8_000_002, name: 'documentation', color: '0075ca', description: 'Improvements or additions', isDefault: true },
  { id: 8_000_003, name: 'enhancement', color: 'a2eeef', description: 'New feature or request', isDefault: true },
  { id: 8_000_004, name: 'area: gears', color: 'ededed', description: null, isDefault: false },
  { id: 8_000_005, name: 'priority/high', color: 'b60205', description: 'Next in line', isDefault: false },
]

const PARTS = ['gear', 'sprocket', 'flange', 'spindle', 'bearing', 'cam', 'ratchet'] as const
const COMPLAINTS = [
  'rattles at speed',
  'has no tolerance table',
  'wears out early',
  'is mislabelled',
  'needs a spare',
] as const

export function createDataset({
  owner = 'octo-sandbox',
  name = 'widgets',
  entries = 340,
}: DatasetOptions = {}): Dataset {
  const dataset: Dataset = {
    owner: { id: 7_000_001, login: owner },
    repository: { id: 600_000_001, name, createdAt: moment(FIRST_CREATED_AT) },
    viewer: pick(USERS, 0),
    users: USERS,
    labels: [...LABELS],
    issues: [],
    comments: [],
    commentsByIssue: new Map(),
    timelines: new Map(),
    nextEventId: FIRST_EVENT_ID,
    version: 0,
  }
  for (let number = 1; number <= entries; number++) {
    const step = number % 10 === 0 ? number - 1 : number
    seedIssue(dataset, FIRST_CREATED_AT + number * 10 * MINUTE, FIRST_UPDATED_AT + step * 10 * MINUTE)
  }
  return dataset
}

/** Adds the next entry with its labels, assignees, comments and history. All of it lies between the two moments. */
export function seedIssue(dataset: Dataset, createdAtMs: number, updatedAtMs: number): SandboxIssue {
  const number = dataset.issues.length + 1
  const isPullRequest = number % 8 === 0
  const isClosed = number % 3 === 0
  const closedAt = isClosed ? moment(Math.min(createdAtMs + HOUR, updatedAtMs)) : null
  const closedBy = isClosed ? pick(dataset.users, number + 1) : null
  const part = pick(PARTS, number)
  const issue: SandboxIssue = {
    id: FIRST_ISSUE_ID + number,
    number,
    title: isPullRequest ? `Replace the ${part} (${number})` : `The ${part} ${pick(COMPLAINTS, number)} (${number})`,
    body: bodyOf(number, part),
    state: isClosed ? 'closed' : 'open',
    stateReason: isClosed && !isPullRequest ? (number % 2 === 0 ? 'not_planned' : 'completed') : null,
    user: number % 97 === 13 ? null : pick(dataset.users, number),
    labels: LABELS.filter((_, index) => (number + index) % 4 === 0),
    assignees: dataset.users.filter((_, index) => number % 5 !== 0 && (number + index) % 7 === 0),
    pullRequest: isPullRequest ? { isDraft: number % 32 === 0, mergedAt: isClosed ? closedAt : null } : null,
    createdAt: moment(createdAtMs),
    updatedAt: moment(updatedAtMs),
    closedAt,
    closedBy,
  }
  dataset.issues.push(issue)
  const actor = issue.user ?? dataset.viewer
  for (const label of issue.labels) record(dataset, issue, actor, issue.createdAt, { event: 'labeled', label })
  for (const assignee of issue.assignees)
    record(dataset, issue, actor, issue.createdAt, { event: 'assigned', assignee })
  if (closedAt !== null && closedBy !== null) {
    record(dataset, issue, closedBy, closedAt, { event: 'closed', stateReason: issue.stateReason })
  }
  const comments = number % 4
  for (let index = 1; index <= comments; index++) {
    const author = pick(dataset.users, number + index)
    const at = Math.max(createdAtMs, updatedAtMs - (comments - index) * MINUTE)
    appendComment(dataset, issue, author, `Comment ${index} on the ${part}: seen with batch ${number}.`, moment(at))
  }
  dataset.version++
  return issue
}

export function appendComment(
  dataset: Dataset,
  issue: SandboxIssue,
  user: SandboxUser,
  body: string,
  at: string,
): SandboxComment {
  const id = FIRST_COMMENT_ID + dataset.comments.length + 1
  const comment: SandboxComment = { id, issueNumber: issue.number, user, body, createdAt: at, updatedAt: at }
  dataset.comments.push(comment)
  listAt(dataset.commentsByIssue, issue.number).push(comment)
  record(dataset, issue, user, at, { event: 'commented', comment })
  return comment
}

/** Writes one line of an issue's timeline. */
export function record(
  dataset: Dataset,
  issue: SandboxIssue,
  actor: SandboxUser,
  at: string,
  change: TimelineChange,
): void {
  listAt(dataset.timelines, issue.number).push({ ...change, id: ++dataset.nextEventId, actor, createdAt: at })
}

export function moment(at: number | Date): string {
  return `${new Date(at).toISOString().slice(0, 19)}Z`
}

/** Some bodies are empty, some hold an image or an attachment, so that a reader of rendered bodies finds each kind. */
function bodyOf(number: number, part: string): string | null {
  if (number % 17 === 0) return null
  const text = `The ${part} of batch ${number} is not as the drawing says.\n\nTolerance < 0.1 mm & "no play" wanted.`
  if (number % 20 === 5) return `${text}\n\n![${part} photo](https://images.example.com/${part}-${number}.png)`
  if (number % 20 === 10)
    return `${text}\n\n![scan](https://github.com/user-attachments/assets/${attachmentId(number)})`
  if (number % 20 === 15)
    return `${text}\n\n[drawing.pdf](https://github.com/user-attachments/files/${number}/drawing.pdf)`
  return text
}

function attachmentId(number: number): string {
  return `5a0d80c5-0000-4000-8000-${String(number).padStart(12, '0')}`
}

function listAt<T>(lists: Map<number, T[]>, key: number): T[] {
  const existing = lists.get(key)
  if (existing !== undefined) return existing
  const created: T[] = []
  lists.set(key, created)
  return created
}

function pick<T>(values: readonly T[], index: number): T {
  return values[index % values.length] as T
}
