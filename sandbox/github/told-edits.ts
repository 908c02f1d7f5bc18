/** Edits of issues that the hook tells of. */
import type { AnswerContext } from './answers.ts'
import { commentAnswer, issueEntry } from './answers.ts'
import type { SandboxComment, SandboxIssue } from './dataset.ts'
import type { IssueEdit } from './edits.ts'
import { comment, editIssue, openIssue } from './edits.ts'
import type { Author } from './issue-events.ts'
import { actionsOf, issueBefore } from './issue-events.ts'
import type { SandboxState } from './sandbox-state.ts'

export interface Editing {
  readonly state: SandboxState
  /** Origin that the addresses in the payload lead to. */
  readonly apiUrl: string
  readonly by: Author
}

export function openAndTell(editing: Editing, edit: IssueEdit & { title: string }): SandboxIssue {
  const { state } = editing
  const issue = openIssue(state.dataset, edit, state.now())
  tellOf(editing, issue, 'opened')
  return issue
}

export function editAndTell(editing: Editing, issue: SandboxIssue, edit: IssueEdit): void {
  const { state } = editing
  const before = issueBefore(issue)
  editIssue(state.dataset, issue, edit, state.now())
  for (const action of actionsOf(before, issue)) tellOf(editing, issue, action)
}

export function commentAndTell(editing: Editing, issue: SandboxIssue, body: string): SandboxComment {
  const { state, by } = editing
  const added = comment(state.dataset, issue, body, state.now())
  const context = contextOf(editing)
  state.events.tell({ event: 'issue_comment', action: 'created', by }, state.dataset, {
    issue: issueEntry(issue, context),
    comment: commentAnswer(added, context),
  })
  return added
}

function tellOf(editing: Editing, issue: SandboxIssue, action: string): void {
  const { state, by } = editing
  // Hooks of pull requests are other events.
  if (issue.pullRequest !== null) return
  state.events.tell({ event: 'issues', action, by }, state.dataset, { issue: issueEntry(issue, contextOf(editing)) })
}

/** A hook has the body as it was written. */
function contextOf({ state: { dataset }, apiUrl }: Editing): AnswerContext {
  return { dataset, apiUrl, format: 'raw' }
}
