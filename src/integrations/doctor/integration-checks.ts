/** Integrations: their providers and models, and what keeps them from working. */
import type { SQL } from 'drizzle-orm'
import { and, asc, eq, gt, inArray, isNull, sql } from 'drizzle-orm'
import { circuitsOf } from '../../calls/overrides.ts'
import type { Database } from '../../db/client.ts'
import type { Tables } from '../../db/schema/tables.ts'
import type { Framework } from '../../framework/context.ts'
import { ascendingPages } from '../../framework/list-filter.ts'
import { modelProblems } from '../../mappings/mapped-table.ts'
import { neededReauthMarks, needingAuthorization } from '../../oauth/authorization-status.ts'
import { incompleteClients } from '../../oauth/incomplete-clients.ts'
import { keepAliveStates } from '../../oauth/keep-alive.ts'
import type { IntegrationProvider } from '../../providers/contracts.ts'
import { handlesWebhooks, hasOAuth2 } from '../../providers/contracts.ts'
import type { CircuitView } from '../../providers/integration.ts'
import { troubledSubscriptions } from '../../subscriptions/queries.ts'
import { unlistedIntegrations } from '../../webhooks/listed-webhook.ts'
import type { RefusedDeliveries } from '../../webhooks/secrets.ts'
import { refusedDeliveries } from '../../webhooks/secrets.ts'
import { acceptsWebhooks } from '../queries.ts'
import type { Check, Observation } from './doctor-check.ts'
import { capped, counted, fault, listOfProvider, MAX_LOOKED_AT, moment, warning } from './doctor-check.ts'

const providersRegistered: Check = {
  name: 'providers.registered',
  needs: ['database.migrations'],
  async look({ db, tables, providers }) {
    const used = await providersInUse(db, tables)
    const unknown = used.filter(({ provider }) => providers.find(provider) === null)
    const registered = providers.keys().join(', ') || 'none'
    return capped(
      unknown.map(({ provider, integrations, firstId }) =>
        fault(
          `${counted(integrations, 'integration')} (the first is ${firstId}) of the provider "${provider}", which is not registered (registered: ${registered}): no webhook is taken, no run starts. Add it under \`providers\` of the host's module, or delete the integrations.`,
          listOfProvider(provider),
        ),
      ),
      `Every provider in use is registered: ${used.map(({ provider }) => provider).join(', ') || 'none is in use'}.`,
    )
  },
}

const integrationsDisabled: Check = {
  name: 'integrations.disabled',
  needs: ['database.migrations'],
  async look({ db, tables }) {
    const disabled = await disabledIntegrations(db, tables)
    return capped(
      disabled.map(({ id, failures, lastErrorAt, pendingWebhooks }) =>
        fault(
          `Integration ${id} was switched off by its health after ${counted(failures, 'failure')} in a row${lastErrorAt === null ? '' : `, the last at ${moment(lastErrorAt)}`}; ${counted(pendingWebhooks, 'webhook')} wait. Find out why first.`,
          `integrations enable ${id}`,
          { integrationId: id, since: lastErrorAt },
        ),
      ),
      'None was switched off by its health.',
    )
  },
}

const circuitsOpen: Check = {
  name: 'circuits.open',
  needs: ['database.migrations'],
  async look(framework) {
    const found: Observation[] = []
    for await (const rows of pages(framework, acceptsWebhooks(framework.tables))) {
      for (const [id, circuit] of await circuitsOf(framework, rows)) found.push(...aboutCircuit(id, circuit))
      if (found.length >= MAX_LOOKED_AT) break
    }
    return capped(found, 'Every circuit is closed, and none is forced.')
  },
}

const FORCED = {
  forced_open: 'an operator has forced its circuit open: no call is made',
  forced_closed: 'an operator has forced its circuit closed: calls are made whatever they come to',
  disabled: 'an operator has switched its circuit breaker off: calls are made whatever they come to',
} as const

function aboutCircuit(id: number, { override, overrideUntil, state, openedAt, retryAt }: CircuitView): Observation[] {
  if (override !== null) {
    const term = overrideUntil === null ? 'for good' : `until ${moment(overrideUntil)}`
    return [
      warning(`Integration ${id}: ${FORCED[override]}, ${term}.`, `integrations circuit ${id} auto`, {
        integrationId: id,
      }),
    ]
  }
  if (state === 'closed') return []
  const since = openedAt === null ? '' : ` since ${moment(openedAt)}`
  const next = retryAt === null ? 'a probe is under way or due' : `the next probe may be made at ${moment(retryAt)}`
  return [
    warning(
      `Integration ${id}: its provider fails, so its circuit is ${state === 'open' ? 'open' : 'half-open'}${since}; ${next}.`,
      `integrations circuit ${id} status`,
      { integrationId: id, since: openedAt },
    ),
  ]
}

