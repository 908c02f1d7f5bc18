import type { Json } from '../core/json.ts'

/** Who the credentials belong to, as the provider says. */
export interface AuthenticatedUser {
  readonly id: string
  readonly name: string | null
  readonly email: string | null
  readonly username: string | null
  readonly raw?: Json
}
