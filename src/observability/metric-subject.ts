/**
 * Which integration, and which provider, a count, a log line or a workflow belongs to.
 * Rules: docs/behaviour/metrics.md, "Labels"; docs/behaviour/logs.md, "Fields".
 */

import type { Framework } from '../framework/context.ts'
import { inTime } from '../framework/waiting.ts'
import { findProvider } from '../integrations/queries.ts'
import type { Subject } from './metrics.ts'
import { UNKNOWN_PROVIDER } from './metrics.ts'

/** A subject that names its integration: log lines and metrics take it. */
export interface IntegrationSubject extends Subject {
  readonly id: number
}

/** A caller waits no longer for a word in a log line. */
export const PATIENCE_MS = 2_000

/** Never throws, and never waits long: the event has happened, whether or not its provider can be read. */
export async function subjectOf(framework: Framework, id: number): Promise<IntegrationSubject> {
  const provider = await inTime(providerOf(framework, id), PATIENCE_MS)
  return { id, provider: provider ?? UNKNOWN_PROVIDER }
}

/** Each is read once in a process: an integration keeps its provider. */
const PROVIDERS = new WeakMap<Framework, Map<number, string>>()
/** A map of this size is emptied. */
const MAX_REMEMBERED = 10_000

/** The provider of an integration. Null: there is no such row, or it cannot be read now. Never rejects. */
async function providerOf(framework: Framework, integrationId: number): Promise<string | null> {
  const providers = PROVIDERS.get(framework) ?? new Map<number, string>()
  PROVIDERS.set(framework, providers)
  const known = providers.get(integrationId)
  if (known !== undefined) return known
  const provider = await findProvider(framework.db, framework.tables, integrationId).catch(() => null)
  if (provider === null) return null
  if (providers.size >= MAX_REMEMBERED) providers.clear()
  providers.set(integrationId, provider)
  return provider
}
