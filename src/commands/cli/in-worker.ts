/**
 * The command line inside a worker: a command's workflow has its activity run it here.
 *
 * Rule: docs/behaviour/commands-as-workflows.md.
 */

import type { Integrations } from '../../create-integrations.ts'
import type { CommandRunner } from '../command-jobs.ts'

/** Loads the commands when the first one is run: no worker's start waits for them. */
export function createCommandRunner(integrations: Integrations): CommandRunner {
  return async (call) => {
    const { runInWorker } = await import('./worker-command.ts')
    return runInWorker(integrations, call)
  }
}
