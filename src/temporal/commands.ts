/**
 * Lines for the `temporal` command line, ready to be pasted. They name address and namespace, since an operator's shell may
 * have others; an API key or TLS settings come from its own environment (TEMPORAL_API_KEY, TEMPORAL_TLS…).
 */
import type { Config } from '../config/schema.ts'
import { shellWord } from '../core/shell-word.ts'
import type { TemporalCommands } from '../framework.ts'
import type { InboxInput } from '../workflows/messages.ts'
import { arrived, inboxState, scheduleId, taskQueue, WORKFLOW, workflowId } from '../workflows/messages.ts'
import type { TemporalAddress } from './connection.ts'

const GRPC_NOT_FOUND = 5 // https://grpc.io/docs/guides/status-codes/

export function temporalCommands(config: Config, { address, namespace }: TemporalAddress): TemporalCommands {
  const prefix = config.cache_prefix
  const at = `--address ${shellWord(address)} --namespace ${shellWord(namespace)}`
  const schedule = (id: string): string => `--schedule-id ${shellWord(id)}`
  return {
    reach(error) {
      const code = (error as { cause?: { code?: unknown } }).cause?.code
      if (code === GRPC_NOT_FOUND) return `temporal operator namespace create ${at}`
      const [, host, port] = /^(.*):(\d+)$/.exec(address) ?? []
      return host === 'localhost' || host === '127.0.0.1' || host === '[::1]'
        ? `temporal server start-dev --port ${port} --namespace ${shellWord(namespace)} --db-filename temporal.db`
        : `temporal operator cluster health --address ${shellWord(address)}`
    },
    wakeInbox(integrationId) {
      const input: InboxInput = { integrationId }
      return [
        `temporal workflow signal-with-start ${at}`,
        `--workflow-id ${shellWord(workflowId.webhookInbox(prefix, integrationId))}`,
        `--type ${WORKFLOW.webhookInbox} --task-queue ${shellWord(taskQueue(prefix, config.webhook.queue))}`,
        `--input ${shellWord(JSON.stringify(input))} --signal-name ${arrived.name}`,
      ].join(' ')
    },
    askInbox: (integrationId) =>
      `temporal workflow query ${at} --workflow-id ${shellWord(workflowId.webhookInbox(prefix, integrationId))} --type ${inboxState.name}`,
    resume: (id) =>
      `temporal schedule toggle ${at} ${schedule(id)} --unpause --reason 'resumed after integrations doctor'`,
    dispatchNow: () => `temporal schedule trigger ${at} ${schedule(scheduleId(prefix, 'dispatch-syncs'))}`,
  }
}
