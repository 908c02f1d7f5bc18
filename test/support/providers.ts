/** Providers and item events made for tests: all they do is what the test scripts. */
import { createHmac } from 'node:crypto'
import { z } from 'zod'
import { RateLimit } from '../../src/calls/rate-limit-rules.ts'
import type { Json } from '../../src/framework/json.ts'
import type { HandlesWebhooks, HasIncrementalSync, HasScheduledSync } from '../../src/providers/contracts.ts'
import { SyncItemEvent } from '../../src/providers/provider-events.ts'
import type { SyncSession } from '../../src/providers/sync-session.ts'
import { reduceCheckpointsByMax } from '../../src/syncs/checkpoint-rules.ts'

export const SECRET = 'whsec-of-the-tests'
export const TOKEN = 'token-of/the tests+1234'
export const CREDENTIALS = { token: TOKEN, webhook_secret: SECRET }

const SIGNATURE = { scheme: 'hmac', hash: 'sha256', header: 'x-signature', encoding: 'hex' } as const

/** Takes deliveries signed in `X-Signature` (HMAC-SHA256, hex), named in `X-Delivery` and typed in `X-Event`. */
export function webhookProvider(overrides: Partial<HandlesWebhooks> = {}): HandlesWebhooks {
  return {
    ...(overrides.verifyWebhookSignature === undefined ? { signature: SIGNATURE } : {}),
    webhookDeliveryId: (request) => request.headers.get('x-delivery'),
    resolveWebhookEvent: (request) => request.headers.get('x-event'),
    handleWebhook: () => ({ handled: true }),
    ...overrides,
  }
}

export function sign(body: string | Uint8Array, secret = SECRET): string {
  return createHmac('sha256', secret).update(body).digest('hex')
}

/** An item that any test may dispatch. */
export class ThingSynced extends SyncItemEvent<{ n: number }> {
  static override readonly type = 'test.thing'
  static override readonly schema = z.object({ n: z.number() })
}

/** Another one, so that a test can tell classes apart. */
export class OtherSynced extends SyncItemEvent<Json> {
  static override readonly type = 'test.other'
}

export type Lists = (session: SyncSession) => Promise<void> | void

/** Lists what the test says; the cursor is the greatest checkpoint. */
export function syncProvider(lists: Lists, overrides: Partial<HasScheduledSync> = {}): HasScheduledSync {
  return {
    sync: async (_integration, session) => lists(session),
    reduceCheckpoints: reduceCheckpointsByMax,
    defaultRateLimit: () => RateLimit.perMinute(60),
    defaultSyncInterval: () => 10,
    syncItemEvents: () => [ThingSynced, OtherSynced],
    ...overrides,
  }
}

export function incrementalProvider(
  lists: Lists,
  incremental: Lists,
  overrides: Partial<HasScheduledSync> = {},
): HasIncrementalSync {
  return { ...syncProvider(lists, overrides), syncIncremental: async (_integration, session) => incremental(session) }
}
