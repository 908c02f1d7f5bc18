import { shellWord } from '../../core/shell-word.ts'
import { disabledIntegrations, providersInUse } from '../../db/queries/doctor.ts'
import type { Check } from './check.ts'
import { capped, counted, fault, MAX_LOOKED_AT, moment } from './check.ts'

export const providersRegistered: Check = {
  name: 'providers.registered',
  needs: ['database.migrations'],
  async look({ db, tables, providers }) {
    const used = await providersInUse(db, tables)
    const unknown = used.filter(({ provider }) => providers.find(provider) === null)
    const registered = providers.keys().join(', ') || 'none'
    return capped(
      unknown.map(({ provider, integrations, firstId }) =>
        fault(
          `${counted(integrations, 'integration')} (the first is ${firstId}) of the provider "${provider}", which is not registered (registered: ${registered}): no webhook is taken, no run starts. Add it under \`providers\` of the host's module, or delete the integrations.`,
          `integrations list --provider ${shellWord(provider)}`,
        ),
      ),
      `Every provider in use is registered: ${used.map(({ provider }) => provider).join(', ') || 'none is in use'}.`,
    )
  },
}

export const integrationsDisabled: Check = {
  name: 'integrations.disabled',
  needs: ['database.migrations'],
  async look({ db, tables }) {
    const disabled = await disabledIntegrations(db, tables, MAX_LOOKED_AT)
    return capped(
      disabled.map(({ id, failures, lastErrorAt, pendingWebhooks }) =>
        fault(
          `Integration ${id} was switched off by its health after ${counted(failures, 'failure')} in a row${lastErrorAt === null ? '' : `, the last at ${moment(lastErrorAt)}`}; ${counted(pendingWebhooks, 'webhook')} wait. Find out why first.`,
          `integrations enable ${id}`,
        ),
      ),
      'None was switched off by its health.',
    )
  },
}
