/** What pumps and their workflows take and give: plain data, which Temporal keeps as JSON. */

/** What pumps work off. A workflow's id and a promise's key end with it. */
export const WEBHOOK_INBOX = 'webhook-inbox'
export const EVENT_OUTBOX = 'event-outbox'
export type PumpedQueue = typeof WEBHOOK_INBOX | typeof EVENT_OUTBOX

export interface PumpInput {
  /** Made by the workflow; each try of the activity adds its number, so that it has a claim of its own. */
  readonly claim: string
}

/**
 * `empty`: nothing was left; `relieved`: a successor goes on; `stopped`: rows may wait; `declined`: its worker was about to stop,
 * and it has not begun.
 */
export type PumpEnd = 'empty' | 'relieved' | 'stopped' | 'declined'

/** The outcomes of a pump's rows. */
export interface Tally {
  readonly processed: number
  readonly failed: number
  /** They wait again, and the attempt does not count: the worker stopped, or no handler could be asked. */
  readonly handedBack: number
}

export interface Pumped extends Tally {
  readonly end: PumpEnd
  /** Until the next row is due that no pump holds, at least 0; null: none waits for a time of its own. */
  readonly nextDueInMs: number | null
}

/** A pump asks for another one: beside it, or in its place. */
export interface PumpCall {
  /** As its workflow made it. */
  readonly claim: string
  readonly needs: 'help' | 'successor'
}
