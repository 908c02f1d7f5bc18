/** HTTP statuses of errors, by their codes. Rule: docs/behaviour/operator-api.md, "Errors". */
import { isIntegrationsError } from '../framework/errors.ts'

/** Every problem that the HTTP doors answer with, and its status. Any other error is our own fault: `internal`, with its reason in the log only. */
export const PROBLEMS = {
  integration_not_found: 404,
  webhook_not_found: 404,
  incident_not_found: 404,
  incident_not_open: 409,
  token_not_found: 404,
  record_not_found: 404,
  request_not_found: 404,
  log_not_found: 404,
  stored_event_not_found: 404,
  mapping_not_found: 404,
  mapped_row_not_found: 422,
  mapping_already_claimed: 409,
  idempotency_key_not_found: 404,
  idempotency_key_in_use: 409,
  webhook_not_replayable: 409,
  webhook_not_failed: 409,
  sync_item_not_found: 404,
  sync_run_not_found: 404,
  sync_item_not_failed: 409,
  sync_item_outdated: 409,
  missing_not_withheld: 409,
  checkpoints_not_reduced: 409,
  integration_busy: 409,
  integration_inactive: 409,
  credentials_unreadable: 409,
  invalid_argument: 422,
  invalid_credentials: 422,
  unknown_provider: 422,
  unsupported_by_provider: 422,
  oauth_unsupported: 422,
  reauth_required: 409,
  tokens_refused: 409,
  revoke_failed: 502,
  // A fault of the deployment, which an operator can mend.
  base_url_missing: 500,
  webhook_subscription_failed: 502,
  lock_timeout: 503,
  backend_unreachable: 503,
  no_worker_answered: 503,
  circuit_open: 503,
  rate_limit_exceeded: 503,
  // Of the doors themselves.
  invalid_json: 400,
  unauthenticated: 401,
  insufficient_scope: 403,
  cross_origin: 403,
  foreign_host: 403,
  invalid_csrf_token: 403,
  invalid_link: 403,
  no_such_route: 404,
  body_too_slow: 408,
  already_running: 409,
  not_running: 409,
  changed_meanwhile: 412,
  body_too_large: 413,
  unsupported_media_type: 415,
  invalid_fields: 422,
  internal: 500,
  listing_failed: 502,
} as const

export type ProblemCode = keyof typeof PROBLEMS

export const isProblemCode = (code: string): code is ProblemCode => Object.hasOwn(PROBLEMS, code)

/** Whether it is an error of ours that a caller can do something about. */
export const isKnownError = (error: unknown): boolean =>
  isIntegrationsError(error) && 'code' in error && isProblemCode(String(error.code))
