import { ApplicationFailure } from '@temporalio/workflow'

/** A failure in words for people. Without a stack, which would be one of the bundle and stay in the history. */
export function plainFailure(words: Parameters<typeof ApplicationFailure.create>[0]): ApplicationFailure {
  const failure = ApplicationFailure.create(words)
  failure.stack = ''
  return failure
}
