/**
 * Who listens to what. Two kinds of failure: a listener of a framework event disturbs nothing (it is logged); a
 * listener of a provider's own event or of a sync item fails the job that emitted it, so that it can be tried again.
 *
 * Rule: docs/behaviour/events.md.
 */
import { InvalidArgumentException } from '../core/errors.ts'
import { secretsKnownTo } from '../core/known-secrets.ts'
import type { Logger } from '../core/logger.ts'
import { errorLine } from '../core/logger.ts'
import { redactText } from '../core/redaction.ts'
import type { ProviderEvent, ProviderEventClass, SyncItemEvent, SyncItemEventClass } from '../providers/events.ts'
import type { Integration } from '../providers/integration.ts'
import type { EventName, IntegrationEvents } from './events.ts'

const MAX_ERROR_LENGTH = 1_000

export interface ListenerOptions {
  /** Lower runs earlier; equal ones in the order of registration. Default 0. */
  readonly order?: number
  /** Delivered later, by a job of its own. Not in this version; an item of a class with such a listener fails. */
  readonly queued?: boolean
}

/** What can be listened to: an event's name, or an event class and with it its subclasses. */
export type EventKey = EventName | ProviderEventClass<ProviderEvent> | SyncItemEventClass
export type Listener = (payload: never) => unknown

interface Registration {
  readonly key: EventKey
  readonly listener: Listener
  readonly order: number
  readonly queued: boolean
}

export class Listeners {
  readonly #registrations: Registration[] = []
  readonly #itemClasses = new Map<string, SyncItemEventClass>()
  readonly #logger: Logger

  constructor(logger: Logger) {
    this.#logger = logger
  }

  on(key: EventKey, listener: Listener, { order = 0, queued = false }: ListenerOptions = {}): void {
    if (isItemClass(key)) this.registerItemClass(key)
    else if (queued)
      throw new InvalidArgumentException(
        'queued',
        `this version delivers no event later; leave it out of the listener of ${typeof key === 'string' ? key : key.type}`,
      )
    this.#registrations.push({ key, listener, order, queued })
    // A stable sort: equal orders stay as registered.
    this.#registrations.sort((a, b) => a.order - b.order)
  }

  off(key: EventKey, listener: Listener): void {
    const at = this.#registrations.findIndex((entry) => entry.key === key && entry.listener === listener)
    if (at >= 0) this.#registrations.splice(at, 1)
  }

  /** Makes stored items of this class readable. Classes without a `type` of their own (bases) are passed over. */
  registerItemClass(eventClass: SyncItemEventClass): void {
    // A base's `static readonly type: string` is an own property, too: an undefined one.
    if (!Object.hasOwn(eventClass, 'type') || eventClass.type === undefined) return
    const known = this.#itemClasses.get(eventClass.type)
    if (known !== undefined && known !== eventClass)
      throw new InvalidArgumentException('event class', `two classes claim the type "${eventClass.type}"`)
    this.#itemClasses.set(eventClass.type, eventClass)
  }

  itemClass(type: string): SyncItemEventClass | null {
    return this.#itemClasses.get(type) ?? null
  }

  /** Whether a listener of this item class, or of a parent, is marked `queued`. */
  hasQueuedItemListener(eventClass: SyncItemEventClass): boolean {
    return this.#registrations.some((entry) => entry.queued && matchesClass(entry.key, eventClass))
  }

  /** The types of item classes that have such a listener. */
  queuedItemTypes(): string[] {
    if (!this.#registrations.some(({ queued }) => queued)) return []
    return [...this.#itemClasses].flatMap(([type, each]) => (this.hasQueuedItemListener(each) ? [type] : []))
  }

  has(name: EventName): boolean {
    return this.#registrations.some((entry) => entry.key === name)
  }

  /** Tells the listeners of a framework event, awaited in order. One that throws is logged and disturbs nothing. */
  async emit<Name extends EventName>(name: Name, payload: IntegrationEvents[Name]): Promise<void> {
    for (const { key, listener } of [...this.#registrations]) {
      if (key !== name) continue
      try {
        await listener(payload as never)
      } catch (error) {
        this.#logger.error(
          { event: name, integration: payload.integration.id, error: redactedLine(error, payload.integration) },
          'a listener threw; nothing else is disturbed',
        )
      }
    }
  }

  /** Tells the listeners of a provider's own event or of a sync item, awaited in order; the first throw ends it. */
  async deliver(event: ProviderEvent | SyncItemEvent<unknown>): Promise<void> {
    for (const { key, listener } of [...this.#registrations])
      if (typeof key === 'function' && isInstanceOf(event, key)) await listener(event as never)
  }
}

/** A host's error may quote a credential; credentials that can't be read can't be quoted either. */
function redactedLine(error: unknown, integration: Integration): string {
  let secrets: readonly string[] = []
  try {
    secrets = secretsKnownTo(integration)
  } catch {
    // Unreadable: nobody has them in clear.
  }
  return redactText(errorLine(error, Number.MAX_SAFE_INTEGER), secrets).slice(0, MAX_ERROR_LENGTH)
}

function isItemClass(key: EventKey): key is SyncItemEventClass {
  return typeof key === 'function' && 'version' in key
}

function matchesClass(key: EventKey, eventClass: SyncItemEventClass): boolean {
  return typeof key === 'function' && (key === eventClass || eventClass.prototype instanceof key)
}

function isInstanceOf(event: object, key: ProviderEventClass | SyncItemEventClass): boolean {
  return event instanceof key
}
