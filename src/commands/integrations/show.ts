import { z } from 'zod'
import type { Integrations } from '../../create-integrations.ts'
import { isIntegrationsError } from '../../framework/errors.ts'
import type { RememberedStart } from '../../integrations/operator-view.ts'
import { oauthStatusColumns } from '../../oauth/status-rules.ts'
import { pauseText } from '../../syncs/pause-rules.ts'
import { matchText } from '../../webhooks/rules.ts'
import type { FormerSecret } from '../../webhooks/secrets.ts'
import { abilityWords } from '../ability-words.ts'
import { streamLines } from '../cli/stream-lines.ts'
import { table } from '../cli/table.ts'
import type { Columns } from '../command.ts'
import { columns, command } from '../command.ts'
import { id } from '../fields.ts'
import { anything, IntegrationShape, moment, streams } from '../shapes.ts'
import { underWay } from './list.ts'

export const show = command({
  name: 'show',
  topic: 'Integrations',
  summary: 'Shows one integration; of its credentials only the names.',
  examples: ['integrations show 7', 'integrations show 7 --json'],
  places: ['id'],
  fields: { id: id('of the integration') },
  reach: 'integration',
  output: IntegrationShape.extend({
    streams,
    credentials_version: z
      .string()
      .nullable()
      .describe(
        'A keyed digest of the credentials: another one when a person has changed them, the same after a refresh of OAuth tokens that stores nothing else. Null: they can not be read.',
      ),
    registered: z.boolean().describe('Whether this process knows the provider.'),
    contracts: z.array(z.string()).describe('What its provider can do.'),
    owner: z.string().nullable().describe('Its type, a colon and its id.'),
    webhook_address: z
      .string()
      .nullable()
      .describe('Where its webhooks go; without a base URL the path; null: its provider takes none.'),
    remembered: z
      .array(z.object({ stream: z.string(), asked_at: moment.nullable(), begins_at: moment.nullable() }))
      .describe('Runs that were asked for and have not begun: one that follows the living run, one that waits.'),
    former_webhook_secrets: z
      .array(z.object({ until: moment.nullable(), last_matched_at: moment.nullable(), is_watched: z.boolean() }))
      .describe(
        'Former webhook secrets that still verify deliveries: until when (null: without an end), and when each has verified one last, and whether that is seen at all.',
      ),
    oauth: anything.describe('The status of its authorization; null without OAuth.'),
  }),
  routes: [
    {
      method: 'get',
      path: '/integrations/:id',
      version: [
        ...(['name', 'credentials_version', 'metadata', 'owner', 'sync_interval_minutes'] as const),
        ...(['is_active', 'switched_off_at'] as const),
      ],
    },
  ],
  async run({ integrations, warn }, { id }) {
    const detail = columns(await integrations.admin.operator.detail(id))
    if (detail.credentials === null) warn(await unreadable(integrations, id))
    const provider = integrations.admin.providers().find(({ key }) => key === detail.provider)
    const contracts = provider?.contracts ?? []
    const { owner_type, owner_id } = detail
    return {
      ...detail,
      credentials_version: await integrations.admin.credentialsVersion(id),
      streams: (await integrations.admin.operator.streams(id)).map(columns),
      remembered: (await integrations.admin.operator.remembered(id)).map(columns),
      former_webhook_secrets: (await integrations.admin.operator.formerWebhookSecrets(id)).map(columns),
      registered: provider !== undefined,
      contracts,
      owner: owner_type === null ? null : `${owner_type}:${owner_id}`,
      webhook_address: integrations.admin.operator.webhookAddress(detail),
      oauth: detail.credentials !== null && contracts.includes('HasOAuth2') ? await oauthOf(integrations, id) : null,
    }
  },
  show: (shown) =>
    table(
      ['Field', 'Value'],
      SHOWN.flatMap((field): [string, unknown][] => {
        if (field === 'streams') return streamLines(shown.streams)
        const value = shown[field]
        if (field === 'contracts') return [['provider can', abilityWords(shown.contracts)]]
        if (field === 'oauth' && value !== null)
          return Object.entries(value as object).map(([part, each]) => [`oauth.${part}`, each])
        if (field === 'last_run') return [[field, shown.last_run?.status ?? null]]
        if (field === 'open_run') return [['under way', underWay(shown)]]
        if (field === 'pause') return [['paused', pauseText(shown.pause)]]
        if (field === 'former_webhook_secrets') return formerSecrets(shown.former_webhook_secrets)
        if (field === 'remembered') return shown.remembered.flatMap(willRun)
        return [[field, Array.isArray(value) ? value.join(', ') : value]]
      }),
    ),
})

/** What a person looks for. */
const SHOWN = [
  ...(['id', 'name', 'provider', 'registered', 'contracts', 'owner', 'webhook_address'] as const),
  ...(['is_active', 'switched_off_at', 'health_status', 'reauth_required', 'oauth', 'credentials'] as const),
  ...(['former_webhook_secrets', 'metadata', 'sync_interval_minutes', 'sync_cursor', 'last_synced_at'] as const),
  ...(['next_sync_at', 'pause', 'last_run', 'open_run', 'streams', 'remembered', 'created_at'] as const),
]

function formerSecrets(former: readonly Columns<FormerSecret>[]): [string, unknown][] {
  if (former.length === 0) return []
  const ends = former.map(({ until, last_matched_at: at, is_watched: isWatched }) => {
    const end = until === null ? 'for good' : `until ${until.toISOString()}`
    return `${end} (${matchText(at, isWatched)})`
  })
  return [['former webhook secrets', `${former.length} in force: ${ends.join(', ')}`]]
}

function willRun({ stream, asked_at, begins_at }: Columns<RememberedStart>): [string, unknown][] {
  const head = stream === '' ? 'will run again' : `will run again: ${stream}`
  return [
    asked_at === null ? null : `after this run: asked at ${asked_at.toISOString()}`,
    begins_at === null ? null : `at ${begins_at.toISOString()}`,
  ].flatMap((when): [string, unknown][] => (when === null ? [] : [[head, when]]))
}

async function oauthOf({ oauth }: Integrations, id: number) {
  const { integration_id: _, ...status } = oauthStatusColumns(await oauth.status(id))
  return status
}

/** Why its credentials can't be read. */
async function unreadable(integrations: Integrations, id: number): Promise<string> {
  try {
    ;(await integrations.get(id)).credentialsArray()
    return 'The credentials could not be read.'
  } catch (error) {
    if (!isIntegrationsError(error, 'credentials_unreadable')) throw error
    return error.message
  }
}
