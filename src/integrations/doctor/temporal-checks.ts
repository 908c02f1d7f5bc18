import type { ScheduleState } from '../../framework/context.ts'
import { errorLine } from '../../framework/logger.ts'
import type { Check, Observation } from './doctor-check.ts'
import { capped, fault, ok, warning, workerCommand } from './doctor-check.ts'

const APPLY = 'integrations schedules --apply'

export const temporalReachable: Check = {
  name: 'temporal.reachable',
  needs: [],
  async look({ temporal }) {
    try {
      await temporal.check()
    } catch (error) {
      return fault(errorLine(error, 1_000), temporal.commands.reach(error))
    }
    return ok(`Temporal answers at ${temporal.address}, namespace "${temporal.namespace}".`)
  },
}

export const temporalSchedules: Check = {
  name: 'temporal.schedules',
  needs: ['temporal.reachable'],
  async look({ config, temporal }) {
    const states = await temporal.schedules()
    const wrong = states.flatMap((state) => {
      const observation = judge(state, temporal.commands.resume(state.id))
      return observation === null ? [] : [observation]
    })
    if (wrong.length > 0) return wrong
    return config.schedules.enabled
      ? ok(`In step with the configuration: ${states.map((state) => state.name).join(', ')}.`)
      : ok('There are none: schedules.enabled is false, the host keeps the timing.')
  },
}

function judge({ name, id, standing, differences, isPaused, note }: ScheduleState, resume: string): Observation | null {
  if (standing === 'missing') return fault(`The Schedule ${id} is missing: nothing starts ${name}.`, APPLY)
  if (standing === 'left over')
    return warning(`The Schedule ${id} is left over: the configuration does not ask for it.`, APPLY)
  if (standing === 'differs')
    return warning(`The Schedule ${id} is not as configured: ${differences.join(', ')}.`, APPLY)
  if (isPaused)
    return warning(
      `The Schedule ${id} is paused${note === null || note === '' ? '' : ` ("${note}")`}: ${name} does not start.`,
      resume,
    )
  return null
}

export const temporalWedged: Check = {
  name: 'temporal.wedged',
  needs: ['temporal.reachable'],
  async look({ temporal }) {
    const wedged = await temporal.wedged()
    return capped(
      wedged.map(({ id, attempts }) =>
        fault(
          `The task of the workflow ${id} has been tried ${attempts} times and fails: it does not go on. Recovery replaces it within five minutes; its last event says why.`,
          temporal.commands.terminate(id),
        ),
      ),
      'No workflow of ours fails again and again.',
    )
  },
}

export const temporalWorkers: Check = {
  name: 'temporal.workers',
  needs: ['temporal.reachable'],
  async look({ temporal }) {
    const queues = await temporal.pollers()
    const idle = queues.filter(({ workers }) => workers === 0).map(({ taskQueue }) => taskQueue)
    if (idle.length > 0)
      return fault(
        `No worker has polled ${idle.length === 1 ? 'the task queue' : 'the task queues'} ${idle.join(', ')} for two minutes: what waits there stays.`,
        workerCommand(),
      )
    return ok(queues.map(({ taskQueue, workers }) => `${taskQueue}: ${workers} polling`).join(', '))
  },
}
