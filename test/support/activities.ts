import { MockActivityEnvironment } from '@temporalio/testing'
import { DefaultLogger } from '@temporalio/worker'

export interface ActivityRun {
  /** From 1. */
  readonly attempt?: number
  /** Gets the function that cancels the activity, before the activity begins. */
  readonly onStart?: (cancel: () => void) => void
}

/** Runs an activity as a worker would. */
export function runActivity<Input, Output>(
  activity: (input: Input) => Promise<Output>,
  input: Input,
  { attempt = 1, onStart }: ActivityRun = {},
): Promise<Output> {
  const environment = new MockActivityEnvironment(
    { attempt },
    // Activities that fail are what tests are about; the SDK's warnings of them are noise.
    { logger: new DefaultLogger('ERROR') },
  )
  onStart?.(() => environment.cancel())
  return environment.run(activity as never, input) as Promise<Output>
}
