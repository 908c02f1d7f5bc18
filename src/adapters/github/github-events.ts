import type { Integration, Json } from '../../provider.ts'
import { ProviderEvent, SyncItemEvent } from '../../provider.ts'
import { GitHubIssue } from './data.ts'

/** One issue of a sync run. Listen to it to map and store the issue; the same one may come again. */
export class GitHubIssueSynced extends SyncItemEvent<GitHubIssue> {
  static override readonly type = 'github.issue_synced'
  static override readonly schema = GitHubIssue
}

/** A verified webhook of GitHub. A listener that throws fails the webhook, so that it can be tried again. */
export class GitHubWebhookReceived extends ProviderEvent {
  static override readonly type = 'github.webhook_received'

  constructor(
    integration: Integration,
    /** `X-GitHub-Event`, such as `issues`. */
    readonly event: string,
    /** Such as `opened`; null for events without one. */
    readonly action: string | null,
    /** That of the stored delivery: `X-GitHub-Delivery`, else a digest. Null only where the adapter is called without one. */
    readonly deliveryId: string | null,
    readonly payload: Json,
  ) {
    super(integration)
  }
}
