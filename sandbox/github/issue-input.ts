import type { Dataset, StateReason } from './dataset.ts'
import type { IssueEdit } from './edits.ts'
import { userNamed } from './edits.ts'
import type { FieldError } from './failures.ts'
import { badRequest, validationFailed } from './failures.ts'

const STATE_REASONS: readonly unknown[] = ['completed', 'not_planned', 'duplicate', 'reopened', null]

/** A JSON object, or GitHub's 400. */
export function parseBody(text: string, method: string, path: string): Record<string, unknown> {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw badRequest('Problems parsing JSON', method, path)
  }
  if (value === null || typeof value !== 'object' || Array.isArray(value)) {
    throw badRequest('Body should be a JSON object', method, path)
  }
  return value as Record<string, unknown>
}

/** The fields of `POST` and `PATCH` of an issue; unknown ones are ignored, as GitHub does. */
export function issueEdit(input: Record<string, unknown>, dataset: Dataset, method: string, path: string): IssueEdit {
  const errors: FieldError[] = []
  const refuse = (field: string, value: unknown): void => {
    errors.push({ resource: 'Issue', field, code: 'invalid', value: typeof value === 'string' ? value : null })
  }
  const edit: IssueEdit = {}
  // GitHub takes a number for a title and, in PATCH, null for "leave it".
  if (typeof input.title === 'string' || typeof input.title === 'number') edit.title = String(input.title)
  else if (input.title !== undefined && input.title !== null) refuse('title', input.title)
  if (edit.title !== undefined && edit.title.trim() === '') {
    errors.push({ resource: 'Issue', field: 'title', code: 'missing_field' })
  }

  if (typeof input.body === 'string' || input.body === null) edit.body = input.body
  else if (input.body !== undefined) refuse('body', input.body)

  if (input.state === 'open' || input.state === 'closed') edit.state = input.state
  else if (input.state !== undefined) refuse('state', input.state)

  if (STATE_REASONS.includes(input.state_reason)) edit.stateReason = input.state_reason as StateReason | null
  else if (input.state_reason !== undefined) refuse('state_reason', input.state_reason)

  const labels = names(input.labels, 'name')
  if (labels !== undefined) edit.labels = labels
  else if (input.labels !== undefined) refuse('labels', input.labels)

  const assignees = names(input.assignees, 'login')
  const unknown = assignees?.find((login) => userNamed(dataset, login) === undefined)
  if (assignees !== undefined && unknown === undefined) edit.assignees = assignees
  else if (input.assignees !== undefined) refuse('assignees', unknown)

  if (errors.length > 0) throw validationFailed(errors, method, path)
  return edit
}

/** A list of strings, or of objects that carry one under `key`; undefined when it is neither. */
function names(value: unknown, key: 'name' | 'login'): string[] | undefined {
  if (!Array.isArray(value)) return undefined
  const found = value.map((entry: unknown) =>
    entry !== null && typeof entry === 'object' ? (entry as Record<string, unknown>)[key] : entry,
  )
  return found.every((name) => typeof name === 'string') ? found : undefined
}
