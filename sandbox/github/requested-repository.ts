import type { Context } from 'hono'
import { notFound } from './failures.ts'
import type { SandboxState } from './sandbox-state.ts'

/** GitHub compares names without case, and answers 404 to what it will not show. */
export function requireRepository(c: Context, { dataset }: SandboxState, method: string, path: string): void {
  const { owner, repo, repositoryId } = c.req.param() as Record<string, string | undefined>
  const isOurs =
    repositoryId === undefined
      ? `${owner}/${repo}`.toLowerCase() === `${dataset.owner.login}/${dataset.repository.name}`.toLowerCase()
      : repositoryId === String(dataset.repository.id)
  if (!isOurs) throw notFound(method, path)
}
