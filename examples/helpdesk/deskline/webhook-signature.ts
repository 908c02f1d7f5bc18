import { createHmac, timingSafeEqual } from 'node:crypto'
import type { WebhookRequest } from 'durable-integrations/provider'
import { isTimely, soleHeader } from 'durable-integrations/provider'

const TIME = /^t=(\d{1,12})$/
const DIGEST = /^v1=([0-9a-f]{64})$/

/** Whether `Deskline-Signature` holds a near time and a digest of it and the raw body under one of the secrets. */
export function isSigned(request: WebhookRequest, secrets: readonly string[]): boolean {
  const parts = soleHeader(request, 'deskline-signature')?.split(',') ?? []
  const times = parts.flatMap((part) => TIME.exec(part)?.[1] ?? [])
  const digests = parts.flatMap((part) => DIGEST.exec(part)?.[1] ?? [])
  const [time] = times
  if (time === undefined || times.length > 1 || !isTimely(request, Number(time))) return false
  // Every pair is compared, so that the time taken says nothing about which one matched.
  const matches = secrets.flatMap((secret) => {
    const expected = createHmac('sha256', secret).update(`${time}.`).update(request.rawBody).digest()
    return digests.map((digest) => timingSafeEqual(expected, Buffer.from(digest, 'hex')))
  })
  return matches.includes(true)
}
