/** Budgets that integrations share. Rule: docs/behaviour/shared-budgets.md. */
import { and, asc, gt, inArray } from 'drizzle-orm'
import { declaredScope } from '../../calls/call-target.ts'
import { sharedLimitView } from '../../calls/shared-limit.ts'
import type { Framework } from '../../framework/context.ts'
import { ascendingPages } from '../../framework/list-filter.ts'
import { sharesRateLimit } from '../../providers/contracts.ts'
import type { Integration, SharedLimitView } from '../../providers/integration.ts'
import { integrationHandle } from '../handle.ts'
import type { Check, Observation } from './doctor-check.ts'
import { capped, moment, warning } from './doctor-check.ts'

/** The scopes of a page are asked for in one turn, and most need decrypted credentials: a longer page holds up the process. */
const PAGE = 250
/** One integration of each budget is looked at: of at most this many budgets, among at most this many integrations. */
const MOST_BUDGETS = 100
const MOST_INTEGRATIONS = 10_000

export const sharedLimits: Check = {
  name: 'rate_limits.shared',
  needs: ['database.migrations'],
  async look(framework) {
    const found: Observation[] = []
    const { scoped, unscoped } = await sharing(framework)
    for (const id of unscoped)
      found.push(
        warning(
          `rateLimitScope() gives no usable scope for integration ${id}, so only its own limit holds: it throws, or its key or limit is not valid.`,
          `integrations rate-limit ${id} status`,
          { integrationId: id },
        ),
      )
    for (const integration of scoped) {
      const view = await sharedLimitView(framework, integration)
      if (view !== null) found.push(...about(integration.id, view))
    }
    return capped(found, 'No shared rate limit is overridden, quiet, or waited for by others than it can serve.')
  },
}

function about(
  id: number,
  { budget, source, overrideUntil, quietUntil, waiting, limit, windowSeconds }: SharedLimitView,
) {
  const found: Observation[] = []
  const look = `integrations rate-limit ${id} status`
  if (source === 'override') {
    const term = overrideUntil === null ? 'for good' : `until ${moment(overrideUntil)}`
    found.push(
      warning(
        `An operator has set the limit of the shared budget ${budget} to ${limit} calls in ${windowSeconds} s, ${term}.`,
        `integrations rate-limit ${id} clear --shared`,
      ),
    )
  }
  if (quietUntil !== null)
    found.push(
      warning(
        `The provider has asked all that share the budget ${budget} (integration ${id} is one) for quiet until ${moment(quietUntil)}.`,
        look,
      ),
    )
  // Each would wait for longer than a window.
  if (waiting > limit)
    found.push(
      warning(
        `${waiting} integrations wait for the shared budget ${budget}, which allows ${limit} calls in ${windowSeconds} s: each gets less than one call in that time.`,
        look,
      ),
    )
  return found
}

/** The first integration of each budget, and those whose provider names none as it should. */
async function sharing(framework: Framework) {
  const { db, providers, tables } = framework
  const { integrations } = tables
  const keys = providers.entries().flatMap(([key, provider]) => (sharesRateLimit(provider) ? [key] : []))
  const scoped = new Map<string, Integration>()
  const unscoped: number[] = []
  let looked = 0
  const pages = ascendingPages(
    ({ after, limit }) =>
      keys.length === 0
        ? Promise.resolve([])
        : db
            .select()
            .from(integrations)
            .where(and(gt(integrations.id, after), inArray(integrations.provider, keys)))
            .orderBy(asc(integrations.id))
            .limit(limit),
    { size: PAGE },
  )
  for await (const rows of pages) {
    for (const row of rows) {
      const integration = integrationHandle(framework, row)
      const scope = declaredScope(framework, integration)
      if (scope === undefined) unscoped.push(row.id)
      else if (scope !== null && !scoped.has(scope.key)) scoped.set(scope.key, integration)
    }
    looked += rows.length
    if (scoped.size >= MOST_BUDGETS || looked >= MOST_INTEGRATIONS) break
  }
  return { scoped: [...scoped.values()].slice(0, MOST_BUDGETS), unscoped }
}
