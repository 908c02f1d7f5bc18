/** What the operator API shows of integrations, and what it writes down. Rule: docs/behaviour/operator-api.md. */

import { eq, sql } from 'drizzle-orm'
import type { Ownership, Principal } from '../access/rules.ts'
import { isLimited, sha256Hex, visible } from '../access/rules.ts'
import { withLock } from '../cache/lock.ts'
import { storedSecrets } from '../credentials/integration-secrets.ts'
import type { IntegrationRow, Tables } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { isIntegrationsError } from '../framework/errors.ts'
import { isId } from '../framework/id.ts'
import { newestFirst } from '../framework/list-filter.ts'
import { errorLine } from '../framework/logger.ts'
import { REDACTED, redactBody } from '../framework/redaction.ts'
import { recordAct } from '../observability/audit.ts'
import { insertLog } from '../observability/log-queries.ts'
import { trafficOfLastDay } from '../observability/traffic-queries.ts'
import { handlesWebhooks } from '../providers/contracts.ts'
import type { Integration } from '../providers/integration.ts'
import type { SyncItemDetail } from '../syncs/items/item-list.ts'
import { showSyncItem } from '../syncs/items/item-list.ts'
import type { SchedulePause } from '../syncs/pause-rules.ts'
import type { SyncStanding } from '../syncs/standing-queries.ts'
import { findSchedulePause } from '../syncs/standing-queries.ts'
import type { StreamStanding } from '../syncs/stream-list.ts'
import { streamStandings } from '../syncs/stream-list.ts'
import { webhookAddress } from '../webhooks/address.ts'
import type { WebhookDetail } from '../webhooks/list.ts'
import { showWebhook } from '../webhooks/list.ts'
import type { FormerSecret } from '../webhooks/secrets.ts'
import { formerSecrets, lacksWebhookSecret } from '../webhooks/secrets.ts'
import type { IntegrationSummary } from './list.ts'
import { checkIntegrationFilter, openWork, summariesOf } from './list.ts'
import type { IntegrationFilter } from './queries.ts'
import { pageOfIntegrations, requireIntegration } from './queries.ts'

/** Every column; of the credentials only the names of their keys, null when they can't be read. */
export type IntegrationDetail = Omit<IntegrationRow, 'credentials'> &
  SyncStanding & {
    readonly credentials: readonly string[] | null
    /** A person has to authorize it again. */
    readonly reauthRequired: boolean
  }

/** As a list has it. */
export type ListedIntegration = IntegrationDetail & IntegrationSummary

export interface IntegrationPage {
  readonly data: readonly IntegrationDetail[]
  /** The `after` of the next page; null on the last one. */
  readonly next: number | null
}

export interface NewestIntegrations extends IntegrationFilter {
  /** Ids below this one: the last of the page before. */
  readonly after?: number | undefined
}

export interface ListedIntegrations extends NewestIntegrations {
  readonly limit?: number | undefined
  /** False: the request log is not read, and the figures of 24 hours are null. Default true. */
  readonly traffic?: boolean | undefined
}

/** A change that a person made over HTTP, or by a command. */
export interface OperatorAct {
  /** The token's name; of a command `cli:<user>`. */
  readonly token: string
  readonly action: string
  /** Such as `integration:7`. */
  readonly target: string
  /** IP address, a command's host, or a workflow's id. */
  readonly from?: string | undefined
  /** One line that says more. No secrets. */
  readonly detail?: string | undefined
}

/** Kinds of records, as an act's target names them. */
export type RecordKind = keyof ReturnType<typeof recordTables>

/** A run that was asked for and has not begun. Rule: docs/behaviour/sync-scheduling.md, "Remembered starts". */
export interface RememberedStart {
  /** Empty: the integration's own. */
  readonly stream: string
  /** When one that follows the living run was first asked for; null: it was not. */
  readonly askedAt: Date | null
  /** When one begins that waits; null: none does. */
  readonly beginsAt: Date | null
}

/** The integration of a record. */
export interface RecordOwner extends Ownership {
  readonly integrationId: number
}

/** How long a form that was sent is known: longer than a session lasts. */
const FORM_SECONDS = 86_400
/** A change takes milliseconds, a deletion that cancels a run first some seconds. */
const CHANGE_LOCK = { ttlSeconds: 60, waitSeconds: 10 }

