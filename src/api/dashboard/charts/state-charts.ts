/** The charts of docs/states.md as data: a test holds the two together. A state's place is its column and its row. */

export interface StateChart {
  readonly title: string
  readonly states: Readonly<Record<string, readonly [column: number, row: number]>>
  readonly arrows: readonly (readonly [from: string, to: string, when: string])[]
}

/** Where a life begins and ends. */
export const OUTSIDE = '*'

export const STATE_CHARTS = {
  webhook: {
    title: 'A webhook',
    states: { pending: [0, 0], processing: [1, 0], processed: [2, 0], failed: [1, 2] },
    arrows: [
      ['*', 'pending', 'verified and stored, answered 200'],
      ['pending', 'processing', 'claimed, attempts + 1'],
      ['processing', 'processed', 'the handler returned'],
      ['processing', 'failed', 'the handler threw, or took too long'],
      ['processing', 'pending', 'claimed but never started'],
      ['processing', 'pending', 'its worker died; set apart'],
      ['pending', 'failed', 'its worker died five times'],
      ['pending', 'processed', 'coalesced, a newer one of its ordering key runs'],
      ['failed', 'pending', 'due again (webhook.max_attempts), or replayed with others'],
      ['failed', 'processing', 'replayed alone'],
      ['processed', 'pending', 'replayed with others'],
      ['processed', 'processing', 'replayed alone'],
    ],
  },
  run: {
    title: 'A sync run',
    states: {
      held: [0, 1],
      opening: [0, 0],
      listing: [1, 0],
      processing: [2, 0],
      done: [3, 0],
      failed: [2, 1],
      cancelled: [1, 1],
    },
    arrows: [
      ['*', 'held', 'a pause came first'],
      ['held', '*', 'resume or cancel'],
      ['*', 'opening', ''],
      ['opening', 'listing', ''],
      ['opening', 'processing', 'an older run is adopted'],
      ['listing', 'processing', 'the listing is complete'],
      ['listing', 'failed', 'given up'],
      ['processing', 'done', 'nothing is left, finalised'],
      ['processing', 'failed', 'reduceCheckpoints() threw ten times'],
      ['opening', 'cancelled', ''],
      ['listing', 'cancelled', ''],
      ['processing', 'cancelled', ''],
      ['done', '*', 'success, partial or failed'],
    ],
  },
  item: {
    title: 'A sync item',
    states: {
      pending: [0, 0],
      processing: [1, 0],
      success: [2, 0],
      waiting: [0, 1],
      failed: [1, 1],
      skipped: [2, 1],
    },
    arrows: [
      ['*', 'pending', 'listed'],
      ['pending', 'processing', 'claimed, attempts + 1'],
      ['pending', 'failed', 'a listener is queued'],
      ['pending', '*', 'its run was cancelled, or given up'],
      ['processing', 'pending', 'claimed but never started'],
      ['processing', 'success', 'all listeners returned'],
      ['processing', 'waiting', 'a listener threw, a limit was met, or what it needs is not there yet'],
      ['waiting', 'processing', 'its time has come, or an operator asked for it'],
      ['waiting', 'failed', 'its run was cancelled, or it was abandoned'],
      [
        'processing',
        'failed',
        'attempts or window used up, its worker died five times, its run was cancelled, or it was abandoned',
      ],
      ['processing', 'skipped', 'of a backfill, and a later run has a newer copy'],
      ['failed', 'skipped', 'given up by hand'],
      ['failed', 'processing', 'retried by hand'],
      ['success', '*', ''],
      ['skipped', '*', ''],
    ],
  },
  circuit: {
    title: 'A circuit breaker',
    states: { closed: [0, 0], open: [1, 0], half_open: [2, 0] },
    arrows: [
      ['closed', 'open', 'too many upstream failures'],
      ['open', 'half_open', 'after the cooldown, the next call is the probe'],
      ['half_open', 'closed', 'the probe succeeds'],
      ['half_open', 'open', 'the probe fails'],
      ['half_open', 'half_open', 'it ends otherwise, or is silent'],
    ],
  },
  health: {
    title: 'Health',
    states: { healthy: [0, 0], degraded: [1, 0], failing: [2, 0], disabled: [3, 0] },
    arrows: [
      ['healthy', 'degraded', 'health.degraded_after'],
      ['degraded', 'failing', 'health.failing_after'],
      ['failing', 'disabled', 'health.disabled_after, is_active becomes false'],
      ['degraded', 'healthy', 'a success'],
      ['failing', 'healthy', 'a success'],
      ['disabled', 'healthy', 'integrations enable'],
    ],
  },
  incident: {
    title: 'An incident',
    states: { open: [0, 0], closed: [1, 0] },
    arrows: [
      [
        '*',
        'open',
        'health not healthy, circuit opens, sync becomes stale, echo loop, webhook not registered, tokens refused',
      ],
      ['open', 'open', 'a further cause (escalated)'],
      ['open', 'closed', 'all are well again'],
      ['closed', '*', 'pruned'],
    ],
  },
  authorization: {
    title: 'An authorization',
    states: { waiting: [0, 0], connected: [1, 0], needs_person: [2, 0] },
    arrows: [
      ['*', 'waiting', 'integrations install, oauth-link'],
      ['waiting', 'connected', 'consent, code exchanged'],
      ['waiting', 'waiting', 'refused, or the link ran out'],
      ['connected', 'connected', 'refreshed under a lock'],
      ['connected', 'needs_person', 'refused for good, or four days without a refresh'],
      ['needs_person', 'connected', 'consent again'],
      ['connected', '*', 'revoked'],
    ],
  },
  key: {
    title: 'An idempotency key',
    states: { spent: [0, 0], answered: [1, 0], unknown: [2, 0] },
    arrows: [
      ['*', 'spent', 'before the first attempt, committed'],
      ['spent', '*', 'given back, for no attempt can have had an effect'],
      ['spent', 'answered', 'a call answered, its body is kept'],
      ['spent', 'unknown', 'its process died, or its effect is unknown'],
      ['unknown', 'answered', 'sent again to a provider that knows keys'],
      ['answered', '*', 'pruned'],
      ['unknown', '*', 'pruned, or forgotten by hand'],
    ],
  },
  event: {
    title: 'A durable event',
    states: { waiting: [0, 0], delivered: [1, 0], given_up: [2, 0], silenced: [3, 0] },
    arrows: [
      ['*', 'waiting', 'written with the change it tells of'],
      ['waiting', 'delivered', 'the listener returned, or the notification target answered 2xx'],
      ['waiting', 'waiting', 'it failed, later again'],
      ['waiting', 'given_up', 'the tries are used up, or its worker died five times'],
      ['given_up', 'waiting', 'integrations notifications retry'],
      ['waiting', 'silenced', 'a notification target, and a person has silenced the incident'],
      ['silenced', '*', 'pruned'],
      ['delivered', '*', 'pruned'],
    ],
  },
} as const satisfies Record<string, StateChart>

export type ChartName = keyof typeof STATE_CHARTS
