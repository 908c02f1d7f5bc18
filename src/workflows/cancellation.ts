import { CancellationScope, isCancellation, sleep } from '@temporalio/workflow'

/** What runs when a run is cancelled gets so long; what is later than that loses by the guards of the rows. */
const GRACE = '30 seconds'

export type Ended<T> = { readonly kind: 'ended'; readonly value: T } | { readonly kind: 'cancelled' }

/** Runs `work` in `scope` until it ends, or until the scope was cancelled and what ran has ended or had its time. */
export function untilCancelled<T>(scope: CancellationScope, work: () => Promise<T>): Promise<Ended<T>> {
  const ended = scope.run(work).then(
    (value): Ended<T> => ({ kind: 'ended', value }),
    (error: unknown): Ended<T> => {
      if (scope.consideredCancelled && isCancellation(error)) return { kind: 'cancelled' }
      throw error
    },
  )
  const graceOver = scope.cancelRequested.catch(async (): Promise<Ended<T>> => {
    await CancellationScope.nonCancellable(() => sleep(GRACE, { summary: 'what is under way gets so long to end' }))
    return { kind: 'cancelled' }
  })
  return Promise.race([ended, graceOver])
}
