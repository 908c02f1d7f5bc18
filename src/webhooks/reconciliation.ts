/**
 * Stores the deliveries that a provider's API knows of and that never arrived.
 *
 * Rule: docs/behaviour/webhook-reconciliation.md.
 */

import { and, asc, eq, inArray, sql } from 'drizzle-orm'
import { headersWithoutSecrets, secretsIn } from '../credentials/integration-secrets.ts'
import type { Database } from '../db/client.ts'
import { despiteDeadlocks } from '../db/client.ts'
import type { Tables } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { IntegrationNotFound, InvalidArgumentException, isIntegrationsError } from '../framework/errors.ts'
import { INSTANT_OR_AGO, instantOrAgo } from '../framework/instant.ts'
import type { Json } from '../framework/json.ts'
import { integrationLogger } from '../framework/logger.ts'
import { redactedErrorLine } from '../framework/redacted-error.ts'
import { thrownTexts } from '../framework/thrown.ts'
import { listedUntilAborted, untilAborted } from '../framework/waiting.ts'
import { requireActive } from '../integrations/enabled.ts'
import { integrationHandle } from '../integrations/handle.ts'
import { warnOfUnregistered } from '../integrations/provider-list.ts'
import { requireIntegration } from '../integrations/queries.ts'
import { insertLog, newestLog } from '../observability/log-queries.ts'
import type { ReconcilesWebhooks } from '../providers/contracts.ts'
import { reconcilesWebhooks, requireContract } from '../providers/contracts.ts'
import type { Integration } from '../providers/integration.ts'
import { storedWebhookRequest } from '../providers/webhook-request.ts'
import { webhookPath } from './address.ts'
import type { NewDelivery } from './arrival-queries.ts'
import { isOrderedDelivery, storeDeliveries } from './arrival-queries.ts'
import { registeredWebhook, unlisted } from './listed-webhook.ts'
import type { DeliveryContent, FoundDelivery } from './missed-webhook.ts'
import { foundDelivery } from './missed-webhook.ts'
import type { Ordering } from './order.ts'
import { orderingOf } from './order.ts'
import type { ReconciliationWindow } from './reconciliation-rules.ts'
import { reconciliationWindow, settledBefore } from './reconciliation-rules.ts'
import type { StoredDelivery } from './rules.ts'
import { isWantedType } from './wanted.ts'
import type { ReconcileWebhooksInput, ReconcileWebhooksResult } from './webhook-jobs.ts'

/** One statement looks up, or stores, this many deliveries, or this many bytes of payload. */
const PAGE_ROWS = 200
const PAGE_BYTES = 4_194_304
/** In one run of one integration: what is more comes with the next run, so that no inbox is flooded. */
const MAX_INSERTS = 1_000
const MAX_ERROR_LENGTH = 1_000

/** An integration that can be asked. */
export interface Reconcilable {
  readonly integration: Integration
  readonly provider: ReconcilesWebhooks
}

export interface ReconciledIntegration {
  /** Deliveries of the window that the provider listed. */
  readonly seen: number
  readonly known: number
  /** Stored, or in a dry run: would be. */
  readonly inserted: number
  /** Beyond `webhook.max_payload_bytes`. */
  readonly tooLarge: number
  /** More were missing than one run stores. */
  readonly capped: boolean
  /** Why the provider was not asked; left out: it was. */
  readonly skipped?: string
}

/**
 * Starts a reconciliation and waits for its end.
 *
 * @throws what {@link reconcilableIntegrations} throws; BackendUnreachable
 */
export async function reconcileNow(
  framework: Framework,
  input: ReconcileWebhooksInput = {},
): Promise<ReconcileWebhooksResult | 'already running'> {
  // Here, where the caller sees them as they are, and again in the workflow: things may have changed by then.
  await reconcilableIntegrations(framework, input)
  return framework.workflows.runReconciliation(input)
}

/**
 * The integration that is asked for, or every active one whose provider can.
 *
 * @throws InvalidArgumentException for a time that is invalid or too late; IntegrationNotFound, IntegrationInactive,
 *   UnknownProvider, UnsupportedByProvider
 */
export async function reconcilableIntegrations(
  framework: Framework,
  { integrationId, since }: ReconcileWebhooksInput,
): Promise<number[]> {
  if (since !== undefined) wantedBeginning(since, framework.clock.now())
  if (integrationId !== undefined) {
    const { integration } = await reconcilable(framework, integrationId)
    return [integration.id]
  }
  await warnOfUnregistered(framework)
  const able = framework.providers.entries().filter(([, provider]) => reconcilesWebhooks(provider))
  const keys = able.map(([key]) => key)
  return activeIntegrationsOf(framework.db, framework.tables, keys)
}

