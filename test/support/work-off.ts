/** What an inbox does with the webhooks that are pending, of whichever integration, by a claim of its own. */
import { randomUUID } from 'node:crypto'
import { pumpUntilEmpty } from '../../src/activities/pumping.ts'
import { webhookPumping } from '../../src/activities/webhook-activities.ts'
import type { Pumped } from '../../src/claims/pump-jobs.ts'
import { pumpClaimOf } from '../../src/claims/rules.ts'
import type { Framework } from '../../src/framework/context.ts'

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
): Promise<Pumped> {
  const surroundings = { cancellationSignal: signal, info: { attempt: 1 } }
  return pumpUntilEmpty(framework, webhookPumping(framework), surroundings, claim)
}
