/** Whose token it is. Rule: docs/behaviour/github.md, "Identity". */
import type { AuthenticatedUser, Integration, Json } from '../../provider.ts'
import { callGitHub } from './call.ts'
import { GitHubUser } from './data.ts'
import { repositoryOf } from './repository.ts'

/** @throws what `request()` throws: a token that GitHub refuses is told by its HttpError */
export async function viewerOf(integration: Integration): Promise<GitHubUser> {
  const repository = repositoryOf(integration)
  const request = repository.endpoint('GET /user', {})
  const { data } = await callGitHub(repository, GitHubUser, { endpoint: 'user', request })
  return data
}

export async function authenticatedUser(integration: Integration): Promise<AuthenticatedUser> {
  const viewer = await viewerOf(integration)
  return {
    id: String(viewer.id),
    name: viewer.name ?? null,
    email: viewer.email ?? null,
    username: viewer.login,
    raw: viewer as Json,
  }
}
