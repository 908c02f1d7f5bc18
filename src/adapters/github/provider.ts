import type {
  ClassifiesFailures,
  CustomizesRetry,
  HasBackfill,
  HasIncrementalSync,
  IdentifiesAuthenticatedUser,
  Integration,
  ListedWebhook,
  ReconcilesWebhooks,
  RedactsRequestData,
  RetryWait,
  SyncItemEventClass,
  SyncSession,
  WebhookRequest,
} from '../../provider.ts'
import { RateLimit, reduceCheckpointsByMax } from '../../provider.ts'
import { GitHubCredentials } from './app-token.ts'
import { syncWindow } from './backfill.ts'
import { GitHubIssueSynced, GitHubWebhookReceived } from './events.ts'
import { classifyGitHubFailure, gitHubRetryDelayMs, isGitHubRetryable } from './failures.ts'
import { isHealthy } from './health.ts'
import { authenticatedUser } from './identity.ts'
import { DELIVERIES_KEPT_SECONDS, missedWebhooks } from './reconcile.ts'
import { GitHubMetadata } from './repository.ts'
import { syncIssues } from './sync.ts'
import { actionOf, deliveryIdOf, eventOf, payloadOf, verifySignature } from './webhooks.ts'

/** For a personal access token: https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api */
const REQUESTS_PER_HOUR = 5_000
const SYNC_INTERVAL_MINUTES = 5

/** The issues and webhooks of one GitHub repository. */
export class GitHubProvider
  implements
    HasIncrementalSync,
    HasBackfill,
    ReconcilesWebhooks,
    ClassifiesFailures,
    CustomizesRetry,
    IdentifiesAuthenticatedUser,
    RedactsRequestData
{
  readonly label = 'GitHub'
  readonly credentialsSchema = GitHubCredentials
  readonly metadataSchema = GitHubMetadata

  sync(_integration: Integration, session: SyncSession): Promise<void> {
    return syncIssues(session)
  }

  syncIncremental(_integration: Integration, session: SyncSession): Promise<void> {
    return syncIssues(session)
  }

  syncWindow(_integration: Integration, session: SyncSession, window: { from: Date; to: Date }): Promise<void> {
    return syncWindow(session, window)
  }

  readonly reduceCheckpoints = reduceCheckpointsByMax

  syncItemEvents(): readonly SyncItemEventClass[] {
    return [GitHubIssueSynced]
  }

  defaultSyncInterval(): number {
    return SYNC_INTERVAL_MINUTES
  }

  defaultRateLimit(): RateLimit {
    return RateLimit.perHour(REQUESTS_PER_HOUR)
  }

  /** `X-GitHub-Delivery` is a header, and GitHub signs the body only. */
  readonly deliveryIdSigned = false

  verifyWebhookSignature(integration: Integration, request: WebhookRequest): boolean {
    return verifySignature(integration, request)
  }

  resolveWebhookEvent(request: WebhookRequest): string | null {
    return eventOf(request)
  }

  webhookDeliveryId(request: WebhookRequest): string | null {
    return deliveryIdOf(request)
  }

  async handleWebhook(integration: Integration, request: WebhookRequest): Promise<{ status: string; event: string }> {
    const event = eventOf(request) ?? 'unknown'
    const payload = payloadOf(request)
    await integration.emit(
      new GitHubWebhookReceived(integration, event, actionOf(payload), deliveryIdOf(request), payload),
    )
    return { status: 'dispatched', event }
  }

  readonly healthCheck = isHealthy
  readonly authenticatedUser = authenticatedUser
  readonly reconcileLookbackSeconds = DELIVERIES_KEPT_SECONDS

  missedWebhooks(
    integration: Integration,
    window: { since: Date; until: Date; signal: AbortSignal },
  ): AsyncIterable<ListedWebhook> {
    return missedWebhooks(integration, window)
  }

  readonly classifyFailure = classifyGitHubFailure

  isRetryable(error: unknown, wait: RetryWait): boolean | null {
    return isGitHubRetryable(error, wait)
  }

  retryDelayMs(error: unknown, _attempt: number, now: Date): number | null {
    return gitHubRetryDelayMs(error, now)
  }

  /** The answer to the call for an installation's token. */
  redactedResponsePaths(): string[] {
    return ['token']
  }
}
