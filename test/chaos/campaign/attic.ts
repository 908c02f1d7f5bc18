/** Old rows of an integration that is switched off: some are finished, and pruning takes them; some wait, and it must not. */
import type { CampaignStack } from './stack.ts'

/** Of each kind, at each planting. */
const ROWS = 10

/** In one transaction: all kinds, or none. */
export async function plantOldRows({ sql, atticId }: Pick<CampaignStack, 'sql' | 'atticId'>): Promise<void> {
  const rows = sql`generate_series(1, ${ROWS}::int)`
  const old = sql`now() - interval '3 days'`
  await sql.begin((tx) => [
    ...(['processed', 'pending'] as const).map(
      (status) => tx`
        insert into integration_webhooks (integration_id, delivery_id, payload, headers, status, processed_at, created_at, updated_at)
        select ${atticId}, gen_random_uuid()::text, '{}', '{}', ${status}::varchar, ${status === 'processed' ? old : null},
          ${old}, ${old} from ${rows}`,
    ),
    ...(['success', 'failed', 'pending'] as const).map(
      (status) => tx`
        insert into integration_sync_items (integration_id, event_class, external_id, status, completed_at, created_at, updated_at, payload)
        select ${atticId}, 'campaign.listed', gen_random_uuid()::text, ${status}::varchar,
          ${status === 'pending' ? null : old}, ${old}, ${old}, '{}' from ${rows}`,
    ),
    tx`
      insert into integration_requests (integration_id, endpoint, method, created_at, updated_at)
      select ${atticId}, '/old', 'GET', ${old}, ${old} from ${rows}`,
    tx`
      insert into integration_idempotency_keys (integration_id, key, created_at, updated_at)
      select ${atticId}, gen_random_uuid()::text, ${old}, ${old} from ${rows}`,
    tx`
      insert into integration_logs (integration_id, operation, direction, status, created_at, updated_at)
      select ${atticId}, 'old', 'inbound', 'success', ${old}, ${old} from ${rows}`,
    tx`create table if not exists plantings (at timestamptz not null default now())`,
    tx`insert into plantings default values`,
  ])
}

export interface Attic {
  /** Rows that wait, and how many of them are there. */
  readonly waiting: { readonly planted: number; readonly there: number }
  /** Rows that are done, and how many of them are still there. */
  readonly finished: { readonly planted: number; readonly there: number }
}

export async function lookIntoAttic({ sql, atticId }: Pick<CampaignStack, 'sql' | 'atticId'>): Promise<Attic> {
  const [counts] = await sql<{ plantings: number; waiting: number; finished: number }[]>`
    select (select count(*)::int from plantings) as plantings,
      (select count(*)::int from integration_webhooks where integration_id = ${atticId} and status = 'pending')
        + (select count(*)::int from integration_sync_items where integration_id = ${atticId} and status in ('failed', 'pending'))
        as waiting,
      (select count(*)::int from integration_webhooks where integration_id = ${atticId} and status = 'processed')
        + (select count(*)::int from integration_sync_items where integration_id = ${atticId} and status = 'success')
        + (select count(*)::int from integration_requests where integration_id = ${atticId})
        + (select count(*)::int from integration_idempotency_keys where integration_id = ${atticId})
        + (select count(*)::int from integration_logs where integration_id = ${atticId} and operation = 'old') as finished`
  const planted = (counts?.plantings ?? 0) * ROWS
  return {
    waiting: { planted: 3 * planted, there: counts?.waiting ?? 0 },
    finished: { planted: 5 * planted, there: counts?.finished ?? 0 },
  }
}
