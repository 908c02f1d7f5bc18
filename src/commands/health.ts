import type { Command } from 'commander'
import { Argument, InvalidArgumentError, Option } from 'commander'
import type { Integrations } from '../create-integrations.ts'
import { switchedOffBy } from '../integrations/rules.ts'
import { integrationId } from './cli/arguments.ts'
import type { CommandContext, Frame, Outcome } from './cli/frame.ts'
import { table } from './cli/table.ts'
import { switchOff } from './disable.ts'
import { switchOn } from './enable.ts'
import { rowOf as incidentColumns } from './incidents.ts'
import { activeWord, rowOf as summaryColumns } from './list.ts'
import { Refused } from './refused.ts'

const ACTIONS = ['report', 'enable', 'disable'] as const
const FAILURES = ['degraded', 'failing', 'disabled', 'stale'] as const
/** From best to worst: `--fail-on` means this status, and each after it. */
const SEVERITY = ['healthy', 'degraded', 'failing', 'disabled'] as const

/** A line of a screen; `--json` has the whole. */
const SHOWN_ERROR_LENGTH = 100

type FailOn = (typeof FAILURES)[number]
type Report = Awaited<ReturnType<Integrations['admin']['health']>>
type Standing = Pick<Report, 'healthStatus' | 'isActive' | 'switchedOffAt' | 'stale'>

interface Options {
  readonly failOn?: readonly FailOn[]
}

/** `integrations health [id] [action]`: how one is and why, or how all are. */
export function healthCommand(frame: Frame): Command {
  return frame
    .command('health', 'Shows how an integration is and why, or how many are well; switches one on or off.', [
      'integrations health',
      'integrations health 7',
      'integrations health 7 enable',
      'integrations health --fail-on failing --fail-on stale --json',
    ])
    .argument('[id]', 'id of the integration; else all of them, counted', integrationId)
    .addArgument(
      new Argument('[action]', 'report: shows it (default); enable, disable: as the commands of that name').choices(
        ACTIONS,
      ),
    )
    .addOption(
      new Option('--fail-on <what>', 'exit 1 where one is so, or worse; may be repeated')
        .choices(FAILURES)
        .argParser(failure),
    )
    .action(
      frame.action(
        async (context, id: number | undefined, action: (typeof ACTIONS)[number] | undefined, { failOn }: Options) => {
          if (id === undefined) return overview(context, failOn)
          if (action === undefined || action === 'report') return report(context, id, failOn)
          if (failOn !== undefined)
            throw new Refused('usage', `--fail-on goes with a report, it was given with ${action}.`)
          return action === 'enable' ? switchOn(context, id) : switchOff(context, id)
        },
      ),
    )
}

function failure(word: string, before: readonly FailOn[] = []): readonly FailOn[] {
  const found = FAILURES.find((each) => each === word)
  if (found === undefined) throw new InvalidArgumentError(`Allowed choices are ${FAILURES.join(', ')}.`)
  return [...before, found]
}

/** Counted, and those that are not well. */
async function overview({ integrations }: CommandContext, failOn: readonly FailOn[] | undefined): Promise<Outcome> {
  const byHealth = { healthy: 0, degraded: 0, failing: 0, disabled: 0 }
  let stale = 0
  let withFailed = 0
  let withWaiting = 0
  let failed = false
  const notWell: ReturnType<typeof summaryColumns>[] = []
  for await (const summary of integrations.admin.summaries()) {
    byHealth[summary.healthStatus] += 1
    if (summary.stale) stale += 1
    if (summary.failedItems > 0) withFailed += 1
    if (summary.waitingItems > 0) withWaiting += 1
    failed ||= isFailure(summary, failOn)
    const isWell =
      summary.healthStatus === 'healthy' &&
      !summary.stale &&
      !summary.reauthRequired &&
      summary.circuit === 'closed' &&
      summary.failedItems + summary.waitingItems === 0 &&
      summary.lastRun?.status !== 'failed'
    if (!isWell) notWell.push(summaryColumns(summary))
  }
  const total = Object.values(byHealth).reduce((sum, count) => sum + count, 0)
  const counts = `${total} in all: ${Object.entries(byHealth)
    .map(([status, count]) => `${count} ${status}`)
    .join(', ')}; ${stale} stale, ${withFailed} with failed items, ${withWaiting} with items that wait.`
  const rows = notWell.map((row) => [
    row.id,
    row.name,
    row.provider,
    row.health_status,
    activeWord(row),
    row.circuit,
    row.stale,
    row.reauth_required,
    row.failed_items,
    row.waiting_items,
    row.last_run?.status,
    row.error_rate_24h,
  ])
  const columns = [
    ...['ID', 'Name', 'Provider', 'Health', 'Active', 'Circuit', 'Stale', 'Reauthorize'],
    ...['Failed items', 'Waiting', 'Last run', 'Errors %'],
  ]
  return {
    document: {
      integrations: total,
      by_health: byHealth,
      stale,
      with_failed_items: withFailed,
      with_waiting_items: withWaiting,
      not_well: notWell,
    },
    text: rows.length === 0 ? counts : `${table(columns, rows)}\n${counts}`,
    exitCode: failed ? 1 : 0,
  }
}

async function report(
  { integrations }: CommandContext,
  id: number,
  failOn: readonly FailOn[] | undefined,
): Promise<Outcome> {
  const health = await integrations.admin.health(id)
  const document = columnsOf(health)
  return {
    document,
    text: table(['Field', 'Value'], Object.entries(document).flatMap(linesOf)),
    exitCode: isFailure(health, failOn) ? 1 : 0,
  }
}

/** One that an operator has switched off is nobody's alarm; one that its health switched off is. */
function isFailure(standing: Standing, failOn: readonly FailOn[] = []): boolean {
  const { healthStatus, stale } = standing
  if (switchedOffBy(standing) === 'an operator') return false
  return failOn.some((each) => (each === 'stale' ? stale : SEVERITY.indexOf(healthStatus) >= SEVERITY.indexOf(each)))
}

/** The operator API has the same names. */
function columnsOf(health: Report) {
  return {
    ...summaryColumns(health),
    consecutive_failures: health.consecutiveFailures,
    consecutive_sync_failures: health.consecutiveSyncFailures,
    last_error_at: health.lastErrorAt?.toISOString() ?? null,
    next_sync_at: health.nextSyncAt?.toISOString() ?? null,
    elevated_since: health.elevatedSince?.toISOString() ?? null,
    incident: health.incident === null ? null : incidentColumns(health.incident),
    failures_24h: health.failures24h,
    mean_ms_24h: health.meanMs24h,
    p95_ms_24h: health.p95Ms24h,
    top_errors_24h: health.topErrors24h,
    identity: health.identity,
  }
}

/** A line for each field of an object and for each error; one where there is none. */
function linesOf([field, value]: [string, unknown]): [string, unknown][] {
  if (field === 'top_errors_24h')
    return (value as Report['topErrors24h']).map(({ error, requests }, n) => [
      `top_error_${n + 1}`,
      `${requests} x ${error.slice(0, SHOWN_ERROR_LENGTH)}`,
    ])
  if (typeof value !== 'object' || value === null) return [[field, value]]
  return Object.entries(value).map(([part, each]) => [`${field}.${part}`, each])
}
