/** What a look does about a subscription, and when the next one is due. Rule: docs/behaviour/webhook-subscriptions.md. */
import type { WebhookSubscription } from '../providers/contracts.ts'

/** What our row knows. */
export interface KnownSubscription {
  readonly subscriptionId: string | null
  readonly url: string | null
  readonly expiresAt: Date | null
  readonly renewedAt: Date | null
}

export interface Wanted {
  readonly url: string
  /** Whether a subscription whose answer was lost can be used: its secret is ours, or it has no secret. */
  readonly canAdopt: boolean
  /** Whether the known subscription signs with the secret in force. */
  readonly hasSecret: boolean
  readonly now: Date
}

/** `replace`: another one is created first, so that there is no gap. */
export type Todo = 'nothing' | 'create' | 'renew' | 'replace'

export interface Plan {
  readonly todo: Todo
  /** The one to keep, renew or replace; null: there is no such one. */
  readonly subscription: WebhookSubscription | null
  /** Ours as well, and to be removed. */
  readonly surplus: readonly WebhookSubscription[]
}

/**
 * Which of the provider's subscriptions are ours: the one that is known, and each that delivers to our door. Without a list what is
 * known is believed.
 *
 * @param url of our door, where that is known
 */
export function ownSubscriptions(
  known: KnownSubscription,
  listed: readonly WebhookSubscription[] | null,
  url: string | null,
): WebhookSubscription[] {
  const { subscriptionId: id, url: knownUrl, expiresAt } = known
  if (listed === null) return id === null || knownUrl === null ? [] : [{ id, url: knownUrl, expiresAt }]
  return listed
    .filter((one) => one.id === id || one.url === url || one.url === knownUrl)
    .map((one) => (one.id === id && one.expiresAt === undefined ? { ...one, expiresAt } : one))
}

export function planFor(known: KnownSubscription, own: readonly WebhookSubscription[], wanted: Wanted): Plan {
  const { url, canAdopt, hasSecret, now } = wanted
  const live = own.filter(({ expiresAt }) => expiresAt == null || expiresAt > now)
  const isKnown = ({ id }: WebhookSubscription): boolean => id === known.subscriptionId
  const subscription = live.find(isKnown) ?? (canAdopt ? (live.find((one) => one.url === url) ?? live[0]) : undefined)
  const surplus = own.filter((one) => one !== subscription)
  if (subscription === undefined) return { todo: 'create', subscription: null, surplus }
  const todo = (): Todo => {
    if (isKnown(subscription) && !hasSecret && !canAdopt) return 'replace'
    const isAsWanted = subscription.url === url && (subscription.isIntact ?? true) && hasSecret && isKnown(subscription)
    const due = renewalDueAt({ expiresAt: subscription.expiresAt ?? null, renewedAt: known.renewedAt })
    return isAsWanted && (due === null || due > now) ? 'nothing' : 'renew'
  }
  return { todo: todo(), subscription, surplus }
}

/** At half of its life: a provider that is away for as long as that has it ended. Null: it has no end. */
export function renewalDueAt({
  expiresAt,
  renewedAt,
}: Pick<KnownSubscription, 'expiresAt' | 'renewedAt'>): Date | null {
  if (expiresAt === null) return null
  // Its life is not known.
  if (renewedAt === null) return new Date(0)
  return new Date((expiresAt.getTime() + renewedAt.getTime()) / 2)
}

/** At the renewal, and at each check; at least a second ahead. */
export function nextLookSeconds(
  subscription: Pick<KnownSubscription, 'expiresAt' | 'renewedAt'>,
  { now, checkSeconds }: { readonly now: Date; readonly checkSeconds: number },
): number {
  const due = renewalDueAt(subscription)
  const untilDue = due === null ? checkSeconds : (due.getTime() - now.getTime()) / 1_000
  return Math.max(1, Math.ceil(Math.min(untilDue, checkSeconds)))
}

/** After the first failure in a row, the second, …; the last one is reused. */
const RETRY_SECONDS = [5, 15, 60, 300, 900] as const

/** @param failures in a row, this one included */
export function retrySeconds(failures: number, checkSeconds: number): number {
  const wait = RETRY_SECONDS[Math.min(failures, RETRY_SECONDS.length) - 1] ?? RETRY_SECONDS[0]
  return Math.max(1, Math.min(wait, checkSeconds))
}

/** As many failures in a row may pass by themselves. */
const FAILURES_UNALERTED = 2

/** @param isFinal another try would get the same */
export function isAlarming(failures: number, isFinal: boolean): boolean {
  return isFinal || failures > FAILURES_UNALERTED
}
