/**
 * The listeners of events. Two kinds of failure: a listener of a framework event disturbs nothing (it is logged); a
 * listener of a provider's own event or of a sync item fails the job that emitted it, so that it can be tried again.
 * Rule: docs/behaviour/events.md.
 */

import { secretsIn } from '../credentials/integration-secrets.ts'
import { InvalidArgumentException } from '../framework/errors.ts'
import type { Logger } from '../framework/logger.ts'
import { integrationLogger } from '../framework/logger.ts'
import { redactedErrorLine } from '../framework/redacted-error.ts'
import type {
  ProviderEvent,
  ProviderEventClass,
  SyncItemEvent,
  SyncItemEventClass,
} from '../providers/provider-events.ts'
import { canBeDurable, DURABLE_EVENTS } from './durable-event-rules.ts'
import type { EventName, IntegrationEvents } from './events.ts'
import { hearing } from './listening-until.ts'

const MAX_ERROR_LENGTH = 1_000
const MAX_NAME_LENGTH = 100
/** Of the column that holds it. */
const MAX_TYPE_LENGTH = 255

export interface ListenerOptions {
  /** Lower runs earlier; equal ones in the order of registration. Default 0. */
  readonly order?: number
  /**
   * Told later, by a job of its own, at least once, and again after a failure; the order means nothing then. For events of
   * which a row can be stored; an item of a class with such a listener fails. Default false.
   */
  readonly queued?: boolean
  /**
   * The listener is not called for a delivery or an item that says only what we wrote ourselves. For provider events and sync items.
   * Default false.
   */
  readonly skipOwn?: boolean
  /** Name under which a stored event records that a queued listener has had it. Default: the function's name. */
  readonly name?: string
}

/** What can be listened to: an event's name, or an event class and with it its subclasses. */
export type EventKey = EventName | ProviderEventClass<ProviderEvent> | SyncItemEventClass
/** A queued listener learns of its delivery, too. */
export type Listener = (payload: never, delivery?: never) => unknown

interface Registration {
  readonly key: EventKey
  readonly listener: Listener
  readonly order: number
  readonly queued: boolean
  readonly skipOwn: boolean
  /** Among the queued listeners of one event no two have the same. */
  readonly name: string
}

/** How a queued listener gets an event. */
export interface EventDelivery {
  /** The same each time that the event is told: `evt_<row>`. */
  readonly id: string
  /** When what it tells of was stored. */
  readonly createdAt: Date
  /** Aborted when the listener has had its time, or the worker stops: the event is told again then. */
  readonly signal: AbortSignal
}

/** A queued listener of an event. */
export interface QueuedListener {
  readonly name: string
  readonly listener: Listener
}

/** Consumers that get an event later, beside the queued listeners. */
export interface Later {
  /** Whether a notification target gets it. */
  isTold(name: EventName): boolean
  /** Rows wait to be delivered. Never throws. */
  wake(): void
}

const NOBODY: Later = { isTold: () => false, wake: () => {} }

export class Listeners {
  readonly #registrations: Registration[] = []
  readonly #itemClasses = new Map<string, SyncItemEventClass>()
  readonly #logger: Logger
  readonly #later: Later

  constructor(logger: Logger, later: Later = NOBODY) {
    this.#logger = logger
    this.#later = later
  }

