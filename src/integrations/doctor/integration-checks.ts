import { circuitsOf } from '../../calls/overrides/circuit-override.ts'
import { shellWord } from '../../framework/shell-word.ts'
import type { CircuitView } from '../../providers/integration.ts'
import type { Check, Observation } from './doctor-check.ts'
import { capped, counted, fault, MAX_LOOKED_AT, moment, warning } from './doctor-check.ts'
import { disabledIntegrations, pageOfCircuits, providersInUse } from './doctor-queries.ts'

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

const CIRCUITS_PAGE = 1_000

export const circuitsOpen: Check = {
  name: 'circuits.open',
  needs: ['database.migrations'],
  async look(framework) {
    const found: Observation[] = []
    for (let afterId = 0; found.length < MAX_LOOKED_AT; ) {
      const page = await pageOfCircuits(framework.db, framework.tables, afterId, CIRCUITS_PAGE)
      for (const [id, circuit] of await circuitsOf(framework, page)) found.push(...aboutCircuit(id, circuit))
      if (page.length < CIRCUITS_PAGE) break
      afterId = page.at(-1)?.id ?? 0
    }
    return capped(found, 'Every circuit is closed, and none is forced.')
  },
}

const FORCED = {
  forced_open: 'an operator has forced its circuit open: no call is made',
  forced_closed: 'an operator has forced its circuit closed: calls are made whatever they come to',
  disabled: 'an operator has switched its circuit breaker off: calls are made whatever they come to',
} as const

function aboutCircuit(id: number, { override, overrideUntil, state, openedAt, retryAt }: CircuitView): Observation[] {
  if (override !== null) {
    const term = overrideUntil === null ? 'for good' : `until ${moment(overrideUntil)}`
    return [warning(`Integration ${id}: ${FORCED[override]}, ${term}.`, `integrations circuit ${id} auto`)]
  }
  if (state === 'closed') return []
  const since = openedAt === null ? '' : ` since ${moment(openedAt)}`
  const next = retryAt === null ? 'a probe is under way or due' : `the next probe may be made at ${moment(retryAt)}`
  return [
    warning(
      `Integration ${id}: its provider fails, so its circuit is ${state === 'open' ? 'open' : 'half-open'}${since}; ${next}.`,
      `integrations circuit ${id} status`,
    ),
  ]
}
