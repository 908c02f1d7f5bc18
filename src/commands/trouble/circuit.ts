import { idleOverride } from '../../calls/limit-act-rules.ts'
import type { CommandContext } from '../command.ts'
import { columns, command, route } from '../command.ts'
import { choice, id, instant, optional } from '../fields.ts'
import { Refused } from '../refused.ts'
import { CircuitState } from '../shapes.ts'

const OVERRIDES = { open: 'forced_open', close: 'forced_closed', disable: 'disabled', auto: null } as const
type Act = keyof typeof OVERRIDES

export const circuit = command({
  name: 'circuit',
  topic: 'Trouble',
  summary: 'Shows or overrides the circuit breaker of an integration.',
  examples: [
    'integrations circuit 7 status',
    'integrations circuit 7 open --until 2031-06-01T12:00:00Z',
    'integrations circuit 7 auto',
  ],
  places: ['id', 'action'],
  fields: {
    id: id('of the integration'),
    action: choice(
      'open: let no call through; close: let all through; disable: the same, without an event; auto: the breaker decides again; status: only look',
      [...(Object.keys(OVERRIDES) as Act[]), 'status'],
      'action',
    ),
    until: optional(instant('with open, close and disable: when it ends by itself')),
  },
  reach: 'integration',
  output: CircuitState,
  routes: [
    route({
      method: 'get',
      path: '/integrations/:id/circuit-override',
      summary: 'Shows the circuit breaker of an integration.',
      version: ['override', 'override_until'],
      fields: { id: id('of the integration') },
      output: CircuitState,
      run: (context, { id }) => shown(context, id),
    }),
    route({
      method: 'put',
      path: '/integrations/:id/circuit-override',
      summary: 'Overrides the circuit breaker of an integration.',
      fields: {
        id: id('of the integration'),
        override: choice(
          'forced_open: let no call through; forced_closed: let all through; disabled: the same, without an event',
          ['forced_open', 'forced_closed', 'disabled'],
        ),
        until: optional(instant('when it ends by itself')),
      },
      output: CircuitState,
      run: (context, { id, override, until }) =>
        changed(
          context,
          id,
          (['open', 'close', 'disable'] as const).find((act) => OVERRIDES[act] === override) ?? 'open',
          until,
        ),
    }),
    route({
      method: 'delete',
      path: '/integrations/:id/circuit-override',
      summary: 'Gives the circuit breaker of an integration back to itself.',
      fields: { id: id('of the integration') },
      output: CircuitState,
      run: (context, { id }) => changed(context, id, 'auto'),
    }),
  ],
  check({ action, until }) {
    if (until !== undefined && (action === 'auto' || action === 'status'))
      throw new Refused('usage', `--until goes with open, close and disable, it was given with ${action}.`)
  },
  run: (context, { id, action, until }) =>
    action === 'status' ? shown(context, id) : changed(context, id, action, until),
})

async function shown({ integrations }: CommandContext, id: number) {
  const integration = await integrations.get(id)
  return { integration_id: id, ...columns(await integration.circuit()) }
}

async function changed(context: CommandContext, id: number, act: Act, until?: Date) {
  const { integrations, note, warn } = context
  const integration = await integrations.get(id)
  await integration.overrideCircuit(OVERRIDES[act], until)
  await note(id, `circuit ${act}`)
  if (OVERRIDES[act] !== null && !integrations.config.circuit_breaker.overrides_enabled)
    warn(idleOverride('circuit_breaker'))
  return shown(context, id)
}
