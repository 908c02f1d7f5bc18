/** How an authorization stands, and how that is shown. Rule: docs/behaviour/oauth.md, "Status". */

export interface OAuthStatus {
  readonly integrationId: number
  /** False: its provider says that its credentials are enough without. */
  readonly needsAuthorization: boolean
  /** Whether there is an access token. */
  readonly isConnected: boolean
  readonly expiresAt: Date | null
  readonly hasRefreshToken: boolean
  /** Null: no person has to do anything. */
  readonly reauth: { readonly reason: string; readonly since: Date } | null
  /** Or authorized; null: unknown. */
  readonly lastRefreshedAt: Date | null
  /** Of the keep-alive; null: never. What is due already is due now. */
  readonly nextRefreshAt: Date | null
  /** Refreshes that failed since the last success. */
  readonly failures: number
  /** When the first of them failed; null without any. */
  readonly failingSince: Date | null
}

/** As commands and routes show it, flat: a line or a column for each. */
export function oauthStatusColumns(status: OAuthStatus) {
  return {
    integration_id: status.integrationId,
    needs_authorization: status.needsAuthorization,
    connected: status.isConnected,
    token_expires_at: status.expiresAt,
    has_refresh_token: status.hasRefreshToken,
    reauth_required: status.reauth !== null,
    reauth_reason: status.reauth?.reason ?? null,
    reauth_since: status.reauth?.since ?? null,
    last_refreshed_at: status.lastRefreshedAt,
    next_refresh_at: status.nextRefreshAt,
    failures: status.failures,
    failing_since: status.failingSince,
  }
}
