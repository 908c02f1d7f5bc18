import type {
  ClassifiesFailures,
  CustomizesRetry,
  HandlesWebhooks,
  HasIncrementalSync,
  Integration,
  SyncItemEventClass,
  SyncSession,
  WebhookRequest,
} from '../../provider.ts'
import { RateLimit, reduceCheckpointsByMax } from '../../provider.ts'
import { GitHubCredentials, GitHubMetadata } from './client.ts'
import { GitHubIssueSynced, GitHubWebhookReceived } from './events.ts'
import { classifyGitHubFailure, gitHubRetryDelayMs } from './failures.ts'
import { syncIssues } from './sync.ts'
import { actionOf, deliveryIdOf, eventOf, payloadOf, verifySignature } from './webhooks.ts'

/** For a personal access token: https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api */
const REQUESTS_PER_HOUR = 5_000
const SYNC_INTERVAL_MINUTES = 5

/** The issues and webhooks of one GitHub repository. */
export class GitHubProvider implements HasIncrementalSync, HandlesWebhooks, ClassifiesFailures, CustomizesRetry {
  readonly label = 'GitHub'
  readonly credentialsSchema = GitHubCredentials
  readonly metadataSchema = GitHubMetadata
  readonly #fetch: typeof globalThis.fetch | undefined

  /** @param options.fetch what GitHub is called with, such as a test's scripted one. Default: the platform's */
  constructor({ fetch }: { fetch?: typeof globalThis.fetch } = {}) {
    this.#fetch = fetch
  }

  sync(_integration: Integration, session: SyncSession): Promise<void> {
    return syncIssues(session, this.#fetch)
  }

  syncIncremental(_integration: Integration, session: SyncSession): Promise<void> {
    return syncIssues(session, this.#fetch)
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

  readonly classifyFailure = classifyGitHubFailure

  retryDelayMs(error: unknown): number | null {
    return gitHubRetryDelayMs(error, new Date())
  }
}
