import { createHmac } from 'node:crypto'
import type { WebhookSigner } from 'durable-integrations/testing'

/** `Deskline-Signature`: the time in seconds, and a digest of it and the body. */
export const desklineSigner: WebhookSigner = ({ body, secret, at }) => {
  const seconds = Math.floor(at.getTime() / 1000)
  const digest = createHmac('sha256', secret).update(`${seconds}.${body}`).digest('hex')
  return { 'deskline-signature': `t=${seconds},v1=${digest}` }
}
