/**
 * A durable event as it is delivered, and the consumers that it is delivered to.
 *
 * Rule: docs/behaviour/events.md, "Durable events".
 */
import type { DurableEventName } from './durable-event-rules.ts'
import type { IntegrationEvents } from './events.ts'

/** A durable event as it is delivered: read back from its row, with the handle of its integration as it is now. */
export type DeliveredEvent = {
  [Name in DurableEventName]: {
    /** Of its row. */
    readonly id: number
    readonly name: Name
    /** When what it tells of was stored. */
    readonly createdAt: Date
    readonly payload: IntegrationEvents[Name]
  }
}[DurableEventName]

/** A queued listener or a notification target. */
export interface Consumer {
  /** Key under which a consumer's delivery is recorded on the event row: `listener:...` or `target:...`. */
  readonly key: string
  /** How long one delivery may take; its signal is aborted then. */
  readonly timeoutMs: number
  /**
   * Delivers it. May be run twice for one event. After a throw it is tried again.
   *
   * @returns `gone`: it is given up at once, since its target takes nothing any more
   */
  deliver(event: DeliveredEvent, signal: AbortSignal): Promise<'delivered' | 'gone'>
}
