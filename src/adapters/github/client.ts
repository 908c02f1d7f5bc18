/** The operations of one GitHub repository. Rule: docs/behaviour/github.md. */
import type { AuthenticatedUser, Integration, Json } from '../../provider.ts'
import type { GitHubAsset } from './assets.ts'
import { downloadAsset } from './assets.ts'
import { GitHubComments } from './comments.ts'
import { GitHubUser } from './data.ts'
import { callGitHub } from './github-call.ts'
import { GitHubIssues } from './issues.ts'
import { repositoryOf } from './repository.ts'

/** Cheap to create: the first call reads credentials and metadata. */
export class GitHubClient {
  readonly issues: GitHubIssues
  readonly comments: GitHubComments
  readonly assets: {
    /** Downloads an attachment's URL. Null: it does not exist. */
    download(url: string): Promise<GitHubAsset | null>
  }
  readonly #integration: Integration

  constructor(integration: Integration) {
    this.#integration = integration
    this.issues = new GitHubIssues(integration)
    this.comments = new GitHubComments(integration)
    this.assets = { download: (url) => downloadAsset(integration, url) }
  }

  /** The account that the token belongs to. */
  viewer(): Promise<GitHubUser> {
    return viewerOf(this.#integration)
  }
}

/** @throws errors of `request()`; an HttpError if GitHub refuses the token */
async function viewerOf(integration: Integration): Promise<GitHubUser> {
  const repository = repositoryOf(integration)
  const request = repository.endpoint('GET /user', {})
  const { data } = await callGitHub(repository, GitHubUser, { endpoint: 'user', request })
  return data
}

/** The account that the token belongs to, in the framework's format. Rule: docs/behaviour/github.md, "Identity". */
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