const modelsTables: Check = {
  name: 'models.tables',
  needs: ['database.reachable'],
  async look(framework) {
    const problems = await modelProblems(framework)
    return capped(
      problems.map(({ model, problem }) =>
        fault(
          `The model "${model}" does not fit its table: ${problem}. Listeners that use it fail. Apply the host's own migrations.`,
          null,
        ),
      ),
      `${counted(framework.models.size, 'model')} of the host: what each reads and writes is there.`,
    )
  },
}

/** The breakers of a page are read at once: of more, nothing else of the process runs for tens of milliseconds. */
const PAGE = 250
/** By then the tries after ten minutes have failed, too. */
const FAILING_MS = 3_600_000

export const oauthReauthorization: Check = {
  name: 'oauth.reauthorization',
  needs: ['database.migrations'],
  async look(framework) {
    const found = await ofProviders(framework, hasOAuth2, async (ids) =>
      [...(await neededReauthMarks(framework, ids))].map(([id, { reason, since }]) =>
        fault(
          `Integration ${id} has had no valid authorization since ${moment(since)} (${reason}): a person has to authorize it again. Send them the link.`,
          `integrations oauth-link ${id}`,
          { integrationId: id, since },
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
    const incomplete = (await incompleteClients(framework, MAX_LOOKED_AT)).map(
      ({ provider, reason, integrations, isAtLeast, firstId }) =>
        warning(
          `In this process the OAuth client of the provider "${provider}" is not complete: ${reason}. Tokens of ${isAtLeast ? 'at least ' : ''}${counted(integrations, 'integration')} (the first is ${firstId}) can't be refreshed by it, and no new ones obtained. Set what is missing for every process, then try.`,
          `integrations refresh-tokens ${firstId}`,
          { integrationId: integrations === 1 ? firstId : null },
        ),
    )
    const found = await ofProviders(framework, hasOAuth2, async (ids) => {
      // Integrations that wait for a person have a finding already.
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
            { integrationId: id, since: firstFailedAt },
          ),
        ]
      })
    })
    return capped(
      [...incomplete, ...found],
      'No refresh of tokens has failed for an hour, and no client lacks what it proves itself with.',
    )
  },
}

/** Each dispatch, once a minute, tells the workflows of those that are late. */
const UNLOOKED_SECONDS = 300

const webhookSubscriptions: Check = {
  name: 'webhooks.subscriptions',
  needs: ['database.migrations'],
  async look({ db, tables, clock, baseUrl }) {
    const now = clock.now()
    const found = await troubledSubscriptions(db, tables, {
      lateBefore: new Date(now.getTime() - UNLOOKED_SECONDS * 1_000),
      all: baseUrl === null,
      limit: MAX_LOOKED_AT,
    })
    if (baseUrl === null && found.length > 0)
      return fault(
        `Webhooks are to be registered, that of integration ${found[0]?.integrationId} for one, and no base URL is configured: set INTEGRATIONS_BASE_URL for every process, or the option baseUrl.`,
        null,
      )
    return capped(
      found.map(({ integrationId: id, failingSince, failures, lastError, alertedAt, nextCheckAt }) =>
        alertedAt !== null
          ? fault(
              `The webhook of integration ${id} can't be kept registered since ${moment(failingSince ?? alertedAt)}, ${failures} tries failed in all: ${lastError}`,
              `integrations check-webhooks ${id}`,
              { integrationId: id, since: failingSince ?? alertedAt },
            )
          : warning(
              `The webhook of integration ${id} was to be looked at at ${moment(nextCheckAt ?? now)}: no worker did.`,
              `integrations check-webhooks ${id}`,
              { integrationId: id, since: nextCheckAt },
            ),
      ),
      'Each registered webhook is looked after.',
    )
  },
}

const webhooksReconciliation: Check = {
  name: 'webhooks.reconciliation',
  needs: ['database.migrations'],
  async look(framework) {
    const found = await unlistedIntegrations(framework, MAX_LOOKED_AT)
    return capped(
      found.map(({ integrationId, reason, remedy }) =>
        warning(
          `Integration ${integrationId}: reconciliation does not fetch the deliveries that it misses: ${reason}`,
          remedy,
          { integrationId },
        ),
      ),
      'Reconciliation has a webhook to list for each integration that needs one.',
    )
  },
}

