/** Whether workers take what waits. Rule: docs/behaviour/doctor.md, "Workers". */
import type { LastPoll, PolledQueue } from '../../framework/context.ts'
import { shellWord } from '../../framework/shell-word.ts'
import type { Check, Observation } from './doctor-check.ts'
import { counted, fault, moment, ok, warning, workerCommand } from './doctor-check.ts'
import type { DoctorProbes, Finding } from './run-doctor.ts'

/** A worker with a free slot takes a task within milliseconds, and polls again at once. A sticky one comes back after ten seconds. */
const BACKLOG_SECONDS = 15

export const temporalWorkers: Check = {
  name: 'temporal.workers',
  needs: ['temporal.reachable'],
  async look({ temporal }, probes, earlier = []) {
    const isKeptUp = probes.local !== null
    const now = await sharedNow(probes, earlier)
    const queues = await temporal.pollers(now)
    const idle = queues.filter(({ workers }) => workers === 0)
    const found = [
      ...(idle.length > 0 ? [unpolled(idle, isKeptUp)] : []),
      ...queues.flatMap((queue) => untaken(queue, isKeptUp, now)),
    ]
    if (found.length > 0) return found
    return ok(
      queues
        .map(
          ({ taskQueue, workers, lastPoll }) =>
            `${taskQueue}: ${workers} polling${lastPoll === null ? '' : ` (last ${pollWords(lastPoll)})`}`,
        )
        .join(', '),
    )
  },
}

/**
 * The polls' moments are of Temporal's clock. That of Postgres is more likely to agree with it than that of a machine whose own is
 * wrong, which `clock.skew` names. Without Postgres it is this machine's.
 */
async function sharedNow({ askAside }: DoctorProbes, earlier: readonly Finding[]): Promise<Date> {
  if (earlier.find(({ check }) => check === 'database.reachable')?.status !== 'ok') return new Date()
  try {
    const [row] = await askAside(
      (sql) => sql<{ ms: number }[]>`select extract(epoch from clock_timestamp())::float8 * 1000 as ms`,
    )
    return new Date(row?.ms ?? Date.now())
  } catch {
    return new Date()
  }
}

function unpolled(queues: readonly PolledQueue[], isKeptUp: boolean): Observation {
  const names = queues.map(({ taskQueue }) => taskQueue).join(', ')
  const last = queues
    .flatMap(({ lastPoll }) => lastPoll ?? [])
    .sort((a, b) => b.at.getTime() - a.at.getTime())
    .at(0)
  const waiting = queues.reduce((sum, { backlog }) => sum + (backlog?.tasks ?? 0), 0)
  const told = `No worker has polled ${queues.length === 1 ? 'the task queue' : 'the task queues'} ${names} for two minutes: what waits there stays${waiting === 0 ? '' : ` (${counted(waiting, 'task')})`}.`
  if (last === undefined)
    return fault(`${told} None did in the last five minutes.`, isKeptUp ? 'npm start' : workerCommand())
  return fault(
    `${told} The last was ${pollWords(last)}. ${standing(last, isKeptUp)}`,
    isKeptUp ? endCommand(last) : workerCommand(),
    { since: last.at },
  )
}

/** A poller is named for as long as it polled lately, though its process stands still: then tasks wait that no poll takes. */
function untaken({ taskQueue, workers, backlog }: PolledQueue, isKeptUp: boolean, now: Date): Observation[] {
  if (workers === 0 || backlog === null || backlog.seconds < BACKLOG_SECONDS) return []
  const { tasks, seconds, lastPoll } = backlog
  const isPolled = lastPoll !== null && now.getTime() - lastPoll.at.getTime() < BACKLOG_SECONDS * 1_000
  // A worker that polls works its backlog off.
  if (isPolled) return []
  const told = `${counted(tasks, 'task')} of ${taskQueue} ${tasks === 1 ? 'waits' : 'wait'}, the oldest for ${seconds} s, though ${counted(workers, 'worker')} polled it within two minutes`
  const busy = 'Either all of its slots are taken, or it does not go on.'
  return [
    lastPoll === null
      ? warning(`${told}. None polls for tasks of this kind.`, isKeptUp ? 'npm start' : workerCommand())
      : warning(
          `${told}; the last poll for them was by ${pollWords(lastPoll)}. ${busy} ${standing(lastPoll, isKeptUp)}`,
          processCommand(lastPoll),
          {
            since: lastPoll.at,
          },
        ),
  ]
}

const pollWords = ({ identity, at }: LastPoll): string => `${identity} at ${moment(at)}`

/** The default identity of the SDK. */
function processOf({ identity }: LastPoll): { readonly pid: string; readonly host: string } | null {
  const [, pid, host] = /^(\d+)@(.+)$/.exec(identity) ?? []
  return pid === undefined || host === undefined ? null : { pid, host }
}

function standing(poll: LastPoll, isKeptUp: boolean): string {
  const found = processOf(poll)
  const pid = found?.pid ?? 'PID'
  const another = isKeptUp ? '; npm start starts another' : ' and start another'
  return `If its process${found === null ? '' : ` on ${found.host}`} lives but stands (ps: state T): kill -CONT ${pid}, or kill -9 ${pid}${another}.`
}

/** `npm start` keeps a worker up: without polls its process stands, or has just ended. */
function endCommand(poll: LastPoll): string {
  const found = processOf(poll)
  return found === null ? 'npm start' : `kill -9 ${found.pid}`
}

const processCommand = (poll: LastPoll): string => {
  const found = processOf(poll)
  return found === null ? workerCommand() : `ps -o pid,stat,etime,args -p ${shellWord(found.pid)}`
}
