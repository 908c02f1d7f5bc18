import { z } from 'zod'
import type { Integrations } from '../../create-integrations.ts'
import { switchedOffBy } from '../../integrations/rules.ts'
import { streamLines } from '../cli/stream-lines.ts'
import { table } from '../cli/table.ts'
import type { Said } from '../command.ts'
import { columns, command, route, said } from '../command.ts'
import { choice, id, many, optional, yesOrNo } from '../fields.ts'
import { switched } from '../integrations/enable.ts'
import { activeWord } from '../integrations/list.ts'
import { Refused } from '../refused.ts'
import { all, anything, IntegrationShape, moment, StandingShape, streams } from '../shapes.ts'

/** From best to worst: `--fail-on` means this status, and each after it. */
const SEVERITY = ['healthy', 'degraded', 'failing', 'disabled'] as const
const FAILURES = ['degraded', 'failing', 'disabled', 'stale'] as const
type FailOn = readonly (typeof FAILURES)[number][]

/** A line of a screen; `--json` has the whole. */
const SHOWN_ERROR_LENGTH = 100

const Report = StandingShape.extend({
  ...all(z.int(), 'consecutive_failures', 'consecutive_sync_failures'),
  ...all(moment.nullable(), 'last_error_at', 'next_sync_at'),
  streams,
  elevated_since: moment.nullable().describe('Since when its failure rate counts as elevated.'),
  incident: anything.describe('The open incident, or null.'),
  failures_24h: z.record(z.string(), z.int()).nullable().describe('Failed requests by class.'),
  mean_ms_24h: z.int().nullable(),
  p95_ms_24h: z.number().nullable(),
  top_errors_24h: z.array(z.object({ error: z.string(), requests: z.int() })).nullable(),
  identity: anything.describe('Who the credentials belong to, or null.'),
})
const Overview = z.object({
  ...all(z.int(), 'integrations', 'stale', 'with_failed_items', 'with_waiting_items'),
  by_health: z.record(z.enum(SEVERITY), z.int()),
  not_well: z.array(StandingShape),
})

export const health = command({
  name: 'health',
  topic: 'Trouble',
  summary: 'Shows how an integration is and why, or how many are well; switches one on or off.',
  examples: [
    'integrations health',
    'integrations health 7',
    'integrations health 7 enable',
    'integrations health --fail-on failing --fail-on stale --json',
  ],
  places: ['id', 'action'],
  fields: {
    id: optional(id('of the integration; else all of them, counted')),
    action: optional(
      choice(
        'report: shows it (default); enable, disable: as the commands of that name',
        ['report', 'enable', 'disable'],
        'action',
      ),
    ),
    failOn: optional(many(choice('exit 1 where one is so, or worse; may be repeated', FAILURES, 'what'))),
  },
  output: z.union([Overview, Report, IntegrationShape]),
  routes: [
    route({
      method: 'get',
      path: '/integrations/:id/health',
      summary: 'Shows how an integration is and why.',
      fields: {
        id: id('of the integration'),
        identity: yesOrNo('false: its provider is not asked who the credentials belong to'),
        traffic: yesOrNo('false: the request log is not read, and the figures of 24 hours are null'),
      },
      reach: 'integration',
      output: Report,
      run: async ({ integrations }, { id, identity = true, traffic = true }) =>
        reportOf(await integrations.admin.health(id, { asksProvider: identity, traffic })),
    }),
  ],
  check({ id, action, failOn }) {
    if (id === undefined && action !== undefined)
      throw new Refused('usage', `"${action}" goes with the id of an integration, which was not given.`)
    if (failOn !== undefined && (action === 'enable' || action === 'disable'))
      throw new Refused('usage', `--fail-on goes with a report, it was given with ${action}.`)
  },
  async run(context, { id, action = 'report', failOn }): Promise<Said> {
    const { admin } = context.integrations
    if (id === undefined) return overview(admin, failOn)
    if (action !== 'report') {
      const document = await switched(context, id, action)
      return { document, text: `Integration ${id} is switched ${action === 'enable' ? 'on' : 'off'}.` }
    }
    const report = await admin.health(id)
    const document = reportOf(report)
    const text = table(['Field', 'Value'], Object.entries(document).flatMap(linesOf))
    return { document, text, hasFailed: isFailure(report, failOn) }
  },
  ...said,
})