const webhooksSecret: Check = {
  name: 'webhooks.secret',
  needs: ['database.migrations'],
  async look(framework) {
    const found = await ofProviders(framework, handlesWebhooks, async (ids) =>
      (await refusedDeliveries(framework, ids)).map(refusedObservation),
    )
    return capped(found, 'No integration refuses all that it is sent.')
  },
}

function refusedObservation(refused: RefusedDeliveries): Observation {
  const { integrationId, because, lastRefusedAt, lastStoredAt, reason, isOfSecret } = refused
  const newSecret = `integrations rotate-webhook-secret ${integrationId}`
  if (because === 'no secret')
    return warning(
      `Integration ${integrationId} has no webhook secret, so its deliveries are refused, the last one at ${moment(lastRefusedAt)}. Set the secret that its provider signs with, or a new one at both.`,
      newSecret,
      { integrationId },
    )
  const stored =
    lastStoredAt === null ? 'none was stored lately' : `the last one that was stored came at ${moment(lastStoredAt)}`
  const mend = isOfSecret
    ? 'Its provider signs with another secret, or with none, or somebody else sends. Set the secret that the provider signs with, or a new one at both'
    : 'Its provider’s deliveries are not as its `signature` says, or somebody else sends. Mend what the reason names (docs/behaviour/webhook-signatures.md, "Reasons")'
  return warning(
    `Integration ${integrationId} refuses all that it is sent: the last one at ${moment(lastRefusedAt)}, for the reason \`${reason}\`; ${stored}. ${mend}; then \`integrations reconcile-webhooks ${integrationId}\` fetches what was refused, if the provider keeps it.`,
    isOfSecret ? newSecret : `integrations show ${integrationId}`,
    { integrationId, since: lastStoredAt },
  )
}

export const integrationChecks = [
  providersRegistered,
  modelsTables,
  integrationsDisabled,
  circuitsOpen,
  oauthReauthorization,
  oauthRefreshes,
  webhookSubscriptions,
  webhooksReconciliation,
  webhooksSecret,
]

/** Observations about integrations whose provider can, and that no person has switched off; page by page, until there are enough. */
async function ofProviders(
  framework: Framework,
  can: (provider: IntegrationProvider) => boolean,
  about: (ids: readonly number[]) => Promise<readonly Observation[]>,
): Promise<Observation[]> {
  const { tables, providers } = framework
  const keys = providers.entries().flatMap(([key, provider]) => (can(provider) ? [key] : []))
  const found: Observation[] = []
  if (keys.length === 0) return found
  const which = and(inArray(tables.integrations.provider, keys), acceptsWebhooks(tables))
  for await (const rows of pages(framework, which)) {
    found.push(...(await about(rows.map(({ id }) => id))))
    if (found.length >= MAX_LOOKED_AT) break
  }
  return found
}

/** Integrations by ascending id, with the columns of their circuits' overrides. */
function pages({ db, tables: { integrations } }: Framework, which?: SQL) {
  const { id, provider, circuitOverride, circuitOverrideUntil } = integrations
  return ascendingPages(
    ({ after, limit }) =>
      db
        .select({ id, provider, circuitOverride, circuitOverrideUntil })
        .from(integrations)
        .where(and(gt(id, after), which))
        .orderBy(asc(id))
        .limit(limit),
    { size: PAGE },
  )
}

/** Each provider in the table, with its integrations and the first id. */
function providersInUse(db: Database, { integrations }: Tables) {
  return db
    .select({
      provider: integrations.provider,
      integrations: sql<number>`count(*)::int`,
      firstId: sql<number>`min(${integrations.id})`.mapWith(Number),
    })
    .from(integrations)
    .groupBy(integrations.provider)
    .orderBy(asc(integrations.provider))
}

/** Switched off by their health, and not by a person. */
function disabledIntegrations(db: Database, { integrations, webhooks }: Tables) {
  return db
    .select({
      id: integrations.id,
      failures: integrations.consecutiveFailures,
      lastErrorAt: integrations.lastErrorAt,
      // The table is named by hand: Drizzle leaves it out of a column here, and the inner query has an `id` of its own.
      pendingWebhooks: sql<number>`(
        select count(*)::int from ${webhooks} w where w.integration_id = ${integrations}.id and w.status = 'pending')`,
    })
    .from(integrations)
    .where(and(eq(integrations.healthStatus, 'disabled'), isNull(integrations.switchedOffAt)))
    .orderBy(asc(integrations.id))
    .limit(MAX_LOOKED_AT)
}
