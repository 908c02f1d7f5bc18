/** What goes into and comes out of the workflow that keeps tokens alive. */

export interface RefreshTokensInput {
  /** This one only, however long its token is good for. Without it: all that is due. */
  readonly integrationId?: number
}

export interface RefreshTokensResult {
  /** Integrations with a refresh token that were looked at. */
  readonly checked: number
  readonly refreshed: number
  readonly failed: number
  /** The failed ones that a person has to authorize again. */
  readonly reauthRequired: number
}
