/** Pages of github.com about what this adapter syncs. Rule: docs/behaviour/github.md, "Pages". */
import { z } from 'zod'
import type { Integration, ShownRecord } from '../../provider.ts'
import { GitHubMetadata } from './repository.ts'

const Seen = z.object({ html_url: z.string() })
/** The record itself; what a delivery is about, the narrowest first. */
const Shown = z.union([
  Seen,
  z.object({ comment: Seen }).transform(({ comment }) => comment),
  z.object({ issue: Seen }).transform(({ issue }) => issue),
  z.object({ repository: Seen }).transform(({ repository }) => repository),
])

/** Only on the integration's own server: what a payload says elsewhere is no page of GitHub's. */
export function pageOf(integration: Integration, { payload }: ShownRecord): string | null {
  const page = Shown.safeParse(payload).data?.html_url
  const metadata = GitHubMetadata.safeParse(integration.metadata).data
  if (page === undefined || metadata === undefined || !URL.canParse(page)) return null
  const host = metadata.base_url === undefined ? 'github.com' : new URL(metadata.base_url).hostname
  return new URL(page).hostname === host ? page : null
}
