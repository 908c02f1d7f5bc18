/** What the hook remembers of each attempt to deliver a webhook: https://docs.github.com/en/rest/repos/webhooks */

import type { Answer } from './recorded.ts'
import type { Attempt } from './webhook-sender.ts'

export interface HookDelivery extends Attempt {
  /** Grows: a later attempt has a greater one. */
  id: bigint
  /** Whether an earlier attempt had the same guid. */
  isRedelivery: boolean
}

// Above 2^53, as GitHub's own are: JSON.parse() rounds them, and neighbours become equal.
const FIRST_DELIVERY_ID = 3_804_004_623_172_239_000n
// The oldest go first: of each attempt the headers are kept, some 2 kB.
export const MAX_DELIVERIES = 20_000

export class HookDeliveries {
  #newestLast: HookDelivery[] = []
  #guids = new Set<string>()
  #lastId = FIRST_DELIVERY_ID

  add(attempt: Attempt): HookDelivery {
    const delivery = { ...attempt, id: ++this.#lastId, isRedelivery: this.#guids.has(attempt.guid) }
    this.#guids.add(attempt.guid)
    this.#newestLast.push(delivery)
    if (this.#newestLast.length > MAX_DELIVERIES) {
      this.#newestLast = this.#newestLast.slice(MAX_DELIVERIES / 10)
      this.#guids = new Set(this.#newestLast.map((kept) => kept.guid))
    }
    return delivery
  }

  find(id: bigint): HookDelivery | undefined {
    return this.#newestLast.find((delivery) => delivery.id === id)
  }

  /**
   * Newest first.
   *
   * @param fromId the delivery that the page begins with; null: the newest
   * @returns `next` is the id that the following page begins with; null after the last
   */
  page(
    fromId: bigint | null,
    perPage: number,
    isWanted: (delivery: HookDelivery) => boolean,
  ): { rows: HookDelivery[]; next: bigint | null } {
    const from = this.#newestLast
      .filter((delivery) => (fromId === null || delivery.id <= fromId) && isWanted(delivery))
      .reverse()
    return { rows: from.slice(0, perPage), next: from[perPage]?.id ?? null }
  }

  clear(): number {
    const count = this.#newestLast.length
    this.#newestLast = []
    this.#guids.clear()
    return count
  }
}

export function isSuccess({ statusCode }: HookDelivery): boolean {
  return statusCode >= 200 && statusCode < 300
}

/** JSON text: no number of JavaScript's holds the id. */
export function deliveryItem(delivery: HookDelivery): string {
  return withId(delivery, fieldsOf(delivery))
}

/** JSON text, with what was sent and answered. */
export function deliveryAnswer(delivery: HookDelivery): string {
  return withId(delivery, {
    ...fieldsOf(delivery),
    url: delivery.url,
    request: { headers: delivery.requestHeaders, payload: delivery.payload },
    response: { headers: delivery.responseHeaders, payload: delivery.responseBody },
  })
}

function withId({ id }: HookDelivery, fields: Answer): string {
  return `{"id":${id},${JSON.stringify(fields).slice(1)}`
}

function fieldsOf(delivery: HookDelivery): Answer {
  const { action, installation, repository } = delivery.payload as {
    action?: string
    installation?: { id?: number }
    repository?: { id?: number }
  }
  return {
    guid: delivery.guid,
    delivered_at: delivery.deliveredAt.toISOString(),
    redelivery: delivery.isRedelivery,
    duration: delivery.durationMs / 1_000,
    status: delivery.status,
    status_code: delivery.statusCode,
    event: delivery.event,
    action: action ?? null,
    installation_id: installation?.id ?? null,
    repository_id: repository?.id ?? null,
    throttled_at: null,
  }
}
