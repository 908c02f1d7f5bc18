import { documentationUrl } from './description.ts'
import type { Answer } from './recorded.ts'
import { recordedValidationError } from './recorded.ts'

/** An answer that is no success, thrown by a handler and written by the app. */
export class GithubFailure extends Error {
  readonly code = 'github_failure'
  constructor(
    readonly status: 400 | 401 | 403 | 404 | 422,
    readonly body: Answer,
  ) {
    super(String(body.message))
  }
}

/** One line of a 422: `missing_field`, `invalid`, or `custom` with a message. */
export interface FieldError {
  resource: 'Issue' | 'IssueComment' | 'Hook'
  field: string
  code: 'missing_field' | 'invalid' | 'custom'
  value?: string | null
  message?: string
}

export function badCredentials(): GithubFailure {
  return new GithubFailure(401, {
    message: 'Bad credentials',
    documentation_url: 'https://docs.github.com/rest',
    status: '401',
  })
}

/** A GitHub App's JWT that does not count. */
export function jwtRefused(message: string): GithubFailure {
  return new GithubFailure(401, { message, documentation_url: 'https://docs.github.com/rest', status: '401' })
}

/** What an installation's token may not see, such as a user. */
export function notForInstallations(method: string, path: string): GithubFailure {
  return new GithubFailure(403, {
    message: 'Resource not accessible by integration',
    documentation_url: documentationUrl(method, path),
    status: '403',
  })
}

export function rateLimited(viewerId: number): GithubFailure {
  return new GithubFailure(403, {
    message: `API rate limit exceeded for user ID ${viewerId}.`,
    documentation_url: 'https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api',
    status: '403',
  })
}

export function notFound(method = '', path = ''): GithubFailure {
  return new GithubFailure(404, {
    message: 'Not Found',
    documentation_url: documentationUrl(method, path),
    status: '404',
  })
}

export function badRequest(message: string, method: string, path: string): GithubFailure {
  return new GithubFailure(400, { message, documentation_url: documentationUrl(method, path), status: '400' })
}

export function validationFailed(errors: FieldError[], method: string, path: string): GithubFailure {
  return new GithubFailure(422, {
    ...recordedValidationError,
    errors,
    documentation_url: documentationUrl(method, path),
    status: '422',
  })
}
