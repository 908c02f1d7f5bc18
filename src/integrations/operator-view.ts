/** What the operator API shows of integrations, and what it writes down. Rule: docs/behaviour/operator-api.md. */

import type { IntegrationRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { IntegrationNotFound } from '../framework/errors.ts'
import { errorLine } from '../framework/logger.ts'
import { neededReauthMarks } from '../oauth/reauth-list.ts'
import { insertLog } from '../observability/log-queries.ts'
import type { SyncItemDetail } from '../syncs/items/item-list.ts'
import { showSyncItem } from '../syncs/items/item-list.ts'
import type { SyncStanding } from '../syncs/standing-queries.ts'
import { syncStandings } from '../syncs/standing-queries.ts'
import type { WebhookDetail } from '../webhooks/list.ts'
import { showWebhook } from '../webhooks/list.ts'
import type { NewestIntegrations } from './operator-queries.ts'
import { newestIntegrations } from './operator-queries.ts'
import { findIntegration } from './queries.ts'

/** Every column; of the credentials only the names of their keys, null when they can't be read. */
export type IntegrationDetail = Omit<IntegrationRow, 'credentials'> &
  SyncStanding & {
    readonly credentials: readonly string[] | null
    /** A person has to authorize it again. */
    readonly reauthRequired: boolean
  }

export interface IntegrationPage {
  readonly data: readonly IntegrationDetail[]
  /** The `after` of the next page; null on the last one. */
  readonly next: number | null
}

/** A change that somebody asked for over HTTP, or by a command. */
export interface OperatorAct {
  /** The token's name; of a command `cli:<user>`. */
  readonly token: string
  readonly action: string
  /** Such as `integration:7`. */
  readonly target: string
}

/** What the operator API needs beyond the object's own methods. */
export interface OperatorView {
  /** Newest first. */
  page(filter: NewestIntegrations & { readonly limit: number }): Promise<IntegrationPage>
  /** @throws IntegrationNotFound */
  detail(id: number): Promise<IntegrationDetail>
  /** One webhook without secrets: for a screen. @throws WebhookNotFound */
  webhook(id: number): Promise<WebhookDetail>
  /** One sync item without secrets: for a screen. @throws SyncItemNotFound */
  syncItem(id: number): Promise<SyncItemDetail>
  /** Writes a log row of a change that has been made. */
  note(integrationId: number, act: OperatorAct): Promise<void>
}

export function operatorView(framework: Framework): OperatorView {
  const { db, tables, logger } = framework
  return {
    async page({ limit, ...filter }) {
      // One more than asked for tells whether there is another page.
      const rows = await newestIntegrations(db, tables, filter, limit + 1)
      const data = await detailsOf(framework, rows.slice(0, limit))
      return { data, next: rows.length > limit ? (data.at(-1)?.id ?? null) : null }
    },

    async detail(id) {
      const row = await findIntegration(db, tables, id)
      if (row === null) throw new IntegrationNotFound(id)
      const [detail] = await detailsOf(framework, [row])
      return detail as IntegrationDetail
    },

    webhook: (id) => showWebhook(framework, id),

    syncItem: (id) => showSyncItem(framework, id),

    async note(integrationId, act) {
      try {
        await insertLog(db, tables, {
          integrationId,
          operation: 'operator',
          direction: 'inbound',
          status: 'success',
          summary: `${act.action} by ${act.token}`,
          metadata: { ...act },
        })
      } catch (error) {
        // The change is made and can't be called a failure any more: its record goes where it can still be written.
        logger.error(
          { ...act, event: 'operator.change_not_recorded', error: errorLine(error, 500) },
          "The log row of an operator's change could not be written.",
        )
      }
    },
  }
}

async function detailsOf(framework: Framework, rows: readonly IntegrationRow[]): Promise<IntegrationDetail[]> {
  const ids = rows.map((row) => row.id)
  const marks = await neededReauthMarks(framework, ids)
  const standings = await syncStandings(framework.db, framework.tables, ids)
  return rows.map(({ credentials, ...row }) => ({
    ...row,
    credentials: keysOf(() => framework.encryption.decrypt(row.id, credentials)),
    reauthRequired: marks.has(row.id),
    ...(standings.get(row.id) ?? { failedItems: 0, waitingItems: 0, lastRun: null }),
  }))
}

/** A row whose credentials can't be read is listed all the same: docs/behaviour/credentials.md. */
function keysOf(decrypt: () => Record<string, unknown>): readonly string[] | null {
  try {
    return Object.keys(decrypt())
  } catch {
    return null
  }
}
