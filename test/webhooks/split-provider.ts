/** A provider whose deliveries are arrays of events. */
import type { HandlesWebhooks, WebhookPart } from '../../src/providers/contracts.ts'
import type { WebhookRequest } from '../../src/providers/webhook-request.ts'

export interface Thing {
  readonly id: string | null
  readonly type: string | null
  readonly key?: string
  readonly isPoisonous?: boolean
}

const splitThings = (request: WebhookRequest): WebhookPart[] =>
  (request.json() as unknown as Thing[]).map((thing) => ({ id: thing.id, type: thing.type, payload: { ...thing } }))

export function splitProvider(overrides: Partial<HandlesWebhooks> = {}): HandlesWebhooks {
  return {
    verifyWebhookSignature: () => true,
    webhookDeliveryId: (request) => request.headers.get('x-delivery'),
    splitWebhook: splitThings,
    handleWebhook: (_integration, request) => {
      if ((request.json() as unknown as Thing).isPoisonous === true) throw new Error('poison')
      return null
    },
    ...overrides,
  }
}
