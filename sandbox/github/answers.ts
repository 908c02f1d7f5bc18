import type { Dataset, SandboxComment, SandboxIssue, SandboxLabel, SandboxUser, TimelineEntry } from './dataset.ts'
import { fieldsBeside, wholeLine } from './other-events.ts'
import type { Answer } from './recorded.ts'
import {
  recordedIssue,
  recordedLabel,
  recordedOwner,
  recordedRepository,
  recordedSingleIssue,
  recordedUser,
} from './recorded.ts'
import type { BodyFormat } from './rendered-body.ts'
import { bodyFields } from './rendered-body.ts'

/**
 * Rows as GitHub writes them: each answer starts from a recorded one and replaces every value that is this row's own.
 * API addresses lead back to the sandbox, so that a client may follow them; pages for people stay on github.com.
 */
export interface AnswerContext {
  dataset: Dataset
  /** Origin the client reached us at, `http://127.0.0.1:4010`. */
  apiUrl: string
  format: BodyFormat
}

const WEB = 'https://github.com'

/** GitHub's first kind of node id: base64 of `0`, the length of the type's name, `:`, the type and the id. */
function nodeId(type: string, id: number): string {
  return Buffer.from(`0${type.length}:${type}${id}`).toString('base64')
}

export function issueEntry(issue: SandboxIssue, context: AnswerContext): Answer {
  return issueFrom(recordedIssue, issue, context)
}

export function singleIssue(issue: SandboxIssue, context: AnswerContext): Answer {
  return { ...issueFrom(recordedSingleIssue, issue, context), closed_by: userOrNull(issue.closedBy, context) }
}

function issueFrom(recorded: Answer, issue: SandboxIssue, context: AnswerContext): Answer {
  const { body: _, ...fields } = recorded
  const url = `${repositoryUrl(context)}/issues/${issue.number}`
  return {
    ...fields,
    url,
    repository_url: repositoryUrl(context),
    labels_url: `${url}/labels{/name}`,
    comments_url: `${url}/comments`,
    events_url: `${url}/events`,
    html_url: issuePage(issue, context),
    id: issue.id,
    node_id: nodeId(issue.pullRequest === null ? 'Issue' : 'PullRequest', issue.id),
    number: issue.number,
    title: issue.title,
    user: userOrNull(issue.user, context),
    labels: issue.labels.map((label) => labelAnswer(label, context)),
    state: issue.state,
    locked: false,
    assignee: userOrNull(issue.assignees[0] ?? null, context),
    assignees: issue.assignees.map((assignee) => userAnswer(assignee, context)),
    milestone: null,
    comments: context.dataset.commentsByIssue.get(issue.number)?.length ?? 0,
    created_at: issue.createdAt,
    updated_at: issue.updatedAt,
    closed_at: issue.closedAt,
    author_association: issue.user?.association ?? 'NONE',
    active_lock_reason: null,
    ...pullRequestFields(issue, context),
    ...bodyFields(issue.body, context.format),
    reactions: noReactions(url),
    timeline_url: `${url}/timeline`,
    performed_via_github_app: null,
    state_reason: issue.stateReason,
  }
}

/** None of the recorded issues is a pull request: these two keys come from the published description. */
function pullRequestFields(issue: SandboxIssue, context: AnswerContext): Answer {
  if (issue.pullRequest === null) return {}
  const page = issuePage(issue, context)
  return {
    draft: issue.pullRequest.isDraft,
    pull_request: {
      url: `${repositoryUrl(context)}/pulls/${issue.number}`,
      html_url: page,
      diff_url: `${page}.diff`,
      patch_url: `${page}.patch`,
      merged_at: issue.pullRequest.mergedAt,
    },
  }
}

export function commentAnswer(comment: SandboxComment, context: AnswerContext): Answer {
  const url = `${repositoryUrl(context)}/issues/comments/${comment.id}`
  const issue = context.dataset.issues[comment.issueNumber - 1] as SandboxIssue
  return {
    url,
    html_url: `${issuePage(issue, context)}#issuecomment-${comment.id}`,
    issue_url: `${repositoryUrl(context)}/issues/${comment.issueNumber}`,
    id: comment.id,
    node_id: nodeId('IssueComment', comment.id),
    user: userAnswer(comment.user, context),
    created_at: comment.createdAt,
    updated_at: comment.updatedAt,
    author_association: comment.user.association,
    ...bodyFields(comment.body, context.format),
    reactions: noReactions(url),
    performed_via_github_app: null,
  }
}

export function timelineAnswer(entry: TimelineEntry, context: AnswerContext): Answer {
  const actor = userAnswer(entry.actor, context)
  if ('comment' in entry) return { ...commentAnswer(entry.comment, context), event: 'commented', actor }
  const writer = {
    repositoryUrl: repositoryUrl(context),
    user: (user: SandboxUser) => userAnswer(user, context),
    entry: (issue: SandboxIssue) => issueEntry(issue, context),
  }
  const whole = 'about' in entry ? wholeLine(entry, writer) : null
  if (whole !== null) return whole
  return {
    id: entry.id,
    node_id: nodeId(`${entry.event.charAt(0).toUpperCase()}${entry.event.slice(1)}Event`, entry.id),
    url: `${repositoryUrl(context)}/issues/events/${entry.id}`,
    actor,
    event: entry.event,
    commit_id: null,
    commit_url: null,
    created_at: entry.createdAt,
    ...('about' in entry ? fieldsBeside(entry, writer) : changeFields(entry, context)),
    performed_via_github_app: null,
  }
}

