/** Whether a command's own workflow can begin. Rule: docs/behaviour/commands-as-workflows.md, "Result". */
import { isIntegrationsError } from '../framework/errors.ts'
import { failureOf } from './activity-failures.ts'

export type DatabaseCheckActivities = ReturnType<typeof databaseCheckActivities>

/** @param ready the check of a starting process; it gives up after some seconds */
export function databaseCheckActivities(ready: () => Promise<void>) {
  return {
    /**
     * Whether Postgres answers. May be run twice: it changes nothing. Any other fault is left to the work itself.
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
