/** Statements that every release since the first one knows, one after the other, and how long the slowest of them took. */
import type { Sql } from 'postgres'

export interface Writing {
  /** Statements that wrote a webhook. */
  webhooksWritten(): number
  stop(): Promise<{ readonly statements: number; readonly longestMs: number; readonly slowest: string }>
}

const WEBHOOK = 'a webhook: stored, claimed, deleted'

/** Leaves the rows behind as they were. */
export function writeAllTheTime(sql: Sql): Writing {
  let isOver = false
  let statements = 0
  let webhooksWritten = 0
  let longestMs = 0
  let slowest = ''
  const timed = async (name: string, statement: () => Promise<unknown>): Promise<void> => {
    const startedAt = performance.now()
    await statement()
    const tookMs = performance.now() - startedAt
    statements += 1
    if (name === WEBHOOK) webhooksWritten += 1
    if (tookMs > longestMs) {
      longestMs = tookMs
      slowest = name
    }
  }
  const each = async (name: string, ...all: readonly (() => Promise<unknown>)[]): Promise<void> => {
    while (!isOver) for (const statement of all) await timed(name, statement)
  }
  const work = Promise.all([
    each(
      WEBHOOK,
      () =>
        sql`insert into integration_webhooks (integration_id, delivery_id, payload, headers) values (1, 'of the load', '{}', '{}')`,
      () => sql`update integration_webhooks set status = 'processing', claim = 'x' where delivery_id = 'of the load'`,
      () => sql`delete from integration_webhooks where integration_id = 1 and delivery_id = 'of the load'`,
    ),
    each(
      'a call: its row, deleted',
      () => sql`insert into integration_requests (integration_id, endpoint, method) values (1, 'of the load', 'GET')`,
      () => sql`delete from integration_requests where endpoint = 'of the load' and integration_id = 1`,
    ),
    each(
      'reads',
      () => sql`select id, status from integration_webhooks where integration_id = 1 order by id desc limit 1`,
      () => sql`select id from integration_sync_items where integration_id = 1 and status = 'pending' limit 1`,
      () => sql`select id from integration_mappings where integration_id = 1 and external_id = 'external-1'`,
    ),
  ])
  // Awaited at the stop; until then a rejection is not to count as unhandled.
  work.catch(() => {})
  return {
    webhooksWritten: () => webhooksWritten,
    async stop() {
      isOver = true
      await work
      return { statements, longestMs, slowest }
    },
  }
}
