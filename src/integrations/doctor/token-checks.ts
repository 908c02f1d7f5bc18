import type { Framework } from '../../framework/context.ts'
import { keepAliveStates } from '../../oauth/keep-alive.ts'
import { neededReauthMarks, needingAuthorization } from '../../oauth/reauth-list.ts'
import { hasOAuth2 } from '../../providers/contracts.ts'
import type { Check, Observation } from './doctor-check.ts'
import { capped, fault, MAX_LOOKED_AT, moment, warning } from './doctor-check.ts'
import { pageOfAuthorized } from './doctor-queries.ts'

const PAGE = 1_000
/** By then the tries after ten minutes have failed, too: it is no hiccup. */
const FAILING_MS = 3_600_000

export const oauthReauthorization: Check = {
  name: 'oauth.reauthorization',
  needs: ['database.migrations'],
  async look(framework) {
    const found = await ofAuthorized(framework, async (ids) =>
      [...(await neededReauthMarks(framework, ids))].map(([id, { reason, since }]) =>
        fault(
          `Integration ${id} has had no valid authorization since ${moment(since)} (${reason}): a person has to authorize it again. Send them the link.`,
          `integrations oauth-link ${id}`,
        ),
      ),
    )
    return capped(found, 'No integration waits for a person to authorize it again.')
  },
}

export const oauthRefreshes: Check = {
  name: 'oauth.refreshes',
  needs: ['database.migrations'],
  async look(framework) {
    const before = framework.clock.now().getTime() - FAILING_MS
    const found = await ofAuthorized(framework, async (ids) => {
      // Of those that wait for a person that is said already.
      const marks = await neededReauthMarks(framework, ids)
      const failing = [...(await keepAliveStates(framework, ids))].filter(
        ([id, { firstFailedAt }]) => !marks.has(id) && firstFailedAt !== null && firstFailedAt.getTime() <= before,
      )
      const needing = await needingAuthorization(
        framework,
        failing.map(([id]) => id),
      )
      return failing.flatMap(([id, { failures, firstFailedAt, retryAt }]) => {
        if (!needing.has(id) || firstFailedAt === null) return []
        const next = retryAt === null ? '' : `; the next try is due at ${moment(retryAt)}`
        return [
          warning(
            `The tokens of integration ${id} could not be refreshed since ${moment(firstFailedAt)}, ${failures} failed in all${next}. After four days a person has to authorize it again.`,
            `integrations refresh-tokens ${id}`,
          ),
        ]
      })
    })
    return capped(found, 'No refresh of tokens has failed for an hour.')
  },
}

/** What there is to say of the integrations that may hold tokens, a page at a time, until it is more than is shown. */
async function ofAuthorized(
  { db, tables, providers }: Framework,
  about: (ids: readonly number[]) => Promise<readonly Observation[]>,
): Promise<Observation[]> {
  const keys = providers.entries().flatMap(([key, provider]) => (hasOAuth2(provider) ? [key] : []))
  const found: Observation[] = []
  if (keys.length === 0) return found
  for (let afterId = 0; found.length < MAX_LOOKED_AT; ) {
    const page = await pageOfAuthorized(db, tables, keys, afterId, PAGE)
    found.push(...(await about(page.map(({ id }) => id))))
    if (page.length < PAGE) break
    afterId = page.at(-1)?.id ?? 0
  }
  return found
}
