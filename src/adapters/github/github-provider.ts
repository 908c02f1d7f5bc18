import type { RestEndpointMethodTypes } from '@octokit/rest'
import { z } from 'zod'
import type {
  ClassifiesFailures,
  CustomizesRetry,
  HasBackfill,
  HasIncrementalSync,
  IdentifiesAuthenticatedUser,
  Integration,
  ListedWebhook,
  ManagesWebhooks,
  RecognisesEchoes,
  ReconcilesWebhooks,
  RedactsRequestData,
  RetryWait,
  SyncItemEventClass,
  SyncSession,
  TestWebhook,
  WebhookContext,
  WebhookRequest,
  WebhookSample,
} from '../../provider.ts'
import { RateLimit, reduceCheckpointsByMax, verifyHmacSignature, webhookSecretsOf } from '../../provider.ts'
import { GitHubCredentials } from './app-token.ts'
import { authenticatedUser } from './client.ts'
import { syncWindow } from './github-backfill.ts'
import { callGitHub } from './github-call.ts'
import { GitHubIssueSynced, GitHubWebhookReceived } from './github-events.ts'
import { classifyGitHubFailure, gitHubRetryDelayMs, isGitHubRetryable } from './github-failures.ts'
import { pageOf } from './github-pages.ts'
import { DELIVERIES_KEPT_SECONDS, missedWebhooks } from './github-reconcile.ts'
import { createHook, listHooks, removeHook, renewHook } from './github-subscription.ts'
import { syncIssues } from './github-sync.ts'
import { actionOf, deliveryIdOf, eventOf, gitHubSignature, payloadOf, samples, testHeaders } from './github-webhooks.ts'
import { toldRecord } from './records.ts'
import { GitHubMetadata, repositoryOf } from './repository.ts'

/** For a personal access token: https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api */
const REQUESTS_PER_HOUR = 5_000
const SYNC_INTERVAL_MINUTES = 5

/** The issues and webhooks of one GitHub repository. */
export class GitHubProvider
  implements
    HasIncrementalSync,
    HasBackfill,
    ReconcilesWebhooks,
    ManagesWebhooks,
    ClassifiesFailures,
    CustomizesRetry,
    IdentifiesAuthenticatedUser,
    RedactsRequestData,
    RecognisesEchoes
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

  readonly signature = gitHubSignature

  verifyWebhookSignature(integration: Integration, request: WebhookRequest): boolean {
    return verifyHmacSignature(request, webhookSecretsOf(this, integration, request), this.signature)
  }

  testWebhookHeaders(delivery: TestWebhook): Record<string, string> {
    return testHeaders(delivery)
  }

  sampleWebhooks(): readonly WebhookSample[] {
    return samples()
  }

  resolveWebhookEvent(request: WebhookRequest): string | null {
    return eventOf(request)
  }

  webhookDeliveryId(request: WebhookRequest): string | null {
    return deliveryIdOf(request)
  }

  async handleWebhook(
    integration: Integration,
    request: WebhookRequest,
    context?: WebhookContext,
  ): Promise<{ status: string; event: string }> {
    const event = eventOf(request) ?? 'unknown'
    const payload = payloadOf(request)
    const deliveryId = context?.deliveryId ?? deliveryIdOf(request)
    await integration.emit(new GitHubWebhookReceived(integration, event, actionOf(payload), deliveryId, payload))
    return { status: 'dispatched', event }
  }

  readonly webhookSecretFrom = 'us'
  readonly createWebhookSubscription = createHook
  readonly webhookSubscriptions = listHooks
  readonly renewWebhookSubscription = renewHook
  readonly removeWebhookSubscription = removeHook

  readonly toldRecord = toldRecord
  readonly pageOf = pageOf
  readonly healthCheck = isHealthy
  readonly authenticatedUser = authenticatedUser
  readonly reconcileLookbackSeconds = DELIVERIES_KEPT_SECONDS
  readonly reconcileWebhookKey = 'hook_id'

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

  /** The webhook's secret: a short one is not found by its value. */
  redactedRequestPaths(): string[] {
    return ['config.secret']
  }

  /** The answer to the call for an installation's token. */
  redactedResponsePaths(): string[] {
    return ['token']
  }
}

/** Limit of the whole check, the calls for an App's token included. */
const HEALTH_TOTAL_MS = 10_000

/** A login page or a cached 304 is no sign of GitHub's health. */
const RepositoryAnswer = z.looseObject({ id: z.number(), name: z.string() })

/**
 * Whether the repository can be read with the integration's credentials. Each call is tried once; the request's row says why it
 * failed. Rule: docs/behaviour/github.md, "Health".
 */
async function isHealthy(integration: Integration): Promise<boolean> {
  try {
    const repository = repositoryOf(integration)
    const { owner, repo, path, endpoint } = repository
    const request = endpoint('GET /repos/{owner}/{repo}', {
      owner,
      repo,
    } satisfies RestEndpointMethodTypes['repos']['get']['parameters'])
    await callGitHub(repository, RepositoryAnswer, { endpoint: path, request, totalMs: HEALTH_TOTAL_MS, attempts: 1 })
    return true
  } catch {
    return false
  }
}
