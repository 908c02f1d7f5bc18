/** The jobs that are given to graphile-worker, BullMQ and pg-boss. */

export const TASK = { stored: 'stored', delivered: 'delivered' } as const

/** Of BullMQ, which tells jobs apart by their name; pg-boss has a queue for each task. */
export const BULLMQ_QUEUE = 'webhooks'

/** For a row that is stored already: its body comes in the job, so that no statement has to fetch it. */
export interface StoredJob {
  readonly webhookId: number
  readonly body: string
}

/** For a delivery of which the job is all there is. */
export interface DeliveredJob {
  readonly integrationId: number
  readonly deliveryId: string
  readonly eventType: string
  readonly body: string
  readonly headers: Readonly<Record<string, string>>
}
