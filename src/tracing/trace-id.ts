/**
 * The id of a trace that several processes begin: asked for by whoever starts a span without a parent, given by the generator of
 * ids in sdk.ts. A host's own SDK knows nothing of it and makes a random one.
 */
import { context, createContextKey } from '@opentelemetry/api'

const WANTED = createContextKey('durable-integrations: id of the trace that begins')

/** @param traceId null: any */
export function beginningTrace<T>(traceId: string | null | undefined, start: () => T): T {
  return traceId ? context.with(context.active().setValue(WANTED, traceId), start) : start()
}

export function wantedTraceId(): string | null {
  const wanted = context.active().getValue(WANTED)
  return typeof wanted === 'string' ? wanted : null
}
