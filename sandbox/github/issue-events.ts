/** What happened to issues and comments, and by whom: the ledger, and what the hook tells of it. */
import { randomUUID } from 'node:crypto'
import type { Dataset, SandboxIssue } from './dataset.ts'
import type { Answer } from './recorded.ts'

/** A call to the API, or a person on the site. */
export type Author = 'api' | 'person'

export interface IssueEvent {
  /** The delivery's id. */
  readonly guid: string
  readonly by: Author
  readonly event: 'issues' | 'issue_comment'
  readonly action: string
  /** As the hook sends it. */
  readonly payload: Answer
}

/** What an edit of an issue can change; taken before it. */
export type IssueBefore = Pick<SandboxIssue, 'title' | 'body' | 'state' | 'labels' | 'assignees'>

export function issueBefore({ title, body, state, labels, assignees }: SandboxIssue): IssueBefore {
  return { title, body, state, labels, assignees }
}

/** GitHub's actions for the difference; none: nothing has changed. An edit that changes several things is told by one event each. */
export function actionsOf(before: IssueBefore, after: SandboxIssue): string[] {
  const actions: string[] = []
  if (before.title !== after.title || before.body !== after.body) actions.push('edited')
  if (before.state !== after.state) actions.push(after.state === 'closed' ? 'closed' : 'reopened')
  for (const label of after.labels) if (!before.labels.includes(label)) actions.push('labeled')
  for (const label of before.labels) if (!after.labels.includes(label)) actions.push('unlabeled')
  for (const user of after.assignees) if (!before.assignees.includes(user)) actions.push('assigned')
  for (const user of before.assignees) if (!after.assignees.includes(user)) actions.push('unassigned')
  return actions
}

export class IssueEvents {
  readonly #all: IssueEvent[] = []
  #sent = 0

  /** @param written the issue, and the comment that it is about, as the API answers them now */
  tell(
    { event, action, by }: Pick<IssueEvent, 'event' | 'action' | 'by'>,
    { owner, repository, viewer, users }: Dataset,
    written: { readonly issue: Answer; readonly comment?: Answer },
  ): void {
    const sender = by === 'api' ? viewer : (users[1] ?? viewer)
    const payload = {
      action,
      ...written,
      repository: { id: repository.id, name: repository.name, full_name: `${owner.login}/${repository.name}` },
      sender: { id: sender.id, login: sender.login, type: 'User' },
    }
    // As it is now: the rows change.
    this.#all.push({ guid: randomUUID(), by, event, action, payload: structuredClone(payload) as Answer })
  }

  all(): readonly IssueEvent[] {
    return this.#all
  }

  /** Those that were not taken yet, oldest first. */
  takeUnsent(): readonly IssueEvent[] {
    const unsent = this.#all.slice(this.#sent)
    this.#sent = this.#all.length
    return unsent
  }
}
