/** A question to Temporal: how long its answer may take, and what becomes of one that does not come. */
import type { Client } from '@temporalio/client'
import type { BackendUnreachable } from '../framework/errors.ts'
import { sdk, temporalUnreachable } from './connection.ts'

/** How long a question may wait for Temporal's answer. */
export const ANSWER_TIMEOUT_MS = 5_000
const GRPC_INVALID_ARGUMENT = 3 // https://grpc.io/docs/guides/status-codes/

/** What Temporal answers to one question; its own refusals pass as they are. @throws BackendUnreachable */
export async function answered<T>(client: Client, ask: () => Promise<T>): Promise<T> {
  try {
    return await withAnswerLimit(client, ask)
  } catch (error) {
    if (isRefusal(error)) throw error
    throw unreachable(client, error)
  }
}

/** A call that hangs on a connection of the time before an outage ends, and the next one takes a new connection. */
export function withAnswerLimit<T>(client: Client, ask: () => Promise<T>): Promise<T> {
  return client.withDeadline(Date.now() + ANSWER_TIMEOUT_MS, ask)
}

/** Null for a workflow that is not there, or has ended meanwhile. */
export async function unlessGone<T>(answer: Promise<T>): Promise<T | null> {
  try {
    return await answer
  } catch (error) {
    if (error instanceof sdk().WorkflowNotFoundError) return null
    throw error
  }
}

/** Temporal has answered, and the same question would get the same answer. */
function isRefusal(error: unknown): boolean {
  if (error instanceof sdk().WorkflowExecutionAlreadyStartedError) return true
  if (error instanceof sdk().WorkflowNotFoundError) return true
  return (error as { cause?: { code?: unknown } }).cause?.code === GRPC_INVALID_ARGUMENT
}

export function unreachable({ connection, options }: Client, error: unknown): BackendUnreachable {
  const address = connection instanceof sdk().Connection ? connection.options.address : 'its address'
  return temporalUnreachable({ address, namespace: options.namespace }, error)
}