/** What the operator API needs beyond the object's own methods. */
export type OperatorView = ReturnType<typeof operatorView>

export function operatorView(framework: Framework) {
  const { db, tables, logger } = framework
  return {
    /** Newest first. */
    async page({ limit, after, ...filter }: NewestIntegrations & { readonly limit: number }): Promise<IntegrationPage> {
      // One more than asked for tells whether there is another page.
      const rows = await pageOfIntegrations(db, tables, filter, { order: 'newest first', after, limit: limit + 1 })
      const data = await detailsOf(framework, rows.slice(0, limit))
      return { data, next: rows.length > limit ? (data.at(-1)?.id ?? null) : null }
    },

    /** The same, one at a time, with the traffic of the last 24 hours. @throws InvalidArgumentException at once */
    list({ limit, after, traffic = true, ...filter }: ListedIntegrations = {}) {
      checkIntegrationFilter(filter)
      return newestFirst(
        async ({ below, limit }) =>
          listed(
            framework,
            await pageOfIntegrations(db, tables, filter, { order: 'newest first', after: below, limit }),
            traffic,
          ),
        { after, limit },
      )
    },

    /** @throws IntegrationNotFound */
    async detail(id: number): Promise<IntegrationDetail> {
      const [detail] = await detailsOf(framework, [await requireIntegration(framework, id)])
      return detail as IntegrationDetail
    },

    /** Its metadata as JSON, without what its credentials hold: for a screen. @throws IntegrationNotFound */
    async shownMetadata(id: number): Promise<string> {
      const { metadata } = await requireIntegration(framework, id)
      const secrets = await storedSecrets(framework, id)
      return secrets === null ? REDACTED : redactBody(JSON.stringify(metadata ?? null), secrets)
    },

    /** Where its webhooks go: an address, or the path without a base URL; null: its provider takes none, or is not registered. */
    webhookAddress(of: Pick<IntegrationDetail, 'id' | 'provider'>): string | null {
      const provider = framework.providers.find(of.provider)
      return provider !== null && handlesWebhooks(provider) ? webhookAddress(framework, of) : null
    },

    /** Whether each of its deliveries is refused for want of a webhook secret. */
    lacksWebhookSecret: (integration: Integration): boolean => lacksWebhookSecret(framework, integration),

    /** Where each of its streams stands; none where its provider has one `sync()`. @throws IntegrationNotFound */
    streams: async (id: number): Promise<readonly StreamStanding[]> =>
      streamStandings(framework, await requireIntegration(framework, id)),

    /** Of the Schedule that starts due syncs, as a worker has noted it. */
    schedulePause: (): Promise<SchedulePause | null> => findSchedulePause(framework),

    remembered: (id: number): Promise<RememberedStart[]> =>
      db
        .select({
          stream: tables.syncStarts.stream,
          askedAt: tables.syncStarts.againAt,
          beginsAt: tables.syncStarts.laterAt,
        })
        .from(tables.syncStarts)
        .where(eq(tables.syncStarts.integrationId, id)),

    /**
     * Each former webhook secret that still verifies deliveries: when it ends, and when it has verified one last. None where the
     * credentials can't be read.
     */
    async formerWebhookSecrets(id: number): Promise<readonly FormerSecret[]> {
      const row = await requireIntegration(framework, id)
      try {
        return await formerSecrets(framework, row, framework.encryption.decrypt(id, row.credentials))
      } catch (error) {
        if (!isIntegrationsError(error, 'credentials_unreadable')) throw error
        return []
      }
    },

    /** One webhook without secrets: for a screen. @throws WebhookNotFound */
    webhook: (id: number): Promise<WebhookDetail> => showWebhook(framework, id),

    /** One sync item without secrets: for a screen. @throws SyncItemNotFound */
    syncItem: (id: number): Promise<SyncItemDetail> => showSyncItem(framework, id),

    /**
     * Writes a change that has been made into the audit, and into the logs of its integration. Never throws.
     *
     * @param integrationId null: it is about none, such as pruning
     */
    async note(integrationId: number | null, { token: by, ...act }: OperatorAct): Promise<void> {
      try {
        await recordAct(db, tables, integrationId, { by, ...act })
        if (integrationId === null) return
        await insertLog(db, tables, {
          integrationId,
          operation: 'operator',
          direction: 'inbound',
          status: 'success',
          summary: `${act.action} by ${by}`,
          metadata: { token: by, ...act },
        })
      } catch (error) {
        // The change is made, so this is no failure of it: its record goes into the log instead.
        logger.error(
          { token: by, ...act, event: 'operator.change_not_recorded', error: errorLine(error, 500) },
          "The record of an operator's change could not be written.",
        )
      }
    },

    /**
     * One change of a record after the other, in whichever process: what was compared before it is still so when it is made.
     *
     * @throws LockTimeoutException
     */
    inTurn: <T>(record: string, change: () => Promise<T>): Promise<T> =>
      withLock(framework.cache, `operator-change:${record}`, CHANGE_LOCK, change),

    /**
     * The work of a form, once: the same form that was sent again, or twice at the same moment, changes nothing.
     *
     * @param form an id that was made with the form
     * @returns null: it was sent before. After a failure it may be sent again.
     */
    async once<T>(form: string, work: () => Promise<T>): Promise<T | null> {
      const key = `operator-form:${sha256Hex(form)}`
      if (!(await framework.cache.add(key, true, FORM_SECONDS))) return null
      try {
        return await work()
      } catch (error) {
        await framework.cache.delete(key)
        throw error
      }
    },

    /** The integration of a record; null: there is no such record. */
    ownerOf: (kind: RecordKind, id: number): Promise<RecordOwner | null> => ownerOfRecord(framework, kind, id),

    /** Whether a caller may know of a record. False: it is answered as one that does not exist. */
    async maySee(principal: Principal, kind: RecordKind, id: number): Promise<boolean> {
      if (!isLimited(principal)) return true
      const owner = await ownerOfRecord(framework, kind, id)
      return owner !== null && visible(principal, owner)
    },
  }
}

