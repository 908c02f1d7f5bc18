/** What the operator API shows of integrations, and what it writes down. Rule: docs/behaviour/operator-api.md. */

import type { IntegrationRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework/context.ts'
import { errorLine } from '../framework/logger.ts'
import { insertLog } from '../observability/log-queries.ts'
import type { SyncItemDetail } from '../syncs/items/item-list.ts'
import { showSyncItem } from '../syncs/items/item-list.ts'
import type { SyncStanding } from '../syncs/standing-queries.ts'
import type { WebhookDetail } from '../webhooks/list.ts'
import { showWebhook } from '../webhooks/list.ts'
import { openWork } from './list.ts'
import type { IntegrationFilter } from './queries.ts'
import { pageOfIntegrations, requireIntegration } from './queries.ts'

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

export interface NewestIntegrations extends IntegrationFilter {
  /** Ids below this one: the last of the page before. */
  readonly after?: number | undefined
}

/** A change that a person made over HTTP, or by a command. */
export interface OperatorAct {
  /** The token's name; of a command `cli:<user>`. */
  readonly token: string
  readonly action: string
  /** Such as `integration:7`. */
  readonly target: string
}

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

    /** @throws IntegrationNotFound */
    async detail(id: number): Promise<IntegrationDetail> {
      const [detail] = await detailsOf(framework, [await requireIntegration(framework, id)])
      return detail as IntegrationDetail
    },

    /** One webhook without secrets: for a screen. @throws WebhookNotFound */
    webhook: (id: number): Promise<WebhookDetail> => showWebhook(framework, id),

    /** One sync item without secrets: for a screen. @throws SyncItemNotFound */
    syncItem: (id: number): Promise<SyncItemDetail> => showSyncItem(framework, id),

    /** Writes a log row of a change that has been made. */
    async note(integrationId: number, act: OperatorAct): Promise<void> {
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
        // The change is made, so this is no failure of it: its record goes into the log instead.
        logger.error(
          { ...act, event: 'operator.change_not_recorded', error: errorLine(error, 500) },
          "The log row of an operator's change could not be written.",
        )
      }
    },
  }
}

async function detailsOf(framework: Framework, rows: readonly IntegrationRow[]): Promise<IntegrationDetail[]> {
  const work = await openWork(framework, rows)
  return rows.map(({ credentials, ...row }) => ({
    ...row,
    credentials: keysOf(() => framework.encryption.decrypt(row.id, credentials)),
    ...work(row.id),
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
