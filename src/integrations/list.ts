/** Integrations by ascending id, page by page. Rule: docs/behaviour/integrations.md, "The list". */

import type { IntegrationRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { InvalidArgumentException } from '../framework/errors.ts'
import { isId } from '../framework/id.ts'
import type { Integration } from '../providers/integration.ts'
import { integrationHandle } from './handle.ts'
import { HealthStatus } from './health-rules.ts'
import type { Owner } from './owner.ts'
import { checkOwner } from './owner.ts'
import { pageOfIntegrations } from './queries.ts'

const PAGE = 100

export interface ListIntegrations {
  readonly provider?: string
  readonly active?: boolean
  readonly health?: HealthStatus
  /** Whether the integration counts as stale (`sync_stale_alerted_at` is set). */
  readonly stale?: boolean
  readonly owner?: Owner
  /** Ids greater than this one. */
  readonly after?: number
  /** At most so many; at least 1. */
  readonly limit?: number
}

/** @throws InvalidArgumentException at once, before anything is read */
export function listIntegrations(framework: Framework, filter: ListIntegrations = {}): AsyncIterable<Integration> {
  return handles(framework, integrationPages(framework, filter))
}

async function* handles(framework: Framework, pages: AsyncIterable<IntegrationRow[]>): AsyncGenerator<Integration> {
  for await (const rows of pages) for (const row of rows) yield integrationHandle(framework, row)
}

/** The rows that a filter selects, 100 at a time. @throws InvalidArgumentException at once */
export function integrationPages(framework: Framework, filter: ListIntegrations): AsyncIterable<IntegrationRow[]> {
  check(filter)
  return pages(framework, filter)
}

async function* pages(
  { db, tables }: Framework,
  { after = 0, limit = Number.POSITIVE_INFINITY, ...filter }: ListIntegrations,
): AsyncGenerator<IntegrationRow[]> {
  let last = after
  for (let left = limit; left > 0; ) {
    const size = Math.min(PAGE, left)
    const rows = await pageOfIntegrations(db, tables, filter, last, size)
    if (rows.length > 0) yield rows
    if (rows.length < size) return
    last = rows.at(-1)?.id ?? last
    left -= rows.length
  }
}

function check({ provider, active, health, stale, owner, after, limit }: ListIntegrations): void {
  const statuses: readonly unknown[] = Object.values(HealthStatus)
  if (provider !== undefined && (typeof provider !== 'string' || provider.includes('\u0000')))
    throw new InvalidArgumentException('provider', "a provider's identifier is allowed")
  for (const [name, value] of Object.entries({ active, stale }))
    if (value !== undefined && typeof value !== 'boolean')
      throw new InvalidArgumentException(name, `true or false is allowed, ${String(value)} was given`)
  if (health !== undefined && !statuses.includes(health))
    throw new InvalidArgumentException('health', `${statuses.join(', ')} are allowed, ${String(health)} was given`)
  if (checkOwner(owner) === null) throw new InvalidArgumentException('owner', 'a type and an id are needed')
  if (after !== undefined && after !== 0 && !isId(after))
    throw new InvalidArgumentException('after', `an id or 0 is allowed, ${String(after)} was given`)
  if (limit !== undefined && !isId(limit))
    throw new InvalidArgumentException('limit', `an integer of at least 1 is allowed, ${String(limit)} was given`)
}
