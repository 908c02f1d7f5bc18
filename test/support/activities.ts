import { MockActivityEnvironment } from '@temporalio/testing'
import { DefaultLogger } from '@temporalio/worker'

export interface ActivityRun {
  /** From 1. */
  readonly attempt?: number
  /** Gets the function that cancels the activity, before the activity begins. */
  readonly onStart?: (cancel: () => void) => void
  /** Gets what the SDK says at level `warn` or above. */
  readonly onSdkLine?: (message: string) => void
}

/** Runs an activity as a worker would. */
export function runActivity<Input, Output>(
  activity: (input: Input) => Promise<Output>,
  input: Input,
  { attempt = 1, onStart, onSdkLine }: ActivityRun = {},
): Promise<Output> {
  const environment = new MockActivityEnvironment(
    { attempt },
    // Activities that fail are what tests are about; the SDK's warnings of them are noise.
    {
      logger:
        onSdkLine === undefined
          ? new DefaultLogger('ERROR')
          : new DefaultLogger('WARN', ({ message }) => onSdkLine(message)),
    },
  )
  onStart?.(() => environment.cancel())
  return environment.run(activity as never, input) as Promise<Output>
}