/**
 * Reconciles one integration. May be run twice: what the first run stored is known to the second.
 *
 * @param signal aborted when the run is cancelled or the worker stops: a call of the provider's that is under way is not waited for
 * @throws InvalidArgumentException for a `since` that is too late; what the provider throws: the log has it then, and the
 *   next run asks about the same time again
 */
export async function reconcileIntegrationWebhooks(
  framework: Framework,
  { integration, provider }: Reconcilable,
  { since, dryRun = false }: { readonly since?: string | undefined; readonly dryRun?: boolean | undefined },
  signal: AbortSignal,
): Promise<ReconciledIntegration> {
  const { clock, db, tables } = framework
  const subscriptionId = await registeredWebhook(db, tables, integration.id)
  const run = new Reconciliation(framework, integration, { dryRun, subscriptionId })
  const missing = unlisted(integration, provider, subscriptionId)
  if (missing !== null) {
    // Without a mark: once the webhook is named, the next run goes back as far as the API does.
    if (!dryRun) await writeSkipped(framework, integration, missing.reason)
    return { ...run.counts, skipped: missing.reason }
  }
  const window = reconciliationWindow({
    now: clock.now(),
    lookbackSeconds: provider.reconcileLookbackSeconds,
    lastUntil: await lastReconciledUntil(db, tables, integration.id),
    wanted: since === undefined ? null : wantedBeginning(since, clock.now()),
  })
  if (window.since >= window.until) return run.counts
  const startedAt = performance.now()
  const note = (status: 'success' | 'partial' | 'failed', error: string | null): Promise<void> =>
    writeDown(framework, run, window, { status, error, durationMs: Math.round(performance.now() - startedAt) })
  try {
    await run.list(provider, window, signal)
  } catch (error) {
    // A run that is cancelled, or whose worker stops, has not failed. Of an integration that is gone no log is kept.
    if (!dryRun && !signal.aborted && !isIntegrationsError(error, 'integration_not_found'))
      await note('failed', redactedErrorLine(error, secretsIn(integration), MAX_ERROR_LENGTH))
    throw error
  }
  if (!dryRun) await note(run.counts.capped ? 'partial' : 'success', null)
  return run.counts
}

/** One run over one integration: what it has counted so far. */
class Reconciliation {
  readonly counts = { seen: 0, known: 0, inserted: 0, tooLarge: 0, capped: false }
  readonly integration: Integration
  readonly #framework: Framework
  readonly #dryRun: boolean
  readonly #subscriptionId: string | null
  /** What this run has stored, or would have: a provider may list the same delivery twice. */
  readonly #taken = new Set<string>()
  /** The line of this run about `orderingKey()` is written. */
  #isUnreadTold = false

  constructor(
    framework: Framework,
    integration: Integration,
    { dryRun, subscriptionId }: { dryRun: boolean; subscriptionId: string | null },
  ) {
    this.#framework = framework
    this.#dryRun = dryRun
    this.#subscriptionId = subscriptionId
    this.integration = integration
  }

