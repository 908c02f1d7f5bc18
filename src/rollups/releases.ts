/** Which release the workers ran since when: the deployments on charts. Rule: docs/behaviour/charts.md, "Marks". */

import { sql } from 'drizzle-orm'
import { jsonText } from '../db/schema/columns.ts'
import type { Framework } from '../framework/context.ts'
import { packageVersion } from '../framework/package-version.ts'

export interface Release {
  readonly release: string
  /** First pass of counting of a worker of it, 20 s after its start or later; the release noted before was another one. */
  readonly at: Date
}

/** The newest that are kept. */
const MOST_KEPT = 100

const releasesKey = ({ config }: Framework): string => `${config.cache_prefix}:releases`

/** `worker.release`, or the version of this package. */
export function releaseOf({ config }: Pick<Framework, 'config'>): string {
  return config.worker.release ?? packageVersion()
}

/** By the first pass of each worker; the same release again changes nothing. */
export async function noteRelease(framework: Framework): Promise<void> {
  const { db, tables } = framework
  const entry = jsonText([{ release: releaseOf(framework), at: framework.clock.now() }])
  await db.execute(sql`
    insert into ${tables.cache} as c (key, value) values (${releasesKey(framework)}, ${entry}::jsonb)
    on conflict (key) do update set
      value = (
        select jsonb_agg(kept.release order by kept.position)
        from jsonb_array_elements(c.value || excluded.value) with ordinality kept (release, position)
        where kept.position > jsonb_array_length(c.value) + 1 - ${MOST_KEPT}::int),
      updated_at = clock_timestamp()
    where c.value #>> '{-1,release}' is distinct from excluded.value #>> '{0,release}'`)
}

/** Oldest first. */
export async function releases(framework: Framework): Promise<Release[]> {
  const { db, tables } = framework
  const [row] = await db.execute<{ value: { release: string; at: string }[] }>(
    sql`select value from ${tables.cache} where key = ${releasesKey(framework)}`,
  )
  return (row?.value ?? []).map(({ release, at }) => ({ release, at: new Date(at) }))
}
