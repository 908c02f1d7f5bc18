/** Which integrations wait for a person to authorize them. Rule: docs/behaviour/oauth.md, "Reauthorization". */

import type { Framework } from '../framework/context.ts'
import { integrationHandle } from '../integrations/handle.ts'
import { integrationsById } from '../integrations/queries.ts'
import { doesWithoutAuthorization } from './oauth-provider.ts'
import type { ReauthMark } from './reauth.ts'
import { reauthMarks } from './reauth.ts'

/** The marks of those that need an authorization: a mark may be older than the API key that does without. */
export async function neededReauthMarks(
  framework: Framework,
  ids: readonly number[],
): Promise<Map<number, ReauthMark>> {
  const marks = await reauthMarks(framework, ids)
  const needed = await needingAuthorization(framework, [...marks.keys()])
  return new Map([...marks].filter(([id]) => needed.has(id)))
}

/** Those of the integrations that do not do without an authorization. One question, none for no ids. */
export async function needingAuthorization(framework: Framework, ids: readonly number[]): Promise<Set<number>> {
  const rows = await integrationsById(framework.db, framework.tables, ids)
  const needing = [...rows.values()].filter((row) => {
    const provider = framework.providers.find(row.provider)
    return provider === null || !doesWithoutAuthorization(provider, integrationHandle(framework, row))
  })
  return new Set(needing.map(({ id }) => id))
}