  async list(provider: ReconcilesWebhooks, { since, until }: ReconciliationWindow, signal: AbortSignal): Promise<void> {
    let page: FoundDelivery[] = []
    let bytes = 0
    const window = { since, until, subscriptionId: this.#subscriptionId, signal }
    // A whole delivery has another type than its events.
    const isSplit = provider.splitWebhook !== undefined
    const listed = provider.missedWebhooks(this.integration, window)
    for await (const missed of listedUntilAborted(listed, signal)) {
      signal.throwIfAborted()
      const found = foundDelivery(missed, this.#framework.config.webhook.max_payload_bytes)
      if (found.occurredAt < since || found.occurredAt >= until) continue
      this.counts.seen += 1
      // Dropped before its content is asked for, which may be a call: it would be missing in each run.
      if (!isSplit && !isWantedType(this.integration, found.eventType)) continue
      page.push(found)
      if (found.content.kind === 'given') bytes += found.content.delivery?.payload.length ?? 0
      if (page.length < PAGE_ROWS && bytes < PAGE_BYTES) continue
      await this.#take(provider, page, signal)
      // The rest would only be listed, at the cost of the provider's rate limit.
      if (this.counts.capped) return
      page = []
      bytes = 0
    }
    await this.#take(provider, page, signal)
  }

  async #take(provider: ReconcilesWebhooks, page: readonly FoundDelivery[], signal: AbortSignal): Promise<void> {
    const { db, tables } = this.#framework
    const { id } = this.integration
    const known = await knownDeliveries(db, tables, id, [...new Set(page.map(({ deliveryId }) => deliveryId))])
    let missing: NewDelivery[] = []
    let bytes = 0
    for (const { deliveryId, eventType, content } of page) {
      if (known.has(deliveryId) || this.#taken.has(deliveryId)) {
        this.counts.known += 1
        continue
      }
      const hasRoom = this.counts.inserted + missing.length < MAX_INSERTS
      const loaded = await contentOf(content, { hasRoom, signal }).catch(async (error: unknown) => {
        // Each has cost a call; dropped here, every run would pay for them again and stop at the same one.
        await this.#keep(missing)
        throw error
      })
      if (loaded === 'no room') this.counts.capped = true
      else if (loaded === 'too large') this.counts.tooLarge += 1
      else if (loaded !== 'forgotten') {
        this.#taken.add(deliveryId)
        const headers = headersWithoutSecrets(loaded.headers, this.integration)
        missing.push({ deliveryId, eventType, ...loaded, headers, ...this.#orderingBy(provider, loaded) })
        bytes += loaded.payload.length
      }
      if (bytes < PAGE_BYTES) continue
      await this.#keep(missing)
      missing = []
      bytes = 0
    }
    await this.#keep(missing)
  }

  /** A delivery is never lost to a provider's reading of it: a throw counts as no order. */
  #orderingBy(provider: ReconcilesWebhooks, delivery: StoredDelivery): { readonly ordering?: Ordering } {
    if (this.#dryRun || provider.orderingKey === undefined) return {}
    const { clock, config } = this.#framework
    const at = { receivedAt: clock.now(), toleranceSeconds: config.webhook.timestamp_tolerance }
    try {
      const ordering = orderingOf(
        provider.orderingKey(
          storedWebhookRequest({ ...delivery, ...at }, webhookPath(this.#framework, this.integration)),
        ),
      )
      // It comes late: events after it may have arrived already, and it must not take the place of one of them.
      return ordering === null ? {} : { ordering: { ...ordering, coalesces: false } }
    } catch (error) {
      if (!this.#isUnreadTold)
        integrationLogger(this.#framework, this.integration).warn(
          // Its message may quote what was listed.
          { event: 'webhook.unread', error: thrownTexts(error).name ?? typeof error },
          'a provider could not tell the order of a delivery that it listed; it is stored without one',
        )
      this.#isUnreadTold = true
      return {}
    }
  }

  async #keep(missing: readonly NewDelivery[]): Promise<void> {
    if (this.#dryRun) {
      this.counts.inserted += missing.length
      return
    }
    // As on arrival: statements with ordering keys wait for locks, and no other delivery waits with them.
    await this.#store(missing.filter((delivery) => !isOrderedDelivery(delivery)))
    await this.#store(missing.filter(isOrderedDelivery))
  }

  async #store(missing: readonly NewDelivery[]): Promise<void> {
    if (missing.length === 0) return
    const { db, tables, workflows, listeners, metrics } = this.#framework
    const { id, provider } = this.integration
    // Without a version: the provider's own API vouches for it, whatever the row holds by now.
    const owner = { integrationId: id, version: null }
    const deliveries = missing.map((delivery) => ({ ...delivery, owner }))
    const recordsEvents = listeners.isDurable('WebhookReceived')
    const stored = await despiteDeadlocks(() => storeDeliveries(db, tables, deliveries, { recordsEvents }))
    const queued = stored.flatMap((outcome, index) => {
      if (outcome === 'changed') throw new IntegrationNotFound(id)
      return typeof outcome === 'object' && 'id' in outcome
        ? [{ webhookId: outcome.id, delivery: missing[index] as NewDelivery }]
        : []
    })
    this.counts.inserted += queued.length
    metrics.webhookReceived(this.integration, 'reconciled', queued.length)
    // Arrived by itself meanwhile.
    this.counts.known += missing.length - queued.length
    if (queued.length > 0) workflows.wakeInbox()
    for (const { delivery, webhookId } of queued) {
      const { deliveryId, eventType } = delivery
      const { integration } = this
      await listeners.emit('WebhookReceived', { integration, provider, webhookId, deliveryId, eventType })
    }
  }
}

/** Asks the provider if it has not given the content, but never for content that there is no room for. */
async function contentOf(
  content: DeliveryContent,
  { hasRoom, signal }: { hasRoom: boolean; signal: AbortSignal },
): Promise<StoredDelivery | 'no room' | 'too large' | 'forgotten'> {
  if (content.kind === 'given') {
    if (content.delivery === null) return 'too large'
    return hasRoom ? content.delivery : 'no room'
  }
  if (!hasRoom) return 'no room'
  signal.throwIfAborted()
  const loaded = await untilAborted(content.load(), signal)
  return loaded === null ? 'forgotten' : (loaded.delivery ?? 'too large')
}

/** The log row of a run. Its `mark` is where the next one goes on. */
async function writeDown(
  framework: Framework,
  { integration, counts }: Reconciliation,
  { since, until, isGapless }: ReconciliationWindow,
  ending: { status: 'success' | 'partial' | 'failed'; error: string | null; durationMs: number },
): Promise<void> {
  const { db, tables } = framework
  const { seen, known, inserted, tooLarge, capped } = counts
  const noted = { since: since.toISOString(), until: until.toISOString(), seen, known, inserted, too_large: tooLarge }
  const mark: Json = ending.status === 'success' && isGapless ? noted.until : null
  await insertLog(db, tables, {
    integrationId: integration.id,
    operation: 'webhook_reconcile',
    direction: 'inbound',
    metadata: { ...noted, capped, mark },
    ...ending,
  })
  const logger = integrationLogger(framework, integration)
  const fields = { event: `webhook.reconcile_${ending.status}`, ...noted }
  if (ending.status === 'success') logger.info(fields, 'webhooks reconciled')
  else if (capped)
    logger.warn(
      fields,
      `more than ${MAX_INSERTS} webhooks were missing; a run from the same beginning stores the next ones`,
    )
  else
    logger.warn({ ...fields, error: ending.error }, 'a reconciliation failed; a run from the same beginning asks again')
}

async function writeSkipped(framework: Framework, integration: Integration, reason: string): Promise<void> {
  await insertLog(framework.db, framework.tables, {
    integrationId: integration.id,
    operation: 'webhook_reconcile',
    direction: 'inbound',
    status: 'skipped',
    summary: reason,
  })
  // Not a warning: an integration that only syncs is skipped at each run.
  integrationLogger(framework, integration).info(
    { event: 'webhook.reconcile_skipped', reason },
    'an integration was not reconciled: it names no webhook to list',
  )
}

/** @throws IntegrationNotFound, IntegrationInactive, UnknownProvider, UnsupportedByProvider */
export async function reconcilable(framework: Framework, id: number): Promise<Reconcilable> {
  const row = await requireIntegration(framework, id)
  const registered = framework.providers.get(row.provider)
  const provider = requireContract(row.provider, registered, reconcilesWebhooks, 'ReconcilesWebhooks')
  requireActive(row)
  return { integration: integrationHandle(framework, row), provider }
}

function wantedBeginning(since: string, now: Date): Date {
  const end = settledBefore(now)
  const moment = instantOrAgo(() => now.getTime()).safeParse(since)
  if (moment.success && moment.data < end) return moment.data
  throw new InvalidArgumentException(
    'since',
    `${INSTANT_OR_AGO}, and before ${end.toISOString()} is allowed: what is younger may still arrive by itself; ${JSON.stringify(since)} was given`,
  )
}

/** Active integrations of these providers, by ascending id. */
async function activeIntegrationsOf(
  db: Database,
  { integrations }: Tables,
  providers: readonly string[],
): Promise<number[]> {
  if (providers.length === 0) return []
  const rows = await db
    .select({ id: integrations.id })
    .from(integrations)
    .where(and(eq(integrations.isActive, true), inArray(integrations.provider, [...providers])))
    .orderBy(asc(integrations.id))
  return rows.map((row) => row.id)
}

/** Which of these deliveries of the integration are stored, whatever became of them. */
async function knownDeliveries(
  db: Database,
  { webhooks }: Tables,
  integrationId: number,
  deliveryIds: readonly string[],
): Promise<Set<string>> {
  if (deliveryIds.length === 0) return new Set()
  const rows = await db
    .select({ deliveryId: webhooks.deliveryId })
    .from(webhooks)
    .where(and(eq(webhooks.integrationId, integrationId), inArray(webhooks.deliveryId, [...deliveryIds])))
  return new Set(rows.map((row) => row.deliveryId))
}

/** The mark: the end of the last run that listed everything and left no gap behind it. Null: there was none. */
async function lastReconciledUntil(db: Database, tables: Tables, integrationId: number): Promise<Date | null> {
  const { status, metadata } = tables.logs
  const isMarked = sql`${metadata} ->> 'mark' is not null`
  const ofRuns = { integrationId, operation: 'webhook_reconcile' }
  const log = await newestLog(db, tables, ofRuns, eq(status, 'success'), isMarked)
  return log === null ? null : new Date((log.metadata as { mark: string }).mark)
}