type Admin = Integrations['admin']
type Health = Awaited<ReturnType<Admin['health']>>

/** Counted, and those that are not well. */
async function overview(admin: Admin, failOn: FailOn | undefined): Promise<Said> {
  const by_health = { healthy: 0, degraded: 0, failing: 0, disabled: 0 }
  const counts = { stale: 0, with_failed_items: 0, with_waiting_items: 0 }
  let hasFailed = false
  const not_well = []
  for await (const summary of admin.summaries()) {
    by_health[summary.healthStatus] += 1
    if (summary.stale) counts.stale += 1
    if (summary.failedItems > 0) counts.with_failed_items += 1
    if (summary.waitingItems > 0) counts.with_waiting_items += 1
    hasFailed ||= isFailure(summary, failOn)
    const isWell =
      summary.healthStatus === 'healthy' &&
      !summary.stale &&
      !summary.reauthRequired &&
      summary.circuit === 'closed' &&
      summary.failedItems + summary.waitingItems === 0 &&
      summary.lastRun?.status !== 'failed'
    if (!isWell) not_well.push(columns(summary))
  }
  const integrations = Object.values(by_health).reduce((sum, count) => sum + count, 0)
  const statuses = Object.entries(by_health).map(([status, count]) => `${count} ${status}`)
  const { stale, with_failed_items, with_waiting_items } = counts
  const counted = `${integrations} in all: ${statuses.join(', ')}; ${stale} stale, ${with_failed_items} with failed items, ${with_waiting_items} with items that wait.`
  const heads = [
    ...['ID', 'Name', 'Provider', 'Health', 'Active', 'Circuit', 'Stale', 'Reauthorize'],
    ...['Failed items', 'Waiting', 'Last run', 'Errors %'],
  ]
  const rows = not_well.map((row) => [
    ...[row.id, row.name, row.provider, row.health_status, activeWord(row), row.circuit, row.stale],
    ...[row.reauth_required, row.failed_items, row.waiting_items, row.last_run?.status, row.error_rate_24h],
  ])
  return {
    document: { integrations, by_health, ...counts, not_well },
    text: rows.length === 0 ? counted : `${table(heads, rows)}\n${counted}`,
    hasFailed,
  }
}

export type HealthDocument = ReturnType<typeof reportOf>
const reportOf = ({ incident, streams, ...rest }: Health) => ({
  ...columns(rest),
  streams: streams.map(columns),
  incident: incident === null ? null : columns(incident),
})

/** An integration that an operator has switched off raises no alarm; one that its health switched off does. */
function isFailure(
  standing: Pick<Health, 'healthStatus' | 'isActive' | 'switchedOffAt' | 'stale'>,
  failOn: FailOn = [],
): boolean {
  const { healthStatus, stale } = standing
  if (switchedOffBy(standing) === 'an operator') return false
  return failOn.some((each) => (each === 'stale' ? stale : SEVERITY.indexOf(healthStatus) >= SEVERITY.indexOf(each)))
}

/** A line for each field of an object and for each error; one where there is none. */
function linesOf([field, value]: [string, unknown]): [string, unknown][] {
  if (field === 'top_errors_24h')
    return (value as NonNullable<Health['topErrors24h']>).map(({ error, requests }, n) => [
      `top_error_${n + 1}`,
      `${requests} x ${error.slice(0, SHOWN_ERROR_LENGTH)}`,
    ])
  if (field === 'streams') return streamLines(value as Parameters<typeof streamLines>[0])
  if (typeof value !== 'object' || value === null || value instanceof Date) return [[field, value]]
  return Object.entries(value).map(([part, each]) => [`${field}.${part}`, each])
}
