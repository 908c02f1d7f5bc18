/** Answers that may be served again: the request log is the cache. Rule: docs/behaviour/requests.md, "Response cache". */

import type { Framework, OutboundCall } from '../framework/context.ts'
import { errorLine, systemClock } from '../framework/logger.ts'
import type { Integration } from '../providers/integration.ts'
import type { CallPlan } from './call-options.ts'
import type { Serving } from './response-cache-queries.ts'
import { serveAnswer, uncountServing } from './response-cache-queries.ts'

interface ServedAnswer {
  readonly value: unknown
}

/**
 * With the hash that a row may hold. A plain one would tell what was redacted: a card number has few values, and each can be tried.
 * After a change of the ring's first key no older answer is found.
 */
export function withKeyedHash({ encryption }: Framework, { id }: Integration, plan: CallPlan): CallPlan {
  if (plan.requestHash === null) return plan
  return { ...plan, requestHash: encryption.sign(`request-hash/${id}`, plan.requestHash) }
}

/** The newest answer that has not expired; null when there is none, or it does not fit the schema. Counted as a hit. */
export function freshAnswer(
  framework: Framework,
  outbound: OutboundCall<unknown>,
  plan: CallPlan,
): Promise<ServedAnswer | null> {
  return served(framework, outbound, plan, 'fresh')
}

/** The newest answer however old, for a provider that is away. Counted as a stale hit. Never throws: the failure goes on. */
export async function staleAnswer(
  framework: Framework,
  outbound: OutboundCall<unknown>,
  plan: CallPlan,
): Promise<ServedAnswer | null> {
  try {
    return await served(framework, outbound, plan, 'stale')
  } catch (error) {
    framework.logger.error(
      {
        event: 'request.stale_unread',
        integration: outbound.integration.id,
        provider: outbound.integration.provider,
        error: errorLine(error, 500),
      },
      'no older answer could be looked up; the failure goes to the caller',
    )
    return null
  }
}

async function served(
  { clock, db, tables }: Framework,
  { integration, schema }: OutboundCall<unknown>,
  plan: CallPlan,
  serving: Serving,
): Promise<ServedAnswer | null> {
  if (plan.requestHash === null) return null
  const call = { integrationId: integration.id, requestHash: plan.requestHash }
  const answer = await serveAnswer(db, tables, call, serving, clock === systemClock ? null : clock.now())
  if (answer === null) return null
  const value = decodedAnswer(answer.body)
  const parsed = value === undefined || schema === undefined ? null : schema.safeParse(value)
  if (value !== undefined && parsed?.success !== false) return { value: parsed === null ? value : parsed.data }
  await uncountServing(db, tables, answer.id, serving)
  return null
}

/** Undefined for what is no JSON: every answer that may be served again is stored as JSON, a text too. */
function decodedAnswer(body: string | null): unknown {
  try {
    return body === null ? undefined : JSON.parse(body)
  } catch {
    return undefined
  }
}