  on(key: EventKey, listener: Listener, options: ListenerOptions = {}): void {
    const { order = 0, queued = false, skipOwn = false } = options
    if (options.name !== undefined) checkName(options.name)
    if (isItemClass(key)) this.registerItemClass(key)
    else if (queued) checkMayBeQueued(key)
    const wanted = options.name ?? functionName(listener)
    if (skipOwn && typeof key === 'string')
      throw new InvalidArgumentException(
        'skipOwn',
        `classes of provider events and sync items are allowed, ${key} was given`,
      )
    this.#registrations.push({
      key,
      listener,
      order,
      queued,
      skipOwn,
      name: queued ? this.#freeName(key, wanted) : wanted,
    })
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
    const { type } = eventClass
    if (type === '' || type.length > MAX_TYPE_LENGTH)
      throw new InvalidArgumentException(
        'event class',
        `a type of 1 to ${MAX_TYPE_LENGTH} characters is allowed, ${type.length} were given`,
      )
    const known = this.#itemClasses.get(type)
    if (known !== undefined && known !== eventClass)
      throw new InvalidArgumentException('event class', `two classes claim the type "${type}"`)
    this.#itemClasses.set(type, eventClass)
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

  /** The queued listeners of an event. */
  queuedFor(name: EventName): readonly QueuedListener[] {
    return this.#registrations.filter((entry) => entry.queued && entry.key === name)
  }

  /** Whether a listener or a target gets it, now or later. */
  has(name: EventName): boolean {
    return this.#registrations.some((entry) => entry.key === name) || this.#later.isTold(name)
  }

  /** Whether a consumer gets it later: then its row is written in the transaction of the change. */
  isDurable(name: EventName): boolean {
    return this.#registrations.some((entry) => entry.key === name && entry.queued) || this.#later.isTold(name)
  }

  /**
   * Tells the listeners of a framework event, awaited in order: inside an activity until its worker has to end, inside a
   * dispatch for 30 s. One that throws or takes longer is logged and disturbs nothing. It wakes the outbox where consumers
   * are told later: the row is committed by now.
   */
  async emit<Name extends EventName>(name: Name, payload: IntegrationEvents[Name]): Promise<void> {
    if (this.isDurable(name)) this.#later.wake()
    for (const registration of [...this.#registrations]) {
      if (registration.key !== name || registration.queued) continue
      const heard = await hearing(this.#tell(registration, name, payload))
      if (heard === 'ended') continue
      const { name: listener } = registration
      integrationLogger({ logger: this.#logger }, payload.integration).warn(
        { event: 'listener.given_up', name, listener, told_again: heard === 'told again' },
        'a listener had not ended in time; it is not waited for',
      )
    }
  }

  async #tell<Name extends EventName>(
    { listener }: Registration,
    name: Name,
    payload: IntegrationEvents[Name],
  ): Promise<void> {
    try {
      await listener(payload as never)
    } catch (error) {
      // A host's error may quote a credential.
      const line = redactedErrorLine(error, secretsIn(payload.integration), MAX_ERROR_LENGTH)
      integrationLogger({ logger: this.#logger }, payload.integration).error(
        { event: name, error: line },
        'a listener threw; nothing else is disturbed',
      )
    }
  }

  /** Processes that register the same listeners in the same order give them the same names. */
  #freeName(key: EventKey, wanted: string): string {
    const taken = new Set(
      this.#registrations.flatMap((entry) => (entry.queued && entry.key === key ? [entry.name] : [])),
    )
    let name = wanted
    for (let number = 2; taken.has(name); number += 1) name = `${wanted}#${number}`
    return name
  }

  /** Tells the listeners of a provider's own event or of a sync item, awaited in order; the first throw ends it. */
  async deliver(event: ProviderEvent | SyncItemEvent<unknown>): Promise<void> {
    for (const { key, listener, skipOwn } of [...this.#registrations])
      if (typeof key === 'function' && event instanceof key && !(skipOwn && event.isOwn)) await listener(event as never)
  }
}

function checkMayBeQueued(key: Exclude<EventKey, SyncItemEventClass>): void {
  if (typeof key === 'string' && canBeDurable(key)) return
  throw new InvalidArgumentException(
    'queued',
    `events that tell of something stored are allowed (${DURABLE_EVENTS.join(', ')}), ${typeof key === 'string' ? key : key.type} was given; leave it out of this listener`,
  )
}

function checkName(name: unknown): void {
  if (typeof name === 'string' && isName(name)) return
  throw new InvalidArgumentException(
    'name',
    `a text of 1 to ${MAX_NAME_LENGTH} characters that is not blank, without control characters, is allowed`,
  )
}

function functionName({ name }: Listener): string {
  return isName(name) ? name : 'anonymous'
}

function isName(text: string): boolean {
  return text.trim() !== '' && text.length <= MAX_NAME_LENGTH && !/[\p{Cc}\p{Cs}]/u.test(text)
}

function isItemClass(key: EventKey): key is SyncItemEventClass {
  return typeof key === 'function' && 'version' in key
}

function matchesClass(key: EventKey, eventClass: SyncItemEventClass): boolean {
  return typeof key === 'function' && (key === eventClass || eventClass.prototype instanceof key)
}
