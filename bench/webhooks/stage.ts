/** What the scenarios of this bench play on. */
import type { Client } from '@temporalio/client'
import type { Queue } from 'bullmq'
import type { Integration, Integrations } from 'durable-integrations'
import { workflowId } from '../../src/workflows/ids.ts'
import type { Child } from '../child.ts'
import { costOfAllRuns } from '../workflow-cost.ts'
import { SECRET } from './delivery.ts'
import { PROVIDER } from './ours.ts'
import type { PgBossCommands } from './pg-boss-process.ts'
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
  /** Null when BullMQ and pg-boss are left out. */
  readonly queues: Queues | null
  /** The only integration that the peers know. */
  readonly peerIntegrationId: number
  readonly lengths: Lengths
  readonly say: (line: string) => void
}

export interface Queues {
  /** As its page for production says, or with each write on disk before its answer, as Postgres has it. */
  fsyncRedis(when: 'everysec' | 'always'): Promise<unknown>
  readonly bullmq: Queue
  readonly pgBoss: Child<PgBossCommands>
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

/** A new one of ours. */
export function createIntegration(integrations: Integrations, provider: string = PROVIDER.quick): Promise<Integration> {
  return integrations.create({ provider, name: provider, credentials: { webhook_secret: SECRET } })
}

export const deliveryPath = ({ id, provider }: Pick<Integration, 'id' | 'provider'>): string =>
  `/integrations/${provider}/${id}/webhook`

/** What the inbox has cost so far. */
export const inboxCost = ({ temporal, integrations: { config } }: Pick<Stage, 'temporal' | 'integrations'>) =>
  costOfAllRuns(temporal, workflowId.webhookInbox(config.cache_prefix))

/** Milliseconds since 1970 by this machine's clock, which is the database's, too. */
export const wallClock = (): number => Date.now()
