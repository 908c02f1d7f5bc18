import type { EventName, IntegrationEvents } from '../events/events.ts'
import type { Listeners } from '../events/listeners.ts'
import type { ProviderEvent, SyncItemEvent } from '../providers/provider-events.ts'

/** A class of events, or a parent of some. */
type EventClass<Event> = abstract new (...rest: never[]) => Event

export interface RecordedEvent {
  /** The framework's name of the event, or the `type` of its class. */
  readonly name: string
  /** What listeners got. */
  readonly payload: unknown
}

/** What was emitted, in order, whether anybody listens or not. */
export class RecordedEvents {
  readonly #events: RecordedEvent[] = []

  constructor(listeners: Listeners) {
    const emit = listeners.emit.bind(listeners)
    const deliver = listeners.deliver.bind(listeners)
    // What is told only when somebody listens is told here, too.
    listeners.has = () => true
    listeners.emit = (name, payload) => {
      this.#events.push({ name, payload })
      return emit(name, payload)
    }
    listeners.deliver = (event) => {
      this.#events.push({ name: (event.constructor as unknown as { type: string }).type, payload: event })
      return deliver(event)
    }
  }

  get all(): readonly RecordedEvent[] {
    return this.#events
  }

  /** The payloads of one event, by its name or class. An item's event comes once for each attempt. */
  of<Name extends EventName>(name: Name): IntegrationEvents[Name][]
  of<Event extends ProviderEvent | SyncItemEvent<unknown>>(eventClass: EventClass<Event>): Event[]
  of(key: string | EventClass<unknown>): unknown[] {
    const isWanted = ({ name, payload }: RecordedEvent): boolean =>
      typeof key === 'string' ? name === key : payload instanceof key
    return this.#events.filter(isWanted).map(({ payload }) => payload)
  }

  clear(): void {
    this.#events.length = 0
  }
}
