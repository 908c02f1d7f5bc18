/** What a person does with a subscription. Rule: docs/behaviour/webhook-subscriptions.md. */
import { secretsIn } from '../credentials/integration-secrets.ts'
import type { IntegrationRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { isIntegrationsError, WebhookSubscriptionFailed } from '../framework/errors.ts'
import { redactedErrorLine } from '../framework/redacted-error.ts'
import { integrationHandle } from '../integrations/handle.ts'
import { requireIntegration } from '../integrations/queries.ts'
import { managesWebhooks, requireContract } from '../providers/contracts.ts'
import type { Look } from './keep.ts'
import { doorOf, keepSubscription } from './keep.ts'
import { findSubscription, setWanted } from './queries.ts'

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
  /** When it was compared with the provider last. */
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
  const row = await findSubscription(framework.db, framework.tables, id)
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

/** Removes it at the provider; it stays away until it is registered again. @throws as {@link registerSubscription} */
export async function removeSubscription(framework: Framework, id: number): Promise<SubscriptionView> {
  const row = await requireManaging(framework, id)
  await setWanted(framework.db, framework.tables, id, { isWanted: false, now: framework.clock.now() })
  return lookNow(framework, row)
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
  const { db, tables, clock, logger } = framework
  const known = await findSubscription(db, tables, row.id)
  if (known === null) return
  await setWanted(db, tables, row.id, { isWanted: false, now: clock.now() })
  try {
    await lookOnce(framework, row)
  } catch (error) {
    if (!force || !isIntegrationsError(error, 'webhook_subscription_failed')) throw error
    logger.warn(
      {
        event: 'webhook.subscription_left',
        integration: row.id,
        provider: row.provider,
        subscription: known.subscriptionId,
        url: known.url,
        error: error.message,
      },
      'a webhook subscription could not be removed at the provider, and its integration goes: remove it there by hand',
    )
  }
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
