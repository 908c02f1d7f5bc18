import { proxyActivities } from '@temporalio/workflow'
import type { Activities } from '../activities/index.ts'
import type { RefreshTokensInput, RefreshTokensResult } from '../core/token-jobs.ts'
import { pass } from './activity-options.ts'
import { readably } from './readable-failure.ts'

const { refreshTokensNow } = proxyActivities<Activities>(pass)

/**
 * Keeps tokens alive that would expire, or whose refresh token would idle out.
 *
 * Durable promise: each integration that is due is tried once, whatever becomes of the others; what fails is tried again by a
 * later run, when its wait is over. Runs may overlap, as that of one integration does: each token has a lock. One activity, so
 * its history is short.
 */
export async function refreshTokens(input: RefreshTokensInput = {}): Promise<RefreshTokensResult> {
  return readably(() => refreshTokensNow(input))
}
