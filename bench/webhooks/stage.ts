/** What the scenarios of this bench play on. */
import type { Client } from '@temporalio/client'
import type { Integration, Integrations } from 'durable-integrations'
import { workflowId } from '../../src/workflows/ids.ts'
import type { Child } from '../child.ts'
import { SECRET } from './delivery.ts'
import { PROVIDER } from './ours.ts'
import type { Sender } from './sender.ts'
import type { Tables } from './tables.ts'
import type { WorkerCommands } from './worker-process.ts'

export interface Stage {
  readonly tables: Tables
  /** Ours in this process: it creates integrations and wakes inboxes, nothing else. */
  readonly integrations: Integrations
  readonly temporal: Client
  /** To our API process. */
  readonly ours: Sender
  /** To the peers' API process. */
  readonly peer: Sender
  readonly worker: Child<WorkerCommands>
  /** The only integration that the peers know. */
  readonly peerIntegrationId: number
  readonly lengths: Lengths
  readonly say: (line: string) => void
}

export interface Lengths {
  readonly rounds: number
  /** Of a round of a closed loop. */
  readonly seconds: number
  /** Rows of a round that drains a backlog. */
  readonly backlog: number
  readonly idleDeliveries: number
}

/** Senders at once, in every closed loop. */
export const CONNECTIONS = 50

/** A new one of ours: each scenario has inboxes, and so histories, of its own. */
export function createIntegration(integrations: Integrations, provider: string = PROVIDER.quick): Promise<Integration> {
  return integrations.create({ provider, name: provider, credentials: { webhook_secret: SECRET } })
}

export const deliveryPath = ({ id, provider }: Pick<Integration, 'id' | 'provider'>): string =>
  `/integrations/${provider}/${id}/webhook`

/** Of an integration's inbox, which no scenario lets end. */
export const inboxId = ({ config }: Integrations, integrationId: number): string =>
  workflowId.webhookInbox(config.cache_prefix, integrationId)

/** Milliseconds since 1970 by this machine's clock, which is the database's, too. */
export const wallClock = (): number => Date.now()
