/** What an inbox does with the webhooks that are pending, of whichever integration, by a claim of its own. */
import { randomUUID } from 'node:crypto'
import type { PumpedWebhooks } from '../../src/activities/webhooks.ts'
import { pumpUntilEmpty } from '../../src/activities/webhooks.ts'
import { pumpClaimOf } from '../../src/core/claim.ts'
import type { Framework } from '../../src/framework.ts'

export interface WorkOff {
  /** Default: a new one. */
  readonly claim?: string
  /** Aborted when the worker stops. */
  readonly signal?: AbortSignal
}

/** Ends when nothing is pending. */
export function workOff(
  framework: Framework,
  { claim = pumpClaimOf(randomUUID(), 1), signal = new AbortController().signal }: WorkOff = {},
): Promise<PumpedWebhooks> {
  return pumpUntilEmpty(framework, { cancellationSignal: signal, info: { attempt: 1 } }, claim)
}
