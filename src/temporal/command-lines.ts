/**
 * Lines for the `temporal` command line, ready to be pasted. They name address and namespace, since an operator's shell may
 * have others; an API key or TLS settings come from its own environment (TEMPORAL_API_KEY, TEMPORAL_TLS…).
 */
import type { Config } from '../config/schema.ts'
import type { TemporalCommands } from '../framework/context.ts'
import { shellWord } from '../framework/shell-word.ts'
import type { FollowIncidentInput } from '../incidents/incident-jobs.ts'
import { QUERY, SIGNAL, scheduleId, taskQueue, WORKFLOW, workflowId } from '../workflows/ids.ts'
import type { PumpedQueueInput } from '../workflows/messages.ts'
import type { TemporalAddress } from './connection.ts'
import { sharedStart } from './workflow-starts.ts'

const GRPC_NOT_FOUND = 5 // https://grpc.io/docs/guides/status-codes/

interface Started {
  readonly workflow: string
  readonly workflowId: string
  readonly taskQueue: string
}

export function temporalCommands(config: Config, { address, namespace }: TemporalAddress): TemporalCommands {
  const prefix = config.cache_prefix
  const at = `--address ${shellWord(address)} --namespace ${shellWord(namespace)}`
  const schedule = (id: string): string => `--schedule-id ${shellWord(id)}`
  const signalWithStart = (start: Started, input: object, signal: string): string =>
    [
      `temporal workflow signal-with-start ${at}`,
      `--workflow-id ${shellWord(start.workflowId)}`,
      `--type ${start.workflow} --task-queue ${shellWord(start.taskQueue)}`,
      `--input ${shellWord(JSON.stringify(input))} --signal-name ${signal}`,
    ].join(' ')
  const wake = (name: 'webhookInbox' | 'eventOutbox'): string =>
    signalWithStart(sharedStart(config, name), {} satisfies PumpedQueueInput, SIGNAL.arrived)
  const askState = (id: string): string =>
    `temporal workflow query ${at} --workflow-id ${shellWord(id)} --type ${QUERY.state}`
  return {
    reach(error) {
      const code = (error as { cause?: { code?: unknown } }).cause?.code
      if (code === GRPC_NOT_FOUND) return `temporal operator namespace create ${at}`
      const [, host, port] = /^(.*):(\d+)$/.exec(address) ?? []
      return host === 'localhost' || host === '127.0.0.1' || host === '[::1]'
        ? `temporal server start-dev --port ${port} --namespace ${shellWord(namespace)} --db-filename temporal.db`
        : `temporal operator cluster health --address ${shellWord(address)}`
    },
    wakeInbox: () => wake('webhookInbox'),
    askInbox: () => askState(workflowId.webhookInbox(prefix)),
    terminate: (id) =>
      `temporal workflow terminate ${at} --workflow-id ${shellWord(id)} --reason 'its task failed again and again'`,
    wakeOutbox: () => wake('eventOutbox'),
    askOutbox: () => askState(workflowId.eventOutbox(prefix)),
    followIncident: (integrationId) =>
      signalWithStart(
        {
          workflow: WORKFLOW.incident,
          workflowId: workflowId.incident(prefix, integrationId),
          taskQueue: taskQueue(prefix, config.sync.queue),
        },
        { integrationId } satisfies FollowIncidentInput,
        SIGNAL.escalate,
      ),
    askIncident: (integrationId) => askState(workflowId.incident(prefix, integrationId)),
    resume: (id) =>
      `temporal schedule toggle ${at} ${schedule(id)} --unpause --reason 'resumed after integrations doctor'`,
    dispatchNow: () => `temporal schedule trigger ${at} ${schedule(scheduleId(prefix, 'dispatch-syncs'))}`,
  }
}
