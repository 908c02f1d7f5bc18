/** The operations of one GitHub repository. Rule: docs/behaviour/github.md. */
import type { Integration } from '../../provider.ts'
import type { GitHubAsset } from './assets.ts'
import { downloadAsset } from './assets.ts'
import { GitHubComments } from './comments.ts'
import type { GitHubUser } from './data.ts'
import { viewerOf } from './identity.ts'
import { GitHubIssues } from './issues.ts'

/** Made for nothing: credentials and metadata are read by the first call. */
export class GitHubClient {
  readonly issues: GitHubIssues
  readonly comments: GitHubComments
  readonly assets: {
    /** What an attachment's URL leads to. Null: it is not there. */
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
