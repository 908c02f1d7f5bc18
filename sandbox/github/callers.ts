import type { HourlyQuota } from './hourly-quota.ts'
import { createHourlyQuota } from './hourly-quota.ts'
import type { InstallationTokens } from './installation-tokens.ts'

/** Who asks, by the `Authorization` header; each has an hourly quota of its own. An `app` is one that shows a JWT, not yet checked. */
export interface Caller {
  readonly kind: 'user' | 'installation' | 'app' | 'stranger'
  readonly quota: HourlyQuota
}

const UNAUTHENTICATED_LIMIT = 60 // GitHub's hourly limit for callers it does not know.
const JSON_WEB_TOKEN = /^[\w-]+\.[\w-]+\.[\w-]+$/

/** @param token the user's */
export function createCallers(
  token: string,
  installationTokens: InstallationTokens,
  rateLimit: number,
  now: () => Date,
): (authorization: string | undefined) => Caller {
  const user: Caller = { kind: 'user', quota: createHourlyQuota(rateLimit, now) }
  const installation: Caller = { kind: 'installation', quota: createHourlyQuota(rateLimit, now) }
  const app: Caller = { kind: 'app', quota: createHourlyQuota(rateLimit, now) }
  const stranger: Caller = { kind: 'stranger', quota: createHourlyQuota(UNAUTHENTICATED_LIMIT, now) }
  return (authorization) => {
    const given = presented(authorization)
    if (given === null) return stranger
    if (given === token) return user
    if (installationTokens.lives(given)) return installation
    return JSON_WEB_TOKEN.test(given) ? app : stranger
  }
}

/** What stands behind `Bearer` or `token`. */
export function presented(authorization: string | undefined): string | null {
  return /^(?:bearer|token) +(\S+)$/i.exec(authorization ?? '')?.[1] ?? null
}
