/**
 * What mends a failure, by its code: the one command or page, for messages that do not name it themselves.
 *
 * Listed in docs/behaviour/workflows.md, "Failures".
 */
const REMEDIES: ReadonlyMap<string, string> = new Map(
  Object.entries({
    backend_unreachable: '`integrations doctor` says what answers and what does not.',
    no_worker_answered: '`integrations doctor` says whether workers are there.',
    integration_not_found: '`integrations list` shows the ids.',
    integration_inactive: '`integrations enable ID` switches it on.',
    integration_busy: '`integrations sync-progress ID` says how far the run is.',
    unknown_provider: 'The worker must run the host that registers it: INTEGRATIONS_CONFIG.',
    unsupported_by_provider: '`integrations list` shows each integration’s provider.',
    credentials_unreadable:
      '`integrations keys status` says which keys are missing; give the worker the ring with them.',
    encryption_key_mismatch: '`integrations keys status` says which keys are missing.',
    invalid_credentials: '`integrations test ID` says what the provider answers.',
    reauth_required: '`integrations oauth-link ID` prints a link to authorize it again.',
    tokens_refused: '`integrations test ID` asks again once the credentials are put right.',
    circuit_open: '`integrations circuit ID status` shows it; `integrations circuit ID auto` lets calls try again.',
    rate_limit_exceeded: '`integrations rate-limit ID status` shows what is left.',
    egress_refused: 'docs/behaviour/egress.md says which hosts are reached.',
    sync_item_not_found: '`integrations list-failed-items` shows the ids.',
    sync_item_not_failed: '`integrations list-failed-items` shows those that can be.',
    sync_item_outdated: '`--force` retries it all the same; `integrations skip-sync-item ID` gives it up.',
    sync_run_not_found: '`integrations list-sync-runs` shows the ids.',
    missing_not_withheld: '`integrations show-sync-run ID` has the metadata of a run.',
    checkpoints_not_reduced:
      '`integrations advance-cursor ID` does it again, with `--stream` where its provider has several.',
    webhook_subscription_failed: '`integrations check-webhooks ID` tries it again.',
    webhook_not_found: '`integrations list-webhooks` shows the ids.',
    webhook_not_failed: '`integrations list-webhooks --status failed` shows those that can be.',
    webhook_not_replayable: '`integrations list-webhooks --status failed` shows those that can be.',
    sync_session_closed: 'docs/behaviour/sync-listing.md has the rule; the provider’s code is to be mended.',
    schema_behind: '`integrations migrate` brings the tables up to date.',
  }),
)

/**
 * @param type an error's code, or, as Temporal names an error of ours that was thrown as it is, its class (`IntegrationInactive`)
 * @returns empty where the code has none
 */
export function remedyFor(type: string): string {
  return REMEDIES.get(type) ?? REMEDIES.get(codeOf(type)) ?? ''
}

/** `SyncItemNotFailed` → `sync_item_not_failed`, `RateLimitExceededException` → `rate_limit_exceeded`. */
export function codeOf(type: string): string {
  return type
    .replace(/Exception$/, '')
    .replace(/(?<=[a-z0-9])(?=[A-Z])/g, '_')
    .toLowerCase()
}
