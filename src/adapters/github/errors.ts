import type { HttpError } from '../../provider.ts'
import { IntegrationsError, isIntegrationsError } from '../../provider.ts'

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
export function isLabelPermissionError(error: unknown): boolean {
  if (!isIntegrationsError(error, 'http_error')) return false
  const { status, body } = error as HttpError
  const errors = typeof body === 'object' && body !== null ? (body as { errors?: unknown }).errors : undefined
  if ((status !== 403 && status !== 422) || !Array.isArray(errors)) return false
  return errors.some((entry: { field?: unknown; code?: unknown } | null) => {
    return entry?.field === 'label' && entry.code === 'unauthorized'
  })
}
