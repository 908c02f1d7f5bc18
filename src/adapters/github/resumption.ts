/** Where a listing of a repository goes on. Rule: docs/behaviour/github.md, "When a listing is cut off". */
import { z } from 'zod'
import type { Json, SyncSession } from '../../provider.ts'
import { repositoryOf } from './repository.ts'

/** Keeps the position, and of which repository it is. */
export function bookmarkListing(session: SyncSession, position: Readonly<Record<string, Json>>): Promise<void> {
  return session.bookmark({ repository: addressOf(session), ...position })
}

/**
 * The last bookmark of an earlier try. Null: begin at the beginning, also after `owner`, `repo` or `base_url` was changed: a
 * place in one repository's list is none in another's.
 */
export function resumedListing<S extends z.ZodType>(session: SyncSession, position: S): z.output<S> | null {
  const kept = session.resumeFrom()
  const isHere = z.looseObject({ repository: z.literal(addressOf(session)) }).safeParse(kept).success
  const parsed = position.safeParse(kept)
  return isHere && parsed.success ? parsed.data : null
}

function addressOf({ integration }: SyncSession): string {
  const { owner, repo, endpoint } = repositoryOf(integration)
  return endpoint('GET /repos/{owner}/{repo}', { owner, repo }).url
}
