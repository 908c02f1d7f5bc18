import type { Command } from 'commander'
import type { Integrations } from '../../integrations.ts'
import type { Frame } from '../frame.ts'
import { table } from '../frame.ts'

type ScheduleState = Awaited<ReturnType<Integrations['schedules']['schedules']>>[number]

/** `integrations schedules`: shows the Temporal Schedules and brings them in step with the configuration. */
export function schedulesCommand(frame: Frame): Command {
  return frame
    .command('schedules', 'Shows our Temporal Schedules; --apply brings them in step with the configuration.', [
      'integrations schedules',
      'integrations schedules --apply',
      'integrations schedules --json',
    ])
    .option('--apply', 'create what is missing, update what differs, remove what is left over; a pause stays', false)
    .action(
      frame.action(
        async ({ integrations }, { apply }: { apply: boolean }) => {
          const { schedules } = integrations
          const states = apply ? await schedules.applySchedules() : await schedules.schedules()
          return { document: states.map(rowOf), text: textOf(states, integrations.config.schedules.enabled) }
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
