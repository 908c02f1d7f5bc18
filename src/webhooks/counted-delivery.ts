/** The door to webhooks, which counts the result of each delivery. Rule: docs/behaviour/metrics.md, "Webhooks". */

import type { Framework } from '../framework/context.ts'
import type { ReceivedOutcome } from '../observability/metrics.ts'
import { UNKNOWN_PROVIDER } from '../observability/metrics.ts'
import type { Arrival, Delivery } from './arrival.ts'
import { receiveDelivery } from './arrival.ts'

const OUTCOMES: Readonly<Record<Arrival['kind'], ReceivedOutcome>> = {
  queued: 'queued',
  duplicate: 'duplicate',
  challenge: 'challenge',
  'bad signature': 'bad_signature',
  'too large': 'too_large',
  'too slow': 'too_slow',
  'unknown provider': 'unknown_provider',
  'no webhooks': 'no_webhooks',
  'unknown integration': 'unknown_integration',
  unavailable: 'unavailable',
}
/** Here the integration that the URL names may not exist. A stranger's word is no label. */
const UNPROVEN: readonly Arrival['kind'][] = ['unknown provider', 'no webhooks', 'unknown integration', 'unavailable']

export async function receiveCounted(framework: Framework, delivery: Delivery): Promise<Arrival> {
  const arrival = await receiveDelivery(framework, delivery)
  const { kind } = arrival
  const of = {
    provider: kind === 'unknown provider' ? UNKNOWN_PROVIDER : delivery.provider,
    id: UNPROVEN.includes(kind) ? null : delivery.integrationId,
  }
  framework.metrics.webhookReceived(of, OUTCOMES[kind])
  return arrival
}
