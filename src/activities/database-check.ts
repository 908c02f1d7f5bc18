/** Whether a command's own workflow can begin. Rule: docs/behaviour/commands-as-workflows.md, "Result". */
import { isIntegrationsError } from '../framework/errors.ts'
import { failureOf } from './activity-failures.ts'

export type DatabaseCheckActivities = ReturnType<typeof databaseCheckActivities>

/** @param ready what a process looks at before it starts; it gives up after seconds when nobody answers */
export function databaseCheckActivities(ready: () => Promise<void>) {
  return {
    /**
     * Whether Postgres answers. May be run twice: it changes nothing. Whatever else it meets is for the work to say.
     *
     * @throws ApplicationFailure backend_unreachable, tried again
     */
    async checkDatabase(): Promise<void> {
      try {
        await ready()
      } catch (error) {
        if (!isIntegrationsError(error, 'backend_unreachable')) return
        throw failureOf({ message: error.message, type: error.code, nonRetryable: false })
      }
    },
  }
}
