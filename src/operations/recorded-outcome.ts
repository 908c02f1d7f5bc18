/** Outcomes that a host tells of, of calls made elsewhere. Rule: docs/behaviour/requests.md, "Health". */
import { IntegrationNotFound, InvalidArgumentException } from '../core/errors.ts'
import { FailureClass } from '../core/failure-class.ts'
import { settleCalls } from '../db/queries/calls.ts'
import type { Framework } from '../framework.ts'
import type { Integration } from '../providers/integration.ts'
import { callTarget } from './request/call-target.ts'
import { announceChanges } from './request/events.ts'

/**
 * Counts for health as a call's outcome would. Not for the breaker: nothing admitted the call. Null is success.
 *
 * @throws InvalidArgumentException, IntegrationNotFound
 */
export async function recordOutcome(
  framework: Framework,
  integration: Integration,
  failureClass: FailureClass | null,
): Promise<void> {
  const { db, tables } = framework
  const known = Object.values(FailureClass)
  if (failureClass !== null && !known.includes(failureClass))
    throw new InvalidArgumentException(
      'failure class',
      `${known.join(', ')} are allowed, ${String(failureClass)} was given`,
    )
  // Not joined with the outcomes of calls: who records one must hear that it was not written.
  const settled = await settleCalls(db, tables, callTarget(framework, integration), [
    { owner: '', generation: null, class: failureClass, quietForMs: null, quietUntil: null, row: null },
  ])
  if (settled === null) throw new IntegrationNotFound(integration.id)
  await announceChanges(framework, integration, settled.events)
}
