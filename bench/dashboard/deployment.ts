/** The deployment that the bench and its API process share. */
import { createHash } from 'node:crypto'
import type { Integrations } from 'durable-integrations'
import { createIntegrations } from 'durable-integrations'
import type { HasScheduledSync } from 'durable-integrations/provider'
import { RateLimit, reduceCheckpointsByMax } from 'durable-integrations/provider'
import { PROVIDERS } from './fill.ts'

export interface DeploymentOptions {
  readonly database: string
  readonly encryptionKeys: string
  /** Of the one operator. */
  readonly token: string
}

export function deployment({ database, encryptionKeys, token }: DeploymentOptions): Integrations {
  const sha256 = createHash('sha256').update(token).digest('hex')
  return createIntegrations({
    database,
    encryptionKeys,
    providers: Object.fromEntries(PROVIDERS.map((name) => [name, provider])),
    config: { operator: { tokens: [{ name: 'bench', sha256, scopes: ['read', 'operate'] }] } },
    logger: { debug: () => {}, info: () => {}, warn: shown, error: shown },
  })
}

/** What makes pages show intervals, limits and breakers; nothing runs. */
const provider: HasScheduledSync = {
  sync: async () => {},
  reduceCheckpoints: reduceCheckpointsByMax,
  defaultRateLimit: () => RateLimit.perMinute(600),
  defaultSyncInterval: () => 60,
  syncItemEvents: () => [],
}

function shown(fields: Record<string, unknown>, message: string): void {
  console.error(message, fields)
}