function recordTables({
  webhooks,
  syncItems,
  logs,
  incidents,
  requests,
  mappings,
  events,
  idempotencyKeys,
  integrations,
}: Tables) {
  return {
    integration: integrations,
    webhook: webhooks,
    'sync-item': syncItems,
    'sync-run': logs,
    log: logs,
    incident: incidents,
    request: requests,
    mapping: mappings,
    event: events,
    'idempotency-key': idempotencyKeys,
  }
}

async function ownerOfRecord({ db, tables }: Framework, kind: RecordKind, id: number): Promise<RecordOwner | null> {
  if (!isId(id)) return null
  const { integrations } = tables
  const table = recordTables(tables)[kind]
  const ownId = 'integrationId' in table ? table.integrationId : table.id
  const [row] = await db
    .select({
      integrationId: integrations.id,
      provider: integrations.provider,
      ownerType: integrations.ownerType,
      ownerId: integrations.ownerId,
    })
    .from(integrations)
    .where(eq(integrations.id, sql`(select ${ownId} from ${table} where ${table.id} = ${id})`))
  return row ?? null
}

async function detailsOf(framework: Framework, rows: readonly IntegrationRow[]): Promise<IntegrationDetail[]> {
  const work = await openWork(framework, rows)
  return rows.map((row) => ({ ...withoutCredentials(framework, row), ...work(row.id) }))
}

async function listed(
  framework: Framework,
  rows: readonly IntegrationRow[],
  withTraffic: boolean,
): Promise<ListedIntegration[]> {
  if (rows.length === 0) return []
  const ids = rows.map(({ id }) => id)
  const traffic = withTraffic ? await trafficOfLastDay(framework, ids) : null
  const summaries = await summariesOf(framework, rows, traffic)
  return rows.map((row, at) => ({ ...withoutCredentials(framework, row), ...(summaries[at] as IntegrationSummary) }))
}

function withoutCredentials({ encryption }: Framework, { credentials, ...row }: IntegrationRow) {
  return { ...row, credentials: keysOf(() => encryption.decrypt(row.id, credentials)) }
}

/** A row whose credentials can't be read is listed all the same: docs/behaviour/credentials.md. */
function keysOf(decrypt: () => Record<string, unknown>): readonly string[] | null {
  try {
    return Object.keys(decrypt()).sort()
  } catch {
    return null
  }
}
