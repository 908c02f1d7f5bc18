import type { Command } from 'commander'
import { Option } from 'commander'
import type { Integrations } from '../create-integrations.ts'
import type { IncidentSource, IncidentStatus } from '../incidents/rules.ts'
import { INCIDENT_SOURCES, INCIDENT_STATUSES } from '../incidents/rules.ts'
import { incidentId, instant, integrationId, limit, owner } from './cli/arguments.ts'
import type { CommandContext, Frame, Outcome } from './cli/frame.ts'
import { table } from './cli/table.ts'
import { Refused } from './refused.ts'

const DEFAULT_LIMIT = 50

interface Filters {
  readonly integration?: number | undefined
  readonly status?: IncidentStatus | undefined
  readonly source?: IncidentSource | undefined
  readonly owner?: { readonly type: string; readonly id: number } | undefined
  readonly since?: Date | undefined
  readonly until?: Date | undefined
  readonly after?: number | undefined
  readonly limit?: number | undefined
}

/** `integrations incidents`: the newest first; with an id that one. */
export function incidentsCommand(frame: Frame): Command {
  return frame
    .command('incidents', 'Lists incidents, the newest first, or shows one.', [
      'integrations incidents --status open',
      'integrations incidents --integration 7 --since 2031-06-01T12:00:00Z --json',
      'integrations incidents 4711',
    ])
    .argument('[id]', 'id of the incident; without it the options choose', incidentId)
    .option('--integration <id>', 'only of this integration', integrationId)
    .addOption(new Option('--status <status>', 'only of this status').choices(INCIDENT_STATUSES))
    .addOption(new Option('--source <source>', 'only those that this opened').choices(INCIDENT_SOURCES))
    .option('--owner <type:id>', 'only of this owner', owner)
    .option('--since <instant>', 'only those opened then or later', instant)
    .option('--until <instant>', 'only those opened before', instant)
    .option('--after <id>', 'only ids below this one: the next page', incidentId)
    .option('--limit <n>', `at most so many; default ${DEFAULT_LIMIT}`, limit)
    .action((id: number | undefined, options: Filters, command: Command) => {
      const { integration, status, source, owner, since, until, after, limit } = options
      const filters = { integration, status, source, owner, since, until, after, limit }
      if (id === undefined) return frame.action((context) => listed(context, filters))(command)
      const [chosen] = Object.entries(filters).find(([, value]) => value !== undefined) ?? []
      if (chosen !== undefined)
        throw new Refused('usage', `Give an id or options that choose, not both: ${id} and --${chosen} were given.`)
      return frame.action((context) => shown(context, id))(command)
    })
}

async function listed({ integrations, warn }: CommandContext, filters: Filters): Promise<Outcome> {
  const { integration, limit = DEFAULT_LIMIT, ...rest } = filters
  if (integration !== undefined) await integrations.get(integration)
  const rows: Row[] = []
  // One more than asked for says whether there is more.
  const wanted = { ...rest, integrationId: integration, limit: limit + 1 }
  for await (const incident of integrations.admin.incidents.list(wanted)) rows.push(rowOf(incident))
  if (rows.length > limit) {
    rows.length = limit
    warn(`There are more than ${limit}; --limit shows more, --after ${rows.at(-1)?.id} the next ones.`)
  }
  return { document: rows, text: rows.length === 0 ? 'No incidents.' : textOf(rows) }
}

async function shown({ integrations }: CommandContext, id: number): Promise<Outcome> {
  const document = rowOf(await integrations.admin.incidents.get(id))
  return { document, text: table(['Field', 'Value'], Object.entries(document)) }
}

type Incident = Awaited<ReturnType<Integrations['admin']['incidents']['get']>>
type Row = ReturnType<typeof rowOf>

export function rowOf(incident: Incident) {
  return {
    id: incident.id,
    integration_id: incident.integrationId,
    provider: incident.provider,
    integration_name: incident.integrationName,
    status: incident.status,
    source: incident.source,
    reason: incident.reason,
    peak_severity: incident.peakSeverity,
    opened_at: incident.openedAt.toISOString(),
    last_error_at: incident.lastErrorAt?.toISOString() ?? null,
    closed_at: incident.closedAt?.toISOString() ?? null,
    acknowledged_at: incident.acknowledgedAt?.toISOString() ?? null,
    acknowledged_by: incident.acknowledgedBy,
    snoozed_until: incident.snoozedUntil?.toISOString() ?? null,
    snoozed_by: incident.snoozedBy,
    annotations: incident.annotations.map((each) => ({ ...each, at: each.at.toISOString() })),
  }
}

function textOf(rows: readonly Row[]): string {
  return table(
    ['ID', 'Integration', 'Name', 'Provider', 'Status', 'Peak', 'Source', 'Reason', 'Opened', 'Closed'],
    rows.map((row) => [
      row.id,
      row.integration_id,
      row.integration_name,
      row.provider,
      row.status,
      row.peak_severity,
      row.source,
      row.reason,
      row.opened_at,
      row.closed_at,
    ]),
  )
}