function changeFields(
  entry: Exclude<TimelineEntry, { comment: unknown } | { about: unknown }>,
  context: AnswerContext,
): Answer {
  switch (entry.event) {
    case 'labeled':
    case 'unlabeled':
      return { label: { name: entry.label.name, color: entry.label.color } }
    case 'assigned':
    case 'unassigned':
      return { assignee: userAnswer(entry.assignee, context) }
    case 'renamed':
      return { rename: { from: entry.from, to: entry.to } }
    case 'closed':
    case 'reopened':
      return { state_reason: entry.stateReason }
  }
}

export function repositoryAnswer(context: AnswerContext): Answer {
  const { owner, repository, issues } = context.dataset
  const open = issues.filter((issue) => issue.state === 'open').length
  const updatedAt =
    issues
      .map((issue) => issue.updatedAt)
      .sort()
      .at(-1) ?? repository.createdAt
  const recordedName = String(recordedRepository.full_name)
  const renamed = Object.fromEntries(
    Object.entries(recordedRepository).map(([key, value]) => [
      key,
      typeof value === 'string' ? readdress(value, recordedName, `${owner.login}/${repository.name}`, context) : value,
    ]),
  )
  return {
    ...renamed,
    id: repository.id,
    node_id: nodeId('Repository', repository.id),
    name: repository.name,
    owner: ownerAnswer(context),
    organization: ownerAnswer(context),
    topics: ['sandbox', 'widgets'],
    created_at: repository.createdAt,
    updated_at: updatedAt,
    pushed_at: repository.createdAt,
    // Required by the published description since the recording was made.
    has_discussions: false,
    open_issues_count: open,
    open_issues: open,
  }
}

function ownerAnswer(context: AnswerContext): Answer {
  const { id, login } = context.dataset.owner
  return { ...account(recordedOwner, id, login, context), node_id: nodeId('Organization', id), type: 'Organization' }
}

/** GET /user has no recording: the simple user's fields are recorded, the rest follows the published `private-user`. */
export function viewerAnswer(context: AnswerContext): Answer {
  const { viewer, repository } = context.dataset
  return {
    ...userAnswer(viewer, context),
    name: 'Ada of the Sandbox',
    company: null,
    blog: '',
    location: null,
    email: null,
    hireable: null,
    bio: null,
    twitter_username: null,
    public_repos: 1,
    public_gists: 0,
    followers: 0,
    following: 0,
    created_at: repository.createdAt,
    updated_at: repository.createdAt,
    private_gists: 0,
    total_private_repos: 0,
    owned_private_repos: 0,
    disk_usage: 0,
    collaborators: 0,
    two_factor_authentication: true,
    plan: { name: 'free', space: 976_562_499, collaborators: 0, private_repos: 10_000 },
  }
}

function userOrNull(user: SandboxUser | null, context: AnswerContext): Answer | null {
  return user === null ? null : userAnswer(user, context)
}

// A page of 100 entries names users some 300 times.
const writtenUsers = new WeakMap<SandboxUser, { apiUrl: string; answer: Answer }>()

function userAnswer(user: SandboxUser, context: AnswerContext): Answer {
  const written = writtenUsers.get(user)
  if (written?.apiUrl === context.apiUrl) return written.answer
  const answer = account(recordedUser, user.id, user.login, context)
  writtenUsers.set(user, { apiUrl: context.apiUrl, answer })
  return answer
}

function account(recorded: Answer, id: number, login: string, context: AnswerContext): Answer {
  const recordedLogin = String(recorded.login)
  const fields = Object.entries(recorded).map(([key, value]) => [
    key,
    typeof value === 'string' ? readdress(value, recordedLogin, login, context) : value,
  ])
  return {
    ...(Object.fromEntries(fields) as Answer),
    id,
    node_id: nodeId('User', id),
    avatar_url: `https://avatars.githubusercontent.com/u/${id}?v=4`,
  }
}

function labelAnswer(label: SandboxLabel, context: AnswerContext): Answer {
  return {
    ...recordedLabel,
    id: label.id,
    node_id: nodeId('Label', label.id),
    url: `${repositoryUrl(context)}/labels/${encodeURIComponent(label.name)}`,
    name: label.name,
    color: label.color,
    default: label.isDefault,
    description: label.description,
  }
}

function noReactions(url: string): Answer {
  return { ...(recordedIssue.reactions as Answer), url: `${url}/reactions` }
}

function issuePage(issue: SandboxIssue, { dataset: { owner, repository } }: AnswerContext): string {
  const kind = issue.pullRequest === null ? 'issues' : 'pull'
  return `${WEB}/${owner.login}/${repository.name}/${kind}/${issue.number}`
}

function repositoryUrl({ apiUrl, dataset: { owner, repository } }: AnswerContext): string {
  return `${apiUrl}/repos/${owner.login}/${repository.name}`
}

function readdress(value: string, recordedName: string, name: string, context: AnswerContext): string {
  return value.replace(recordedName, name).replace(/^https:\/\/api\.github\.com/, context.apiUrl)
}
