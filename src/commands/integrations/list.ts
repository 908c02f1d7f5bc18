import { activeText } from '../../integrations/rules.ts'
import type { SyncPause } from '../../syncs/pause-rules.ts'
import { pauseText } from '../../syncs/pause-rules.ts'
import { runUnderWay } from '../../syncs/run-rules.ts'
import type { OpenRun } from '../../syncs/standing-queries.ts'
import type { CommandContext } from '../command.ts'
import { choice, flag, optional, owner, provider, yesOrNo } from '../fields.ts'
import { listing } from '../listing.ts'
import { Refused } from '../refused.ts'
import { IntegrationShape, StandingShape } from '../shapes.ts'

/** A flag; where it can be false, those that are not. */
const only = (which: string) => ({ ...yesOrNo(`only ${which}`), placeholder: null })

export const list = listing({
  name: 'list',
  topic: 'Integrations',
  summary: 'Lists integrations with their health and the traffic of the last 24 hours, the newest first.',
  examples: [
    'integrations list --health failing',
    'integrations list --provider github --stale --json',
    'integrations list --owner team:7',
  ],
  fields: {
    provider: optional(provider('only of this provider')),
    owner: optional(owner('only of this owner')),
    health: optional(choice('only of this health', ['healthy', 'degraded', 'failing', 'disabled'], 'status')),
    active: only('those that are switched on'),
    inactive: flag('only those that are switched off'),
    stale: only('those whose syncs are overdue'),
    traffic: yesOrNo('false: the request log is not read, and the figures of 24 hours are null'),
  },
  path: '/integrations',
  defaultLimit: 100,
  row: IntegrationShape.extend(StandingShape.shape),
  shows: {
    ID: 'id',
    Name: 'name',
    Provider: 'provider',
    Registered: 'registered',
    Health: 'health_status',
    Active: (row) => activeWord(row as unknown as Standing),
    Circuit: 'circuit',
    Stale: 'stale',
    Reauthorize: 'reauth_required',
    'Last synced': 'last_synced_at',
    'Failed items': 'failed_items',
    Waiting: 'waiting_items',
    'Last run': ({ last_run }) => (last_run as { status: string } | null)?.status,
    'Under way': (row) => underWay(row as unknown as Runs),
    Paused: ({ pause }) => pauseText(pause as SyncPause | null),
    'Requests 24 h': 'requests_24h',
    'Errors %': 'error_rate_24h',
  },
  none: 'No integrations.',
  check({ active, inactive }) {
    if (inactive && active !== undefined)
      throw new Refused('usage', 'active and inactive do not go together.', 'inactive')
  },
  async *list({ integrations, warn }, { inactive, active, ...filter }) {
    let isEmpty = filter.after === undefined
    for await (const row of integrations.admin.operator.list({ ...filter, active: inactive ? false : active })) {
      isEmpty = false
      yield row
    }
    if (isEmpty && filter.provider !== undefined) warnOfUnregistered(integrations, filter.provider, warn)
  },
})

interface Runs {
  readonly open_run: OpenRun | null
  readonly waiting_items: number
}

/** Null: no run is. */
export const underWay = ({ open_run: run, waiting_items: waiting }: Runs): string | null =>
  run === null ? null : runUnderWay(run, waiting, new Date())

/** The name of a provider may be mistyped. */
function warnOfUnregistered(
  { admin }: CommandContext['integrations'],
  provider: string,
  warn: (text: string) => void,
): void {
  const registered = admin.providers().map(({ key }) => key)
  if (registered.includes(provider)) return
  const which = registered.length === 0 ? 'no provider is' : `registered are ${registered.join(', ')}`
  warn(`No integration that was asked for has the provider "${provider}", which is not registered; ${which}.`)
}

interface Standing {
  readonly is_active: boolean
  readonly health_status: Parameters<typeof activeText>[0]['healthStatus']
  readonly switched_off_at: Date | null
}

/** Whether it works, and if not, why. */
export const activeWord = ({ is_active, health_status, switched_off_at }: Standing): string =>
  activeText({ isActive: is_active, healthStatus: health_status, switchedOffAt: switched_off_at })
