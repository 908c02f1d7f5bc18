import { createHmac } from 'node:crypto'
import type { TicketEvent } from './tickets.ts'

const TIMEOUT_MS = 10_000

export interface WebhookTarget {
  url: string
  secret: string
}

export interface SentDelivery {
  id: string
  type: string
  status: number
  body: string
}

/** One POST: sandbox/deskline/README.md, "Webhooks". */
export async function sendWebhook(
  { url, secret }: WebhookTarget,
  event: TicketEvent,
  now: Date,
): Promise<SentDelivery> {
  const body = JSON.stringify(event)
  const seconds = Math.floor(now.getTime() / 1000)
  const digest = createHmac('sha256', secret).update(`${seconds}.${body}`).digest('hex')
  const answer = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'deskline-signature': `t=${seconds},v1=${digest}` },
    body,
    redirect: 'manual',
    signal: AbortSignal.timeout(TIMEOUT_MS),
  })
  return { id: event.id, type: event.type, status: answer.status, body: await answer.text() }
}
