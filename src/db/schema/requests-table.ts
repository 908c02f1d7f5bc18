import type { AnyColumn, SQL } from 'drizzle-orm'
import { sql } from 'drizzle-orm'
import { check, index, integer, text } from 'drizzle-orm/pg-core'
import type { Name, TableFactory } from './columns.ts'
import { id, isOneOf, moment, oneOf, origin, reference, string, timestamps } from './columns.ts'
import type { IntegrationsTable } from './integrations-table.ts'
import { ofIntegration } from './integrations-table.ts'

export const FAILURE_CLASSES = ['upstream', 'throttle', 'client', 'unknown'] as const

/**
 * Whether a call failed, to the letter what the index says. `is not null` would lead the list of one class of an integration to it,
 * through the failures of all others.
 */
export const isFailure = (failureClass: AnyColumn | SQL): SQL => sql`coalesce(${failureClass}, '') <> ''`

/**
 * A failure without a class: it counts as `unknown`. The framework writes none; a host, or a log of before there were classes, may
 * have some. To the letter what the index says.
 */
export const isUnclassed = (failureClass: AnyColumn | SQL, error: AnyColumn | SQL): SQL =>
  sql`${failureClass} is null and ${error} is not null`

/** One row per call that reached a provider, retries included. Also the response cache. */
export const requestsTable = (table: TableFactory, name: Name, integrations: IntegrationsTable) =>
  table(
    name('_requests'),
    {
      id: id(),
      integrationId: reference('integration_id').notNull(),
      /** Logical endpoint or URL path. */
      endpoint: string('endpoint').notNull(),
      /** HTTP method or SDK operation. */
      method: string('method').notNull(),
      statusCode: integer('status_code'),
      /** Redacted, then cut. */
      requestData: text('request_data'),
      idempotencyKey: string('idempotency_key'),
      providerRequestId: string('provider_request_id'),
      /** Redacted, then cut. */
      responseData: text('response_data'),
      error: text('error'),
      /** Null on success. */
      failureClass: oneOf('failure_class', FAILURE_CLASSES),
      durationMs: integer('duration_ms'),
      /** Id of the first attempt, on every later one. No foreign key: pruning may take the first attempt earlier. */
      retryOf: reference('retry_of'),
      relatedType: string('related_type'),
      relatedId: reference('related_id'),
      cacheHits: integer('cache_hits').notNull().default(0),
      staleHits: integer('stale_hits').notNull().default(0),
      /** Until when the response may be served again; null when it may not. Ours, beyond the specification. */
      expiresAt: moment('expires_at'),
      /** SHA-256 in hex of what makes two calls the same. Ours, beyond the specification. */
      requestHash: string('request_hash', 64),
      origin: origin(),
      ...timestamps(),
    },
    (column) => [
      index(name('_requests_failure_class_idx')).on(column.integrationId, column.failureClass, column.createdAt),
      // What a spent idempotency key answered.
      index(name('_requests_idempotency_key_idx'))
        .on(column.integrationId, column.idempotencyKey)
        .where(sql`${column.idempotencyKey} is not null`),
      // The newest cached response of a call: read backwards. (Drizzle's desc() says NULLS LAST, which `order by id desc` can't use.)
      index(name('_requests_hash_idx'))
        .on(column.integrationId, column.requestHash, column.id)
        .where(sql`${column.expiresAt} is not null`),
      // Pruning, and figures of the last hours over all integrations.
      index(name('_requests_created_at_idx')).on(column.createdAt),
      // Pruning forgets the attempt that a surviving retry points to.
      index(name('_requests_retry_of_idx')).on(column.retryOf).where(sql`${column.retryOf} is not null`),
      // What a webhook, an item or a run has asked for.
      index(name('_requests_origin_idx')).on(column.origin, column.id).where(sql`${column.origin} is not null`),
      // By the id that a provider's support asks for.
      index(name('_requests_provider_id_idx'))
        .on(column.providerRequestId)
        .where(sql`${column.providerRequestId} is not null`),
      // What has failed lately.
      index(name('_requests_failed_at_idx')).on(column.createdAt).where(isFailure(column.failureClass)),
      // So that these few are found among the calls that succeeded, which have no class either.
      index(name('_requests_unclassed_idx')).on(column.createdAt).where(isUnclassed(column.failureClass, column.error)),
      ofIntegration(name('_requests_integration_fk'), column.integrationId, integrations),
      check(name('_requests_failure_class_check'), isOneOf(column.failureClass, FAILURE_CLASSES)),
    ],
  )
