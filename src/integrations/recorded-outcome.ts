/** Outcomes of calls that a host makes elsewhere. Rule: docs/behaviour/requests.md, "Health". */

import { settleCalls } from '../calls/admission/call-queries.ts'
import { announceChanges } from '../calls/call-events.ts'
import { callTarget } from '../calls/call-target.ts'
import { FailureClass } from '../calls/failure-class-rules.ts'
import type { Framework } from '../framework/context.ts'
import { IntegrationNotFound, InvalidArgumentException } from '../framework/errors.ts'
import type { Integration } from '../providers/integration.ts'

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
  // Not joined with the outcomes of calls: the caller must learn of a failed write.
  const settled = await settleCalls(db, tables, callTarget(framework, integration), [
    { owner: '', generation: null, class: failureClass, quietForMs: null, quietUntil: null, row: null },
  ])
  if (settled === null) throw new IntegrationNotFound(integration.id)
  await announceChanges(framework, integration, settled.events)
}
