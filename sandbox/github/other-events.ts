/** Lines of a timeline that nothing in the sandbox does by itself: one of each kind is written on order. */
import { createHash } from 'node:crypto'
import type { SandboxIssue, SandboxUser } from './dataset.ts'
import type { OtherEvent } from './other-event-kinds.ts'
import type { Answer } from './recorded.ts'

/** What stands in the way of the general fields, or beside them. */
export interface OtherLine {
  event: OtherEvent
  actor: SandboxUser
  createdAt: string
  id: number
  about: SandboxIssue
}

interface Writer {
  /** Origin of the API, then the repository's path. */
  repositoryUrl: string
  user: (user: SandboxUser) => Answer
  entry: (issue: SandboxIssue) => Answer
}

/** Beside the general fields. */
export function fieldsBeside(line: OtherLine, write: Writer): Answer {
  switch (line.event) {
    case 'milestoned':
    case 'demilestoned':
      return { milestone: { title: 'Second batch' } }
    case 'locked':
      return { lock_reason: 'too heated' }
    case 'review_requested':
      return { review_requester: write.user(line.actor), requested_reviewer: write.user(line.actor) }
    case 'review_dismissed':
      return { dismissed_review: { state: 'approved', review_id: line.id + 1, dismissal_message: 'Outdated.' } }
    default:
      return {}
  }
}

/** The whole line of those that have none of the general fields; null for all others. */
export function wholeLine({ event, actor, createdAt, id, about }: OtherLine, write: Writer): Answer | null {
  if (event === 'cross-referenced') {
    const source = { type: 'issue', issue: write.entry(about) }
    return { event, actor: write.user(actor), created_at: createdAt, updated_at: createdAt, source }
  }
  if (event === 'committed') {
    const sha = createHash('sha1').update(String(id)).digest('hex')
    const tree = createHash('sha1').update(`tree ${id}`).digest('hex')
    const person = { name: actor.login, email: `${actor.login}@example.com`, date: createdAt }
    const page = write.repositoryUrl.replace(/^.*\/repos\//, 'https://github.com/')
    return {
      event,
      sha,
      node_id: Buffer.from(`06:Commit${id}`).toString('base64'),
      url: `${write.repositoryUrl}/git/commits/${sha}`,
      html_url: `${page}/commit/${sha}`,
      author: person,
      committer: person,
      message: 'Widen the tolerance',
      tree: { sha: tree, url: `${write.repositoryUrl}/git/trees/${tree}` },
      parents: [],
      verification: { verified: false, reason: 'unsigned', signature: null, payload: null, verified_at: null },
    }
  }
  if (event === 'reviewed') {
    const pull = `${write.repositoryUrl}/pulls/${about.number}`
    const page = `${pull.replace(/^.*\/repos\//, 'https://github.com/').replace('/pulls/', '/pull/')}#pullrequestreview-${id}`
    return {
      event,
      id,
      node_id: Buffer.from(`017:PullRequestReview${id}`).toString('base64'),
      user: write.user(actor),
      body: 'As the drawing says.',
      state: 'approved',
      commit_id: createHash('sha1').update(`head ${id}`).digest('hex'),
      html_url: page,
      pull_request_url: pull,
      _links: { html: { href: page }, pull_request: { href: pull } },
      author_association: actor.association,
      submitted_at: createdAt,
    }
  }
  return null
}
