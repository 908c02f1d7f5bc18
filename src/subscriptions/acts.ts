/** What a person does with a subscription. Rule: docs/behaviour/webhook-subscriptions.md. */
import { secretsIn } from '../credentials/integration-secrets.ts'
import type { IntegrationRow, WebhookSubscriptionRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { isIntegrationsError, WebhookSubscriptionFailed } from '../framework/errors.ts'
import { redactedErrorLine } from '../framework/redacted-error.ts'
import { integrationHandle } from '../integrations/handle.ts'
import { requireIntegration } from '../integrations/queries.ts'
import { managesWebhooks, requireContract } from '../providers/contracts.ts'
import type { Look } from './keep.ts'
import { doorOf, keepSubscription } from './keep.ts'
import { NO_SUBSCRIPTION, settleLook } from './outcome.ts'
import { claimSubscription, findSubscription, setWanted } from './queries.ts'

export interface SubscriptionView {
  readonly integrationId: number
  /** Whether one is asked for. While the integration is switched off, the provider has no subscription. */
  readonly isWanted: boolean
  /** The provider's id; null: none is known. */
  readonly subscriptionId: string | null
  readonly url: string | null
  /** Null: it never ends, or there is no subscription. */
  readonly expiresAt: Date | null
  readonly renewedAt: Date | null
  /** When it was compared with the provider last; null: not since a creation was begun. */
  readonly checkedAt: Date | null
  readonly nextCheckAt: Date | null
  /** Looks in a row that failed. */
  readonly failures: number
  readonly failingSince: Date | null
  readonly lastError: string | null
}

/** As our row says; the provider is not asked. @throws IntegrationNotFound, UnsupportedByProvider */
export async function showSubscription(framework: Framework, id: number): Promise<SubscriptionView> {
  await requireManaging(framework, id)
  return viewOf(id, await findSubscription(framework.db, framework.tables, id))
}

function viewOf(id: number, row: WebhookSubscriptionRow | null): SubscriptionView {
  return {
    integrationId: id,
    isWanted: row?.isWanted ?? false,
    subscriptionId: row?.subscriptionId ?? null,
    url: row?.url ?? null,
    expiresAt: row?.expiresAt ?? null,
    renewedAt: row?.renewedAt ?? null,
    checkedAt: row?.checkedAt ?? null,
    nextCheckAt: row?.nextCheckAt ?? null,
    failures: row?.failures ?? 0,
    failingSince: row?.failingSince ?? null,
    lastError: row?.lastError ?? null,
  }
}

/**
 * Asks for a subscription, creates it now, and has its workflow look after it. While the integration is switched off, it waits.
 *
 * @throws IntegrationNotFound, UnknownProvider, UnsupportedByProvider, BaseUrlMissing; WebhookSubscriptionFailed: it is tried again
 */
export async function registerSubscription(framework: Framework, id: number): Promise<SubscriptionView> {
  const row = await requireManaging(framework, id)
  doorOf(framework, row)
  await setWanted(framework.db, framework.tables, id, { isWanted: true, now: framework.clock.now() })
  return lookNow(framework, row)
}

/** Compares with the provider and puts right, now. @throws as {@link registerSubscription} */
export async function checkSubscription(framework: Framework, id: number): Promise<SubscriptionView> {
  return lookNow(framework, await requireManaging(framework, id))
}

/**
 * Removes it at the provider; it stays away until it is registered again. Where only an earlier release could ask the
 * provider, what our row knows is forgotten.
 *
 * @throws as {@link registerSubscription}
 */
export async function removeSubscription(framework: Framework, id: number): Promise<SubscriptionView> {
  const { db, tables, clock, providers } = framework
  const row = await requireIntegration(framework, id)
  const known = await findSubscription(db, tables, id)
  const provider = providers.find(row.provider)
  if (known !== null && (provider === null || !managesWebhooks(provider)))
    return forget(framework, row, known, provider === null ? 'is not registered' : 'has no ManagesWebhooks any more')
  await requireManaging(framework, id)
  await setWanted(db, tables, id, { isWanted: false, now: clock.now() })
  return lookNow(framework, row)
}

async function forget(framework: Framework, row: IntegrationRow, known: WebhookSubscriptionRow, why: string) {
  const { db, tables, clock } = framework
  await setWanted(db, tables, row.id, { isWanted: false, now: clock.now() })
  const claimed = await claimSubscription(db, tables, row.id)
  const forgotten = claimed === null ? null : await settleLook(framework, claimed, null, NO_SUBSCRIPTION)
  if (forgotten === null) throw new WebhookSubscriptionFailed(row.id, 'another look has taken over; try again')
  if (known.url !== null) leave(framework, row, known, `its provider ${why}`)
  return viewOf(row.id, forgotten)
}

/**
 * Removes what the provider has before the integration's rows or credentials go.
 *
 * @param force a refusal is logged, and what is left at the provider stays there
 * @throws WebhookSubscriptionFailed unless forced; then nothing has changed but that no subscription is wanted
 */
export async function endSubscription(
  framework: Framework,
  row: IntegrationRow,
  { force }: { readonly force: boolean },
): Promise<void> {
  const { db, tables, clock } = framework
  const known = await findSubscription(db, tables, row.id)
  if (known === null) return
  await setWanted(db, tables, row.id, { isWanted: false, now: clock.now() })
  try {
    await lookOnce(framework, row)
  } catch (error) {
    if (!force || !isIntegrationsError(error, 'webhook_subscription_failed')) throw error
    leave(framework, row, known, error.message)
  }
}

function leave(
  { logger }: Framework,
  { id, provider }: IntegrationRow,
  { subscriptionId, url }: WebhookSubscriptionRow,
  error: string,
): void {
  logger.warn(
    { event: 'webhook.subscription_left', integration: id, provider, subscription: subscriptionId, url, error },
    'a webhook subscription could not be removed at the provider, and is not looked after any more: remove it there by hand',
  )
}

async function requireManaging(framework: Framework, id: number): Promise<IntegrationRow> {
  const row = await requireIntegration(framework, id)
  requireContract(row.provider, framework.providers.get(row.provider), managesWebhooks, 'ManagesWebhooks')
  return row
}

async function lookNow(framework: Framework, row: IntegrationRow): Promise<SubscriptionView> {
  await lookOnce(framework, row)
  return showSubscription(framework, row.id)
}

/** A change of ours wakes the worker, whose look takes over from ours. The second look of ours is usually the last. */
const LOOKS = 3

/**
 * In this process: the caller learns at once what the provider says. The workflow goes on from there. A look that another one has
 * taken over says nothing of the provider, so it is done again. A provider that is not registered is asked for only where it has
 * something to remove.
 */
async function lookOnce(framework: Framework, row: IntegrationRow): Promise<void> {
  const { id } = row
  let look: Look | null = null
  for (let looks = 0; look === null && looks < LOOKS; looks++) {
    look = await keepSubscription(framework, id, new AbortController().signal)
    if (look === null && (await findSubscription(framework.db, framework.tables, id)) === null) return
  }
  framework.workflows.keepWebhookSubscription(id)
  if (look === null)
    throw new WebhookSubscriptionFailed(id, `other looks have taken over ${LOOKS} times; its workflow looks again`)
  if ('failure' in look) {
    const { failure } = look
    if (isIntegrationsError(failure, 'base_url_missing')) throw failure
    const secrets = secretsIn(integrationHandle(framework, row))
    throw new WebhookSubscriptionFailed(id, redactedErrorLine(failure, secrets, 500), { cause: failure })
  }
}
