/**
 * The deliveries of a repository's webhook. Rule: docs/behaviour/github.md, "Missed webhooks".
 *
 * Source: https://docs.github.com/en/rest/repos/webhooks#list-deliveries-for-a-repository-webhook
 */
import type { RestEndpointMethodTypes } from '@octokit/rest'
import { z } from 'zod'
import type { Integration, Json, ListedWebhook, ReconcilesWebhooks } from '../../provider.ts'
import { eachPage, IntegrationsError } from '../../provider.ts'
import type { GitHubAnswer } from './github-call.ts'
import { callGitHub, nullWhenGone } from './github-call.ts'
import { uuidOf } from './github-webhooks.ts'
import { PAGE_SIZE } from './pages.ts'
import { GitHubMetadata, repositoryOf } from './repository.ts'

type Repos = RestEndpointMethodTypes['repos']

/** https://docs.github.com/en/webhooks/testing-and-troubleshooting-webhooks/viewing-webhook-deliveries */
export const DELIVERIES_KEPT_SECONDS = 3 * 86_400

/**
 * GitHub sends payloads of up to 25 MB (https://docs.github.com/en/webhooks/webhook-events-and-payloads#payload-cap). Written again
 * with other escapes one may be longer, and our answer stands beside it. The framework's own limit is checked elsewhere.
 */
const MAX_DELIVERY_BYTES = 100 * 1_048_576

/** Since 2026 beyond 2^53, such as 3804004623172239366, which JSON.parse() rounds: https://github.com/octokit/request.js/issues/797 */
const DeliveryId = z.union([z.number().int(), z.string().regex(/^\d+$/)]).transform(String)

const Delivery = z.looseObject({
  id: DeliveryId,
  guid: z.string().min(1),
  delivered_at: z.iso.datetime({ offset: true }),
  event: z.string(),
})
type Delivery = z.infer<typeof Delivery>

const Sent = z.looseObject({
  request: z.looseObject({
    headers: z.record(z.string(), z.unknown()).nullish(),
    payload: z.custom<Json>((value) => value !== undefined).nullish(),
  }),
})

/** GitHub's list of deliveries goes on at another host, or at none. */
export class GitHubDeliveriesCutShort extends IntegrationsError {
  override readonly code = 'github_deliveries_cut_short'
  constructor(readonly repository: string) {
    super(
      `The link to the next page of the deliveries of ${repository} does not lead to its API: what comes after is unknown.`,
    )
  }
}

/** Oldest first. With neither `hook_id` in the metadata nor a registered webhook (`reconcileWebhookKey`) the framework does not ask. */
export async function* missedWebhooks(
  integration: Integration,
  { since, until, subscriptionId, signal }: Parameters<ReconcilesWebhooks['missedWebhooks']>[1],
): AsyncGenerator<ListedWebhook> {
  const hook = GitHubMetadata.parse(integration.metadata).hook_id ?? subscriptionId ?? null
  if (hook === null) return
  const hookId = Number(hook)
  const within: Delivery[] = []
  for await (const { items } of deliveryPages(integration, hookId, signal)) {
    within.push(...items.filter(({ delivered_at: at }) => new Date(at) >= since && new Date(at) < until))
    // The list is newest first, so all further ones are older.
    if (items.some(({ delivered_at: at }) => new Date(at) < since)) break
  }
  within.sort((a, b) => Date.parse(a.delivered_at) - Date.parse(b.delivered_at) || Number(BigInt(a.id) - BigInt(b.id)))
  for (const { id, guid, event, delivered_at } of within)
    yield {
      deliveryId: uuidOf(guid) ?? guid,
      eventType: event,
      occurredAt: new Date(delivered_at),
      load: () => sentIn(integration, { hookId, deliveryId: id, signal }),
    }
}

function deliveryPages(integration: Integration, hookId: number, signal: AbortSignal) {
  const repository = repositoryOf(integration)
  const { owner, repo, path, endpoint } = repository
  const first = endpoint('GET /repos/{owner}/{repo}/hooks/{hook_id}/deliveries', {
    owner,
    repo,
    hook_id: hookId,
    per_page: PAGE_SIZE,
  } satisfies Repos['listWebhookDeliveries']['parameters'])
  return eachPage({
    first: { page: 1, url: first.url as string },
    page({ page, url }): Promise<GitHubAnswer<Delivery[]>> {
      const endpointOfPage = `${path}/hooks/${hookId}/deliveries?page=${page}`
      const call = { endpoint: endpointOfPage, request: { ...first, url }, hasLongIds: true, signal }
      return callGitHub(repository, z.array(Delivery), call)
    },
    next(answer, { page }) {
      const next = answer.next()
      if (next.kind === 'none') return null
      // The link is a cursor; there are no page numbers.
      if (next.kind !== 'at') throw new GitHubDeliveriesCutShort(path)
      return { page: page + 1, url: next.url }
    },
    items: ({ data }) => data,
    signal,
  })
}

/** The delivery as GitHub sent it. Null: GitHub no longer has it. */
async function sentIn(
  integration: Integration,
  { hookId, deliveryId, signal }: { hookId: number; deliveryId: string; signal: AbortSignal },
): Promise<{ payload: Exclude<Json, string>; headers: Record<string, string> } | null> {
  const repository = repositoryOf(integration)
  const { owner, repo, path, endpoint } = repository
  const request = endpoint('GET /repos/{owner}/{repo}/hooks/{hook_id}/deliveries/{delivery_id}', {
    owner,
    repo,
    hook_id: hookId,
    // Octokit's type has a number; it writes either into the path as it is.
    delivery_id: deliveryId as unknown as number,
  } satisfies Repos['getWebhookDelivery']['parameters'])
  const call = {
    endpoint: `${path}/hooks/${hookId}/deliveries/${deliveryId}`,
    request,
    maxBytes: MAX_DELIVERY_BYTES,
    signal,
  }
  const answer = await nullWhenGone(callGitHub(repository, Sent, call))
  const { headers, payload } = answer?.data.request ?? {}
  if (payload === null || payload === undefined || typeof payload === 'string') return null
  return { payload, headers: textsOf(headers ?? {}) }
}

function textsOf(headers: Record<string, unknown>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) => (typeof value === 'string' ? [[name, value]] : [])),
  )
}
