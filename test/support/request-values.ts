/** The row of an attempt, as its settlement is given it. */
import type { RequestValues } from '../../src/calls/admission/call-queries.ts'

export function requestValues(given: Partial<RequestValues> = {}): RequestValues {
  return {
    endpoint: '/things',
    method: 'GET',
    status_code: 200,
    request_data: null,
    idempotency_key: null,
    provider_request_id: null,
    response_data: null,
    error: null,
    failure_class: null,
    duration_ms: 3,
    retry_of: null,
    related_type: null,
    related_id: null,
    expires_in_ms: null,
    request_hash: null,
    origin: null,
    ...given,
  }
}
