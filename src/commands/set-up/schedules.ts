import { z } from 'zod'
import { table } from '../cli/table.ts'
import type { CommandContext } from '../command.ts'
import { command, route } from '../command.ts'
import { flag } from '../fields.ts'
import { all, moment } from '../shapes.ts'

export const schedules = command({
  name: 'schedules',
  topic: 'Set up',
  summary: 'Shows our Temporal Schedules and search attributes; --apply brings them in step.',
  examples: ['integrations schedules', 'integrations schedules --apply', 'integrations schedules --json'],
  workflow: { none: "Temporal's own `temporal schedule` shows them, and each worker brings them in step at its start" },
  needs: 'host',
  fields: {
    apply: flag(
      'create what is missing, update what differs, remove what is left over, register search attributes; a pause stays',
    ),
  },
  output: z.object({
    schedules: z.array(
      z.object({
        ...all(z.string(), 'name', 'id'),
        standing: z.enum(['in step', 'missing', 'differs', 'left over']),
        differences: z.array(z.string()),
        paused: z.boolean(),
        note: z.string().nullable(),
        ...all(moment.nullable(), 'last_run_at', 'next_run_at'),
      }),
    ),
    search_attributes: z.array(
      z.object({
        ...all(z.string(), 'name', 'type'),
        standing: z.enum(['registered', 'missing', 'differs']),
        registered_as: z.string().nullable(),
        added: z.boolean().describe('Just now.'),
      }),
    ),
  }),
  routes: [
    route({
      method: 'get',
      path: '/schedules',
      summary: 'Shows our Temporal Schedules and search attributes.',
      fields: {},
      run: (context) => found(context, false),
    }),
  ],
  run: (context, { apply }) => found(context, apply),
  show: (shown, { integrations }) =>
    `${schedulesText(shown, integrations.config.schedules.enabled)}\n\n${attributesText(shown)}`,
})

type Shown = Awaited<ReturnType<typeof found>>

async function found({ integrations, warn }: CommandContext, apply: boolean) {
  const temporal = integrations.admin.schedules
  const states = apply ? await temporal.applySchedules() : await temporal.schedules()
  const attributes = apply
    ? await temporal.applySearchAttributes()
    : { states: await temporal.searchAttributes(), added: [], problem: null }
  if (attributes.problem !== null) warn(attributes.problem)
  return {
    schedules: states.map(({ name, id, standing, differences, isPaused, note, lastRunAt, nextRunAt }) => ({
      ...{ name, id, standing, differences, paused: isPaused, note },
      ...{ last_run_at: lastRunAt, next_run_at: nextRunAt },
    })),
    search_attributes: attributes.states.map(({ name, type, standing, registeredAs }) => ({
      ...{ name, type, standing, registered_as: registeredAs },
      added: attributes.added.some((each) => each === name),
    })),
  }
}

function schedulesText({ schedules: states }: Shown, areEnabled: boolean): string {
  if (states.length === 0)
    return areEnabled ? 'No schedules.' : 'No schedules: schedules.enabled is false, the host keeps the timing.'
  return table(
    ['schedule', 'standing', 'paused', 'last run', 'next run'],
    states.map(({ id, standing, differences, paused, note, last_run_at, next_run_at }) => [
      id,
      differences.length === 0 ? standing : `${standing}: ${differences.join(', ')}`,
      paused ? (note ?? 'yes') : 'no',
      last_run_at,
      next_run_at,
    ]),
  )
}

function attributesText({ search_attributes: states }: Shown): string {
  const rows = states.map(({ name, type, standing, registered_as, added }) => [
    name,
    type,
    standing === 'differs' ? `differs: registered as ${registered_as}` : `${standing}${added ? ', just now' : ''}`,
  ])
  const hint = states.every(({ standing }) => standing !== 'missing') ? '' : '\n--apply registers what is missing.'
  return `${table(['search attribute', 'type', 'standing'], rows)}${hint}`
}
