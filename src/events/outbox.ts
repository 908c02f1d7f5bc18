/** The outbox as an operator sees it. Rule: docs/behaviour/events.md, "Looking". */

import type { Framework } from '../framework/context.ts'
import { InvalidArgumentException } from '../framework/errors.ts'
import { givenNowMs } from '../framework/logger.ts'
import { countOutbox, forgetGivenUp, listGivenUp } from './outbox-queries.ts'
import { hasDueEvents } from './queries.ts'

const DEFAULT_LIMIT = 20
const MAX_LIMIT = 1_000

export interface OutboxStatus {
  /** Rows that are not done with, those that wait for another try included. */
  readonly waiting: number
  /** Of them: those that have failed at least once. */
  readonly retrying: number
  readonly oldestAt: Date | null
  /** Of the last seven days: deliveries to one listener or target that were given up. */
  readonly givenUp: readonly {
    readonly eventId: number
    readonly name: string
    readonly integrationId: number
    readonly listener: string
    readonly error: string
    readonly createdAt: Date
  }[]
}

/** @param options `limit`: of the given-up ones, newest first; default 20 */
export async function outboxStatus(
  { db, tables }: Framework,
  { limit = DEFAULT_LIMIT }: { readonly limit?: number } = {},
): Promise<OutboxStatus> {
  if (!Number.isInteger(limit) || limit < 0 || limit > MAX_LIMIT)
    throw new InvalidArgumentException('limit', `whole numbers from 0 to ${MAX_LIMIT} are allowed, ${limit} was given`)
  return { ...(await countOutbox(db, tables)), givenUp: await listGivenUp(db, tables, limit) }
}

/** Gives what was given up in the last seven days another ten tries. @returns rows */
export async function retryGivenUp(
  { db, tables, clock, workflows }: Framework,
  { eventId }: { readonly eventId?: number } = {},
): Promise<number> {
  if (eventId !== undefined && (!Number.isSafeInteger(eventId) || eventId < 1))
    throw new InvalidArgumentException('eventId', `the id of an event is allowed, ${eventId} was given`)
  const rows = await forgetGivenUp(db, tables, { eventId: eventId ?? null, nowMs: givenNowMs({ clock }) })
  if (rows > 0) workflows.wakeOutbox()
  return rows
}

/** Wakes the outbox, unless it has promised to look, if rows wait: for what a process that died had no time to say. @returns whether it did */
export async function wakePendingOutbox({ db, tables, clock, config, workflows }: Framework): Promise<boolean> {
  const isWoken = await hasDueEvents(db, tables, { prefix: config.cache_prefix, nowMs: givenNowMs({ clock }) })
  if (isWoken) workflows.wakeOutbox()
  return isWoken
}
