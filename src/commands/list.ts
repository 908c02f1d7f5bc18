import type { Command } from 'commander'
import { Option } from 'commander'
import { activeText } from '../integrations/rules.ts'
import { limit, owner } from './cli/arguments.ts'
import type { Frame } from './cli/frame.ts'
import { table } from './cli/table.ts'

const HEALTH = ['healthy', 'degraded', 'failing', 'disabled'] as const
const DEFAULT_LIMIT = 100

interface Filters {
  readonly provider?: string
  readonly owner?: { readonly type: string; readonly id: number }
  readonly health?: (typeof HEALTH)[number]
  readonly active?: boolean
  readonly inactive?: boolean
  readonly stale?: boolean
  readonly limit: number
}

/** `integrations list`: the integrations with their health and the traffic of the last 24 hours. */
export function listCommand(frame: Frame): Command {
  return frame
    .command('list', 'Lists integrations with their health and the traffic of the last 24 hours.', [
      'integrations list --health failing',
      'integrations list --provider github --stale --json',
      'integrations list --owner team:7',
    ])
    .option('--provider <key>', 'only of this provider')
    .option('--owner <type:id>', 'only of this owner', owner)
    .addOption(new Option('--health <status>', 'only of this health').choices(HEALTH))
    .addOption(new Option('--active', 'only those that are switched on').conflicts('inactive'))
    .option('--inactive', 'only those that are switched off')
    .option('--stale', 'only those whose syncs are overdue')
    .option('--limit <n>', 'at most so many', limit, DEFAULT_LIMIT)
    .action(
      frame.action(async ({ integrations, warn }, { limit, active, inactive, ...filters }: Filters) => {
        const rows: Row[] = []
        // One more than asked for says whether there is more.
        const wanted = { ...filters, ...switchedOn(active, inactive), limit: limit + 1 }
        for await (const summary of integrations.admin.summaries(wanted)) rows.push(rowOf(summary))
        if (rows.length > limit) {
          warn(`There are more than ${limit}; --limit shows more.`)
          rows.length = limit
        }
        return { document: rows, text: rows.length === 0 ? 'No integrations.' : textOf(rows) }
      }),
    )
}

function switchedOn(active?: boolean, inactive?: boolean): { active?: boolean } {
  if (active) return { active: true }
  return inactive ? { active: false } : {}
}

type Summary =
  ReturnType<import('../create-integrations.ts').Integrations['admin']['summaries']> extends AsyncIterable<infer Item>
    ? Item
    : never
type Row = ReturnType<typeof rowOf>

export function rowOf(summary: Summary) {
  return {
    id: summary.id,
    name: summary.name,
    provider: summary.provider,
    registered: summary.registered,
    health_status: summary.healthStatus,
    is_active: summary.isActive,
    switched_off_at: summary.switchedOffAt?.toISOString() ?? null,
    circuit: summary.circuit,
    stale: summary.stale,
    reauth_required: summary.reauthRequired,
    last_synced_at: summary.lastSyncedAt?.toISOString() ?? null,
    failed_items: summary.failedItems,
    waiting_items: summary.waitingItems,
    last_run: summary.lastRun,
    requests_24h: summary.requests24h,
    error_rate_24h: summary.errorRate24h,
  }
}

function textOf(rows: readonly Row[]): string {
  return table(
    [
      'ID',
      'Name',
      'Provider',
      'Registered',
      'Health',
      'Active',
      'Circuit',
      'Stale',
      'Reauthorize',
      'Last synced',
      'Failed items',
      'Waiting',
      'Last run',
      'Requests 24 h',
      'Errors %',
    ],
    rows.map((row) => {
      // Said in the column "Active".
      const { switched_off_at: _, ...shown } = row
      return Object.values({ ...shown, is_active: activeWord(row), last_run: row.last_run?.status ?? null })
    }),
  )
}

export const activeWord = ({ is_active, health_status, switched_off_at }: Row): string =>
  activeText({ isActive: is_active, healthStatus: health_status, switchedOffAt: switched_off_at })
