import type { Command } from 'commander'
import type { Integrations } from '../create-integrations.ts'
import type { Frame } from './cli/frame.ts'
import { table } from './cli/table.ts'

type ScheduleState = Awaited<ReturnType<Integrations['admin']['schedules']['schedules']>>[number]

type SearchAttributeState = Awaited<ReturnType<Integrations['admin']['schedules']['searchAttributes']>>[number]

/** `integrations schedules`: shows what we keep in Temporal, Schedules and search attributes, and brings it in step. */
export function schedulesCommand(frame: Frame): Command {
  return frame
    .command('schedules', 'Shows our Temporal Schedules and search attributes; --apply brings them in step.', [
      'integrations schedules',
      'integrations schedules --apply',
      'integrations schedules --json',
    ])
    .option(
      '--apply',
      'create what is missing, update what differs, remove what is left over, register search attributes; a pause stays',
      false,
    )
    .action(
      frame.action(
        async ({ integrations, warn }, { apply }: { apply: boolean }) => {
          const { schedules } = integrations.admin
          const states = apply ? await schedules.applySchedules() : await schedules.schedules()
          const attributes = apply ? await schedules.applySearchAttributes() : await unapplied(schedules)
          if (attributes.problem !== null) warn(attributes.problem)
          return {
            document: {
              schedules: states.map(rowOf),
              search_attributes: attributes.states.map((state) => attributeRowOf(state, attributes.added)),
            },
            text: `${textOf(states, integrations.config.schedules.enabled)}\n\n${attributesText(attributes)}`,
          }
        },
        { needs: 'nothing' },
      ),
    )
}

function rowOf(state: ScheduleState) {
  return {
    name: state.name,
    id: state.id,
    standing: state.standing,
    differences: state.differences,
    paused: state.isPaused,
    note: state.note,
    last_run_at: state.lastRunAt?.toISOString() ?? null,
    next_run_at: state.nextRunAt?.toISOString() ?? null,
  }
}

function textOf(states: readonly ScheduleState[], areEnabled: boolean): string {
  if (states.length === 0)
    return areEnabled ? 'No schedules.' : 'No schedules: schedules.enabled is false, the host keeps the timing.'
  const columns = ['schedule', 'standing', 'paused', 'last run', 'next run']
  const rows = states
    .map(rowOf)
    .map((row) => [
      row.id,
      row.differences.length === 0 ? row.standing : `${row.standing}: ${row.differences.join(', ')}`,
      row.paused ? (row.note ?? 'yes') : 'no',
      row.last_run_at,
      row.next_run_at,
    ])
  return table(columns, rows)
}

type Attributes = Pick<
  Awaited<ReturnType<Integrations['admin']['schedules']['applySearchAttributes']>>,
  'states' | 'added' | 'problem'
>

async function unapplied(schedules: Integrations['admin']['schedules']): Promise<Attributes> {
  return { states: await schedules.searchAttributes(), added: [], problem: null }
}

function attributeRowOf({ name, type, standing, registeredAs }: SearchAttributeState, added: readonly string[]) {
  return { name, type, standing, registered_as: registeredAs, added: added.includes(name) }
}

function attributesText({ states, added }: Attributes): string {
  const rows = states.map(({ name, type, standing, registeredAs }) => [
    name,
    type,
    standing === 'differs'
      ? `differs: registered as ${registeredAs}`
      : `${standing}${added.includes(name) ? ', just now' : ''}`,
  ])
  const hint = states.every(({ standing }) => standing !== 'missing') ? '' : '\n--apply registers what is missing.'
  return `${table(['search attribute', 'type', 'standing'], rows)}${hint}`
}
