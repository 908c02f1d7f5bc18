/** Webhooks as they are listed and shown. Rule: docs/behaviour/webhook-replay.md, "The list" and "One webhook". */

import type { SQL } from 'drizzle-orm'
import { and, eq, getTableColumns, gte, isNotNull, isNull, lt, sql } from 'drizzle-orm'
import { storedSecrets } from '../credentials/integration-secrets.ts'
import type { Database } from '../db/client.ts'
import type { IntegrationLabels, IntegrationSelection } from '../db/integrations-of.ts'
import { belongsToThem, fewIntegrations, integrationColumns, newestSince } from '../db/integrations-of.ts'
import { newestBy, newestOfEach, ofFew } from '../db/newest-of-each.ts'
import type { Tables, WebhookRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { WebhookNotFound } from '../framework/errors.ts'
import { isId } from '../framework/id.ts'
import type { Page } from '../framework/list-filter.ts'
import {
  checkBooleans,
  checkChoice,
  checkIds,
  checkPeriod,
  checkTexts,
  newestFirst,
  searchedSince,
} from '../framework/list-filter.ts'
import { REDACTED, redactBody } from '../framework/redaction.ts'
import { redacted } from '../framework/redaction-thread.ts'
import { checkOwnerFilter } from '../integrations/rules.ts'
import { withDeliveryHeaders } from './parts.ts'
import { isNotErased } from './queries.ts'
import { PSEUDO_HEADER, WEBHOOK_STATUSES } from './rules.ts'

/** Which rows are meant; what is given adds up. */
export interface WebhookFilter extends Omit<IntegrationSelection, 'integrationId'> {
  readonly integration?: number | undefined
  readonly status?: WebhookRow['status'] | undefined
  /** True: failed ones that were dismissed, and no others. Default false: those are left out. */
  readonly dismissed?: boolean | undefined
  /** The events of this delivery, by the number of its row. */
  readonly delivery?: number | undefined
  /** The event type, as stored. */
  readonly event?: string | undefined
  /** Stored at this moment or after it. */
  readonly since?: Date | undefined
  /** Stored before this moment. */
  readonly until?: Date | undefined
}

/** All but what was delivered: a payload may be of a megabyte. */
export interface WebhookSummary extends Omit<WebhookRow, 'payload' | 'headers'>, IntegrationLabels {
  /** False: what was delivered has been erased or pruned, and it is not replayed any more. */
  readonly hasPayload: boolean
}

export interface ListWebhooks extends WebhookFilter {
  /** Listed behind the one of this id. */
  readonly after?: number | undefined
  /** At least 1. Default: no limit. */
  readonly limit?: number | undefined
}

export interface WebhookDetail extends WebhookSummary {
  /** Lower-case name to values; names that start with a colon are ours. */
  readonly headers: Readonly<Record<string, readonly string[]>>
  /** What was delivered; the empty text once it has been erased or pruned. */
  readonly payload: string
  /** `text`: the payload is what was delivered; `base64`: it is that, encoded. */
  readonly encoding: 'text' | 'base64'
}

/** Newest first, without payloads and headers. @throws InvalidArgumentException at once, before anything is read */
export function listWebhooks(framework: Framework, filter: ListWebhooks = {}): AsyncIterable<WebhookSummary> {
  const { after, limit, ...which } = filter
  checkFilter(which)
  checkIds({ after, limit })
  return webhooksOf(framework, which, { after, limit })
}

async function* webhooksOf(
  { db, tables, clock }: Framework,
  filter: WebhookFilter,
  range: Pick<ListWebhooks, 'after' | 'limit'>,
): AsyncGenerator<WebhookSummary> {
  const { delivery } = filter
  const since = filter.since ?? (isSearched(filter) ? searchedSince(filter.until, clock.now()) : undefined)
  // The events of a delivery have an index of their own.
  const few = delivery === undefined ? await fewIntegrations(db, tables, selection(filter)) : null
  if (few === null)
    yield* newestSince(
      { db, tables },
      tables.webhooks,
      delivery === undefined ? since : undefined,
      range,
      (page, from) => pageOfWebhooks(db, tables, { ...filter, since }, null, page, from),
    )
  else yield* newestFirst((page) => pageOfWebhooks(db, tables, { ...filter, since }, few, page), range)
}

/** Whether no index leads to the rows: of an event type, over all integrations, and in any status or one that most rows have. */
function isSearched({ integration, delivery, event, status, dismissed }: WebhookFilter): boolean {
  const isOfMany = (status === undefined || status === 'processed') && dismissed !== true
  return event !== undefined && integration === undefined && delivery === undefined && isOfMany
}

/** The row with the very bytes that were delivered: for code, and not for a screen. @throws WebhookNotFound */
export async function getWebhook({ db, tables }: Framework, id: number): Promise<WebhookDetail> {
  const found = isId(id) ? await findWebhook(db, tables, id) : null
  if (found === null) throw new WebhookNotFound(id)
  const row = await withDeliveryHeaders(db, tables, found)
  const hasPayload = found.payload !== '' || Object.keys(found.headers).length > 0
  return { ...row, hasPayload, encoding: row.headers[PSEUDO_HEADER.encoding]?.[0] === 'base64' ? 'base64' : 'text' }
}

/**
 * The same for people. Texts of the integration's credentials are redacted, since some providers send their secret along as it is. With
 * credentials that cannot be read it shows nothing that was delivered.
 *
 * @throws WebhookNotFound
 */
export async function showWebhook(framework: Framework, id: number): Promise<WebhookDetail> {
  const webhook = await getWebhook(framework, id)
  const secrets = await storedSecrets(framework, webhook.integrationId)
  const shown = (value: string): string => (secrets === null ? REDACTED : redactBody(value, secrets))
  const headers = Object.entries(webhook.headers).map(
    ([name, values]) => [name, name === PSEUDO_HEADER.encoding ? values : values.map(shown)] as const,
  )
  return {
    ...webhook,
    headers: Object.fromEntries(headers),
    payload: secrets === null ? REDACTED : await shownPayload(webhook, secrets),
  }
}

async function shownPayload({ payload, encoding }: WebhookDetail, secrets: readonly string[]): Promise<string> {
  if (encoding === 'text') return redacted(payload, 'redactBody', payload, secrets)
  // A character a byte, so that all others stay as they are; the secrets are spelled so, too.
  const bytes = Buffer.from(payload, 'base64').toString('latin1')
  return Buffer.from(await redacted(bytes, 'redactText', bytes, secrets), 'latin1').toString('base64')
}

/** @throws InvalidArgumentException */
export function checkFilter(filter: WebhookFilter): void {
  const { integration, provider, owner, status, dismissed, delivery, event, since, until } = filter
  checkIds({ integration, delivery })
  checkTexts({ provider, event })
  checkOwnerFilter(owner)
  checkChoice('status', status, WEBHOOK_STATUSES)
  checkBooleans({ dismissed })
  checkPeriod(since, until)
}

/**
 * Of few integrations: the newest of each, by the time, or by the id where an index has the failed ones. Of all: by the id.
 *
 * @param few ids of the integrations; null: many, or all
 * @param from of all: no id below this one
 */
export function pageOfWebhooks(
  db: Database,
  tables: Tables,
  filter: WebhookFilter,
  few: readonly number[] | null,
  page: Page,
  from?: number,
) {
  const { webhooks } = tables
  const { below, limit } = page
  const { payload: _payload, headers: _headers, ...columns } = getTableColumns(webhooks)
  const ofAll = and(
    ...selected(tables, filter),
    below === undefined ? undefined : lt(webhooks.id, below),
    from === undefined ? undefined : gte(webhooks.id, from),
  )
  const ofEach = and(...conditionsOf(webhooks, filter))
  const by = few === null || filter.status === 'failed' || filter.dismissed === true ? 'id' : 'time'
  return db
    .select({
      ...columns,
      ...integrationColumns(tables, sql`${webhooks}.integration_id`),
      hasPayload: sql<boolean>`${isNotErased(webhooks)}`,
    })
    .from(webhooks)
    .where(
      few === null
        ? ofAll
        : sql`${webhooks.id} in (${newestOfEach(webhooks, ofFew(few, webhooks.integrationId, ofEach), by, page)})`,
    )
    .orderBy(...newestBy(webhooks, by))
    .limit(limit)
}

async function findWebhook(db: Database, tables: Tables, id: number): Promise<(WebhookRow & IntegrationLabels) | null> {
  const { webhooks } = tables
  const [row] = await db
    .select({ ...getTableColumns(webhooks), ...integrationColumns(tables, sql`${webhooks}.integration_id`) })
    .from(webhooks)
    .where(eq(webhooks.id, id))
  return row ?? null
}

/** The conditions of a filter. Those on the integration are a question of their own, so that its row is never locked along. */
export function selected(tables: Tables, filter: WebhookFilter): SQL[] {
  const { webhooks } = tables
  const { integration, status, dismissed, delivery } = filter
  const conditions = conditionsOf(webhooks, filter)
  // Said for the index of those of all integrations, by id.
  if (status === 'failed' && dismissed !== true && integration === undefined && delivery === undefined)
    conditions.push(sql`${webhooks.id} > 0`)
  const isOfThem = belongsToThem(tables, sql`${webhooks.integrationId}`, selection(filter))
  if (isOfThem !== undefined) conditions.push(isOfThem)
  return conditions
}

function selection({ integration, provider, owner }: WebhookFilter): IntegrationSelection {
  return { integrationId: integration, provider, owner }
}

/** All but those on the integration. */
function conditionsOf(
  webhooks: Tables['webhooks'],
  { status, dismissed = false, delivery, event, since, until }: WebhookFilter,
): SQL[] {
  const conditions: SQL[] = [dismissed ? isNotNull(webhooks.dismissedAt) : isNull(webhooks.dismissedAt)]
  if (status !== undefined) conditions.push(eq(webhooks.status, status))
  // Only failed ones are dismissed: an index has these alone.
  if (dismissed) conditions.push(eq(webhooks.status, 'failed'))
  if (delivery !== undefined) conditions.push(eq(webhooks.partOf, delivery))
  if (event !== undefined) conditions.push(eq(webhooks.eventType, event))
  if (since !== undefined) conditions.push(gte(webhooks.createdAt, since))
  if (until !== undefined) conditions.push(lt(webhooks.createdAt, until))
  return conditions
}
