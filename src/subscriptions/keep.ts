/**
 * One look at the webhook subscription of an integration: what the provider has is compared with what is wanted, and put right.
 *
 * Rule: docs/behaviour/webhook-subscriptions.md, "A look".
 */
import type { WebhookSubscriptionRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { BaseUrlMissing, isIntegrationsError, SchemaDrift } from '../framework/errors.ts'
import { integrationLogger } from '../framework/logger.ts'
import { integrationHandle } from '../integrations/handle.ts'
import { findIntegration } from '../integrations/queries.ts'
import { isSwitchedOffByPerson } from '../integrations/rules.ts'
import type { ManagesWebhooks, WantedSubscription, WebhookSubscription } from '../providers/contracts.ts'
import { managesWebhooks, requireContract } from '../providers/contracts.ts'
import type { Integration } from '../providers/integration.ts'
import { webhookPath } from '../webhooks/address.ts'
import { presentSecret, rotateWebhookSecret } from '../webhooks/secrets.ts'
import { NO_SUBSCRIPTION, passOver, settleFailure, settleLook } from './outcome.ts'
import { claimSubscription, doubtSecret, storeLook } from './queries.ts'
import type { Todo } from './rules.ts'
import { nextLookSeconds, ownSubscriptions, planFor } from './rules.ts'
import type { SubscriptionSight } from './subscription-jobs.ts'

/** The calls of a look together. */
const LOOK_TIMEOUT_MS = 120_000
/** Shorter than any provider's. Less is a wrong time zone, unit or clock: each look would create or renew again at once. */
const LEAST_LIFE_SECONDS = 30
/** A create whose process died may reach the provider after the list of the look that removes. */
const SECOND_LOOK_SECONDS = 30

export interface Look {
  readonly sight: SubscriptionSight
  /** What the provider, or the configuration, refused; undefined: nothing. */
  readonly failure?: unknown
}

/** A later look has the row: this one stores nothing, takes back what it has created, and has it looked at again after a renewal. */
class ClaimLost extends Error {}

/**
 * @returns null: no one has asked for a subscription, or a later look has taken over
 * @throws what the database threw; the reason of an aborted `signal`
 */
export async function keepSubscription(framework: Framework, id: number, signal: AbortSignal): Promise<Look | null> {
  const row = await claimSubscription(framework.db, framework.tables, id)
  if (row === null) return null
  const limited = AbortSignal.any([signal, AbortSignal.timeout(LOOK_TIMEOUT_MS)])
  const work = new LookAt(framework, row, limited)
  try {
    return await work.look()
  } catch (error) {
    if (error instanceof ClaimLost) return null
    // A worker that stops leaves the look to another one.
    if (signal.aborted) throw signal.reason
    if (!work.isAsking) throw error
    if (isIntegrationsError(error, 'unknown_provider')) return passOver(framework, row, error)
    return settleFailure(framework, row, { error, integration: work.integration, provider: work.provider })
  }
}

/** Our door, as a provider is told it. @throws BaseUrlMissing */
export function doorOf(framework: Framework, integration: Pick<Integration, 'id' | 'provider'>): string {
  if (framework.baseUrl === null) throw new BaseUrlMissing('no webhook can be registered')
  return `${framework.baseUrl}${webhookPath(framework, integration)}`
}

class LookAt {
  integration: Integration | null = null
  provider: ManagesWebhooks | null = null
  /** From here on a failure is the provider's or the configuration's, not the database's. */
  isAsking = false
  #row: WebhookSubscriptionRow
  readonly #framework: Framework
  readonly #signal: AbortSignal

  constructor(framework: Framework, row: WebhookSubscriptionRow, signal: AbortSignal) {
    this.#framework = framework
    this.#row = row
    this.#signal = signal
  }

  async look(): Promise<Look | null> {
    const { db, tables, providers } = this.#framework
    const { integrationId, isWanted } = this.#row
    const found = await findIntegration(db, tables, integrationId)
    if (found === null) return null
    this.integration = integrationHandle(this.#framework, found)
    this.isAsking = true
    const isNeeded = isWanted && !isSwitchedOffByPerson(found)
    if (!isNeeded && this.#row.url === null) return this.#settled('nothing', null)
    this.provider = requireContract(found.provider, providers.get(found.provider), managesWebhooks, 'ManagesWebhooks')
    return isNeeded ? this.#register(this.integration, this.provider) : this.#remove(this.integration, this.provider)
  }

  async #register(first: Integration, provider: ManagesWebhooks): Promise<Look> {
    const { clock, config } = this.#framework
    const url = doorOf(this.#framework, first)
    const integration = await this.#withSecret(first, provider)
    const secret = provider.webhookSecretFrom === 'us' ? presentSecret(integration.credentialsArray()) : null
    const wanted: WantedSubscription = { url, secret, signal: this.#signal }
    const listed = await provider.webhookSubscriptions(integration, { signal: this.#signal })
    const plan = planFor(this.#row, ownSubscriptions(this.#row, listed, url), {
      url,
      canAdopt: provider.webhookSecretFrom !== 'provider',
      hasSecret: provider.webhookSecretFrom === 'none' || this.#isMarked(presentSecret(integration.credentialsArray())),
      now: clock.now(),
    })
    let { todo } = plan
    let surplus = plan.surplus
    if (todo === 'nothing') await this.#markAgain(integration)
    const { subscription } = plan
    if (
      todo === 'renew' &&
      subscription !== null &&
      !(await this.#renew(integration, provider, { subscription, wanted }))
    )
      todo = 'replace'
    if (todo === 'replace' && subscription !== null) surplus = [...surplus, subscription]
    if (todo === 'create' || todo === 'replace') await this.#create(integration, provider, wanted)
    for (const one of surplus) await this.#removeOne(integration, provider, one)
    const checkSeconds = config.webhook.subscription_check
    const did = DONE[todo]
    return this.#settled(did, nextLookSeconds(this.#row, { now: clock.now(), checkSeconds }), surplus.length)
  }

  /** A provider that signs with our secret needs one before it is asked. */
  async #withSecret(integration: Integration, provider: ManagesWebhooks): Promise<Integration> {
    if (provider.webhookSecretFrom !== 'us' || presentSecret(integration.credentialsArray()) !== null)
      return integration
    await rotateWebhookSecret(this.#framework, integration.id)
    this.integration = await integration.refresh()
    return this.integration
  }

  async #create(integration: Integration, provider: ManagesWebhooks, wanted: WantedSubscription): Promise<void> {
    this.#signal.throwIfAborted()
    // From here on there may be one, whether or not the answer arrives.
    await this.#store({ url: wanted.url, checkedAt: null })
    const created = await provider.createWebhookSubscription(integration, wanted)
    try {
      this.#checkEnd('createWebhookSubscription()', created)
      const secret = await this.#secretOf(integration, provider, created)
      await this.#store(this.#known(created, wanted.url, secret))
    } catch (error) {
      const remove = () => provider.removeWebhookSubscription(integration, created, { signal: this.#signal })
      if (error instanceof ClaimLost || isIntegrationsError(error, 'integration_not_found')) await remove()
      // No later look can adopt it, so each would create another one. If the removal fails, too, its request's row says why.
      else if (provider.webhookSecretFrom === 'provider' || isIntegrationsError(error, 'schema_drift'))
        await remove().catch(() => {})
      throw error
    }
  }

  /** The secret that the new subscription signs with, which is in force from here on. Null: none. */
  async #secretOf(
    integration: Integration,
    provider: ManagesWebhooks,
    { secret }: { readonly secret?: string },
  ): Promise<string | null> {
    if (provider.webhookSecretFrom !== 'provider') return presentSecret(integration.credentialsArray())
    if (secret === undefined || secret === '')
      throw new SchemaDrift('createWebhookSubscription()', [
        { path: 'secret', message: 'the provider makes it, so a text of at least one character is allowed' },
      ])
    const fresh = await integration.refresh()
    if (presentSecret(fresh.credentialsArray()) !== secret)
      await rotateWebhookSecret(this.#framework, integration.id, { secret })
    this.integration = await integration.refresh()
    return secret
  }

  /** False: it is gone, or can't be renewed. */
  async #renew(
    integration: Integration,
    provider: ManagesWebhooks,
    { subscription, wanted }: { readonly subscription: WebhookSubscription; readonly wanted: WantedSubscription },
  ): Promise<boolean> {
    await this.#requireClaim()
    const isOurs = provider.webhookSecretFrom === 'us'
    try {
      const renewed = await provider.renewWebhookSubscription(integration, subscription, wanted)
      if (renewed === null) return false
      this.#checkEnd('renewWebhookSubscription()', renewed)
      const secret = isOurs ? wanted.secret : presentSecret(integration.credentialsArray())
      const { id, url, expiresAt = subscription.expiresAt } = renewed
      await this.#store(this.#known({ id, url, expiresAt }, wanted.url, secret))
      return true
    } catch (error) {
      // The call may have waited for the provider's limit, or be carried out later, behind that of a later look.
      if (isOurs) await this.#doubtSecret()
      throw error
    }
  }

  /** If a later look has the row: the next one tells the provider the present secret. */
  async #doubtSecret(): Promise<void> {
    const { db, tables, clock, workflows } = this.#framework
    const isDoubted = await doubtSecret(db, tables, this.#row, clock.now())
    if (isDoubted) workflows.keepWebhookSubscription(this.#row.integrationId)
  }

  /** Removes all of ours, and looks once more after a while; also if a creation may be under way. */
  async #remove(integration: Integration, provider: ManagesWebhooks): Promise<Look> {
    const listed = await provider.webhookSubscriptions(integration, { signal: this.#signal })
    const own = ownSubscriptions(this.#row, listed, this.#row.url)
    for (const one of own) await this.#removeOne(integration, provider, one)
    const isAgain = listed !== null && (own.length > 0 || this.#row.checkedAt === null)
    await this.#store({ ...NO_SUBSCRIPTION, ...(isAgain ? { url: this.#row.url } : {}) })
    return this.#settled(own.length > 0 ? 'removed' : 'nothing', isAgain ? SECOND_LOOK_SECONDS : null)
  }

  async #removeOne(integration: Integration, provider: ManagesWebhooks, one: WebhookSubscription): Promise<void> {
    await this.#requireClaim()
    await provider.removeWebhookSubscription(integration, one, { signal: this.#signal })
    integrationLogger(this.#framework, integration).info(
      { event: 'webhook.unsubscribed', subscription: one.id },
      'a webhook subscription was removed at the provider',
    )
  }

  /** @throws SchemaDrift for an end that is past, or nearly so */
  #checkEnd(endpoint: string, { expiresAt }: WebhookSubscription): void {
    const now = this.#framework.clock.now()
    if (expiresAt == null || expiresAt.getTime() - now.getTime() >= LEAST_LIFE_SECONDS * 1_000) return
    const given = Number.isNaN(expiresAt.getTime()) ? 'an invalid Date' : expiresAt.toISOString()
    const allowed = `null or a time at least ${LEAST_LIFE_SECONDS} s after ${now.toISOString()} is allowed`
    throw new SchemaDrift(endpoint, [{ path: 'expiresAt', message: `${allowed}; given was ${given}` }])
  }

  #known({ id, expiresAt = null }: WebhookSubscription, url: string, secret: string | null) {
    const { clock } = this.#framework
    return { subscriptionId: id, url, expiresAt, renewedAt: clock.now(), secretMark: this.#marked(secret) }
  }

  #marked(secret: string | null): string | null {
    const { encryption } = this.#framework
    return secret === null ? null : encryption.sign(markOf(this.#row.integrationId), secret)
  }

  #isMarked(secret: string | null): boolean {
    const { secretMark, integrationId } = this.#row
    if (secret === null || secretMark === null) return false
    return this.#framework.encryption.isSigned(markOf(integrationId), secret, secretMark)
  }

  /** A mark that a former key made is lost with that key, and its secret would count as changed. */
  async #markAgain(integration: Integration): Promise<void> {
    if (this.#row.secretMark === null) return
    const secretMark = this.#marked(presentSecret(integration.credentialsArray()))
    if (secretMark !== this.#row.secretMark) await this.#store({ secretMark })
  }

  /** Before the provider is asked to change something. @throws ClaimLost; the reason of the signal */
  async #requireClaim(): Promise<void> {
    this.#signal.throwIfAborted()
    await this.#store({})
  }

  /** Also of a look that is given up meanwhile: what the provider has answered must not be lost. @throws ClaimLost */
  async #store(changes: Parameters<typeof storeLook>[3]): Promise<void> {
    const { db, tables } = this.#framework
    const stored = await storeLook(db, tables, this.#row, changes)
    if (stored === null) throw new ClaimLost()
    this.#row = stored
  }

  async #settled(did: SubscriptionSight['did'], nextSeconds: number | null, removed = 0): Promise<Look> {
    this.isAsking = false
    const stored = await settleLook(this.#framework, this.#row, nextSeconds)
    if (stored === null) throw new ClaimLost()
    const { subscriptionId, expiresAt } = stored
    if (did === 'created' || did === 'renewed' || did === 'replaced')
      integrationLogger(this.#framework, this.integration as Integration).info(
        {
          event: 'webhook.subscribed',
          did,
          subscription: subscriptionId,
          expires_at: expiresAt?.toISOString() ?? null,
          removed,
        },
        'a webhook subscription was registered or renewed at the provider',
      )
    return {
      sight: {
        integrationId: stored.integrationId,
        standing: subscriptionId === null ? 'removed' : 'registered',
        did,
        subscriptionId,
        expiresAt: expiresAt?.toISOString() ?? null,
        error: null,
        nextLookInSeconds: nextSeconds,
      },
    }
  }
}

const DONE = { nothing: 'nothing', create: 'created', renew: 'renewed', replace: 'replaced' } as const satisfies Record<
  Todo,
  SubscriptionSight['did']
>

const markOf = (integrationId: number): string => `webhook-subscription:${integrationId}`
