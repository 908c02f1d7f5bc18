/**
 * The repository's webhook that we register. Rule: docs/behaviour/github.md, "Registering the webhook".
 *
 * Source: https://docs.github.com/en/rest/repos/webhooks
 */
import type { RestEndpointMethodTypes } from '@octokit/rest'
import { z } from 'zod'
import type { Integration, WantedSubscription, WebhookSubscription } from '../../provider.ts'
import { eachPage } from '../../provider.ts'
import type { GitHubAnswer } from './github-call.ts'
import { callGitHub, nullWhenGone } from './github-call.ts'
import { PAGE_SIZE } from './pages.ts'
import { GitHubMetadata, repositoryOf } from './repository.ts'

type Repos = RestEndpointMethodTypes['repos']

const Hook = z.looseObject({
  id: z.number().int(),
  active: z.boolean(),
  events: z.array(z.string()),
  config: z.looseObject({ url: z.string().optional(), content_type: z.string().optional() }),
})
type Hook = z.infer<typeof Hook>

/** https://docs.github.com/en/webhooks/webhook-events-and-payloads; a wildcard stands for all. */
const ALL_EVENTS = ['*']

const eventsOf = ({ metadata }: Integration): string[] => GitHubMetadata.parse(metadata).webhook_events ?? ALL_EVENTS

export async function createHook(integration: Integration, wanted: WantedSubscription): Promise<WebhookSubscription> {
  const repository = repositoryOf(integration)
  const { owner, repo, path, endpoint } = repository
  const request = endpoint('POST /repos/{owner}/{repo}/hooks', {
    owner,
    repo,
    name: 'web',
    active: true,
    events: eventsOf(integration),
    config: configOf(wanted),
  } satisfies Repos['createWebhook']['parameters'])
  const { data } = await callGitHub(repository, Hook, { endpoint: `${path}/hooks`, request, signal: wanted.signal })
  return subscriptionOf(integration, data)
}

export async function listHooks(
  integration: Integration,
  { signal }: { readonly signal: AbortSignal },
): Promise<WebhookSubscription[]> {
  const repository = repositoryOf(integration)
  const { owner, repo, path, endpoint } = repository
  const pages = eachPage({
    first: 1,
    page(page): Promise<GitHubAnswer<Hook[]>> {
      const request = endpoint('GET /repos/{owner}/{repo}/hooks', {
        owner,
        repo,
        per_page: PAGE_SIZE,
        page,
      } satisfies Repos['listWebhooks']['parameters'])
      return callGitHub(repository, z.array(Hook), { endpoint: `${path}/hooks?page=${page}`, request, signal })
    },
    next: ({ data }, page) => (data.length < PAGE_SIZE ? null : page + 1),
    items: ({ data }) => data,
    signal,
  })
  const hooks: WebhookSubscription[] = []
  for await (const { items } of pages) hooks.push(...items.map((hook) => subscriptionOf(integration, hook)))
  return hooks
}

/** Puts URL, secret, types of events and switch right: a hook of GitHub's does not end. Null: it is gone. */
export async function renewHook(
  integration: Integration,
  { id }: WebhookSubscription,
  wanted: WantedSubscription,
): Promise<WebhookSubscription | null> {
  const repository = repositoryOf(integration)
  const { owner, repo, path, endpoint } = repository
  const request = endpoint('PATCH /repos/{owner}/{repo}/hooks/{hook_id}', {
    owner,
    repo,
    hook_id: Number(id),
    active: true,
    events: eventsOf(integration),
    config: configOf(wanted),
  } satisfies Repos['updateWebhook']['parameters'])
  const call = { endpoint: `${path}/hooks/${id}`, request, signal: wanted.signal }
  const answer = await nullWhenGone(callGitHub(repository, Hook, call))
  return answer === null ? null : subscriptionOf(integration, answer.data)
}

export async function removeHook(
  integration: Integration,
  { id }: WebhookSubscription,
  { signal }: { readonly signal: AbortSignal },
): Promise<void> {
  const repository = repositoryOf(integration)
  const { owner, repo, path, endpoint } = repository
  const request = endpoint('DELETE /repos/{owner}/{repo}/hooks/{hook_id}', {
    owner,
    repo,
    hook_id: Number(id),
  } satisfies Repos['deleteWebhook']['parameters'])
  await nullWhenGone(callGitHub(repository, z.unknown(), { endpoint: `${path}/hooks/${id}`, request, signal }))
}

function configOf({ url, secret }: WantedSubscription) {
  return { url, content_type: 'json', insecure_ssl: '0', ...(secret === null ? {} : { secret }) }
}

function subscriptionOf(integration: Integration, { id, active, events, config }: Hook): WebhookSubscription {
  const wanted = eventsOf(integration)
  const hasEvents = events.includes('*') || wanted.every((event) => events.includes(event))
  return {
    id: String(id),
    url: config.url ?? '',
    expiresAt: null,
    isIntact: active && hasEvents && config.content_type === 'json',
  }
}
