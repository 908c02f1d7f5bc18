/** What every provider has to hold to, asked of ours: docs/testing.md, "The conformance suite". */
import { describeProvider } from 'durable-integrations/testing'
import { afterAll, describe, it } from 'vitest'
import { DesklineProvider } from '../deskline/provider.ts'
import { desklineSigner } from './deskline-signer.ts'
import { CLIENT, CREDENTIALS, NEXT, playedDeskline, ticket, WEBHOOK_SECRET } from './played-deskline.ts'

const list = [1, 2, 3, 4, 5].map((number) => ticket(number))
const delivery = (id: string) => ({
  id,
  type: 'ticket.updated',
  occurred_at: '2026-03-01T11:00:00.000Z',
  ticket: ticket(1),
})

describeProvider(
  'deskline',
  () => new DesklineProvider(CLIENT),
  {
    credentials: CREDENTIALS,
    secrets: [CLIENT.clientSecret, NEXT.access_token, NEXT.refresh_token],
    api: playedDeskline(list, [delivery('evt_3'), delivery('evt_4')]),
    write: (integration, idempotencyKey) =>
      new DesklineProvider(CLIENT)
        .for(integration)
        .createTicket({ subject: 'It is broken', requesterEmail: 'customer@example.com', idempotencyKey }),
    webhook: {
      signer: desklineSigner,
      body: delivery('evt_1'),
      otherBody: delivery('evt_2'),
      secret: WEBHOOK_SECRET,
      otherSecret: 'whsec_another-webhook-secret',
      signatureHeader: 'deskline-signature',
      toleranceSeconds: 300,
    },
    checkpoints: list.map(({ updated_at }) => updated_at),
    cursor: list[2]?.updated_at ?? null,
    window: { from: '2026-03-01T00:00:00Z', to: '2026-03-02T00:00:00Z' },
    // Of when the deliveries are.
    kit: { now: '2026-03-01T12:00:00Z' },
  },
  { describe, it, afterAll },
)
