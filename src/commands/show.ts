import type { Command } from 'commander'
import type { Integrations } from '../create-integrations.ts'
import { isIntegrationsError } from '../framework/errors.ts'
import { oauthStatusColumns } from '../oauth/status-rules.ts'
import { integrationId } from './cli/arguments.ts'
import type { Frame } from './cli/frame.ts'
import { table } from './cli/table.ts'

type Integration = Awaited<ReturnType<Integrations['get']>>

/** `integrations show <id>`: one integration; of its credentials only the names. */
export function showCommand(frame: Frame): Command {
  return frame
    .command('show', 'Shows one integration; of its credentials only the names.', [
      'integrations show 7',
      'integrations show 7 --json',
    ])
    .argument('<id>', 'id of the integration', integrationId)
    .action(
      frame.action(async ({ integrations, warn }, id: number) => {
        const integration = await integrations.get(id)
        const provider = integrations.admin.providers().find(({ key }) => key === integration.provider)
        const oauth = await oauthOf(integrations, integration, provider?.contracts ?? [])
        const document = {
          id,
          name: integration.name,
          provider: integration.provider,
          registered: provider !== undefined,
          contracts: provider?.contracts ?? [],
          owner: integration.owner === null ? null : `${integration.owner.type}:${integration.owner.id}`,
          is_active: integration.isActive,
          switched_off_at: integration.switchedOffAt?.toISOString() ?? null,
          health_status: integration.healthStatus,
          reauth_required: oauth?.reauth_required ?? false,
          oauth,
          credentials: credentialNames(integration, warn),
          metadata: integration.metadata,
          sync_interval_minutes: integration.syncIntervalMinutes,
          sync_cursor: integration.syncCursor,
          last_synced_at: integration.lastSyncedAt?.toISOString() ?? null,
          next_sync_at: integration.nextSyncAt?.toISOString() ?? null,
          created_at: integration.createdAt.toISOString(),
        }
        return {
          document,
          text: table(
            ['Field', 'Value'],
            Object.entries(document).flatMap(([field, value]) =>
              field === 'oauth' ? linesOf(oauth) : [[field, shown(value)]],
            ),
          ),
        }
      }),
    )
}

/** Null where the provider has no OAuth, or the credentials can't be read. */
async function oauthOf({ oauth }: Integrations, { id }: Integration, contracts: readonly string[]) {
  if (!contracts.includes('HasOAuth2')) return null
  try {
    const { integration_id: _, ...columns } = oauthStatusColumns(await oauth.status(id))
    return columns
  } catch (error) {
    // Of the names of the credentials that is told.
    if (isIntegrationsError(error, 'credentials_unreadable')) return null
    throw error
  }
}

/** Null when they can't be read, which is told. */
function credentialNames(integration: Integration, warn: (text: string) => void): string[] | null {
  try {
    return Object.keys(integration.credentialsArray()).sort()
  } catch (error) {
    if (!isIntegrationsError(error, 'credentials_unreadable')) throw error
    warn(error.message)
    return null
  }
}

/** A line for each of its fields; one where there is none. */
function linesOf(oauth: Awaited<ReturnType<typeof oauthOf>>): [string, unknown][] {
  if (oauth === null) return [['oauth', null]]
  return Object.entries(oauth).map(([field, value]) => [`oauth.${field}`, value])
}

function shown(value: unknown): unknown {
  return Array.isArray(value) ? value.join(', ') : value
}
