/** Ours, as a host makes it: every default, its own logger included. */

import { setTimeout as sleep } from 'node:timers/promises'
import type { Integrations, IntegrationsOptions } from 'durable-integrations'
import { createIntegrations } from 'durable-integrations'
import type { HandlesWebhooks, WebhookRequest } from 'durable-integrations/provider'
import { SIGNATURE_HEADER } from './delivery.ts'

export interface OursOptions {
  readonly databaseUrl: string
  readonly temporalAddress: string
  readonly encryptionKey: string
}

export const PROVIDER = { quick: 'bench', slow: 'slow' } as const
export const SLOW_HANDLER_MS = 5_000

export function createOurs(options: OursOptions, more: Pick<IntegrationsOptions, 'logger'> = {}): Integrations {
  return createIntegrations({
    database: options.databaseUrl,
    temporal: { address: options.temporalAddress },
    encryptionKeys: `bench:${options.encryptionKey}`,
    providers: {
      [PROVIDER.quick]: providerWith(() => {}),
      [PROVIDER.slow]: providerWith(() => sleep(SLOW_HANDLER_MS)),
    },
    ...more,
  })
}

function providerWith(handleWebhook: HandlesWebhooks['handleWebhook']): HandlesWebhooks {
  return {
    signature: { scheme: 'hmac', hash: 'sha256', header: SIGNATURE_HEADER, encoding: 'hex' },
    webhookDeliveryId: (request) => stringAt(request, 'id'),
    resolveWebhookEvent: (request) => stringAt(request, 'type'),
    handleWebhook,
  }
}

function stringAt(request: WebhookRequest, key: 'id' | 'type'): string | null {
  const body = request.json() as { readonly id?: unknown; readonly type?: unknown } | undefined
  const value = body?.[key]
  return typeof value === 'string' ? value : null
}
