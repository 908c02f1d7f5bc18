/** The GitHub adapter keeps what every provider must keep. */
import { afterAll, describe, it } from 'vitest'
import { GitHubClient, GitHubProvider } from '../../../src/adapters/github/index.ts'
import { describeProvider, gitHubSigner } from '../../../src/testing/index.ts'
import { API, answer, at, comment, issue, numbers } from './played-repository.ts'

const TOKEN = 'ghp_conformance-token-of-nobody'
const SECRET = 'conformance-webhook-secret'
/** Newest first, as GitHub lists them. */
const DELIVERIES = [
  { id: 6, guid: '9a0f3d5e-cc78-11e3-81ab-4c9367dc0958', delivered_at: at(140), event: 'issues' },
  { id: 5, guid: '72d3162e-cc78-11e3-81ab-4c9367dc0958', delivered_at: at(0), event: 'issues' },
]
const HOOK_ID = 77
const HOOK = `repos/octo/widgets/hooks/${HOOK_ID}`

const issues = numbers(1, 130).map((number) =>
  number % 20 === 0 ? issue(number) : { ...issue(number), pull_request: {} },
)
const user = {
  id: 1,
  login: 'octocat',
  node_id: 'U_1',
  avatar_url: `${API}/avatar`,
  url: `${API}/users/octocat`,
  html_url: 'https://github.example.com/octocat',
  type: 'User',
  site_admin: false,
}

const REGISTERED = {
  id: 78,
  active: true,
  events: ['*'],
  config: { url: 'https://host.example/integrations/github/7/webhook', content_type: 'json' },
}

function api({ url, method }: Request): Response {
  const { pathname, searchParams } = new URL(url)
  const path = pathname.replace('/api/v3/', '')
  const [page, size] = [Number(searchParams.get('page')), Number(searchParams.get('per_page'))]
  const paged = (list: readonly object[]) => answer(200, list.slice((page - 1) * size, page * size))
  if (path === 'user') return answer(200, user)
  if (path === 'repos/octo/widgets') return answer(200, { id: 1, name: 'widgets' })
  if (path === 'repos/octo/widgets/issues') {
    if (method === 'POST') return answer(201, issue(131))
    const since = searchParams.get('since') ?? ''
    const listed = issues.filter(({ updated_at }) => updated_at >= since)
    return paged(searchParams.get('direction') === 'asc' ? listed : listed.reverse())
  }
  if (path === 'repos/octo/widgets/issues/comments') return paged([comment(500)])
  if (path === 'repos/octo/widgets/issues/500') return answer(200, issue(500))
  if (path === 'repos/octo/widgets/hooks') return method === 'POST' ? answer(201, REGISTERED) : paged([REGISTERED])
  if (path === `${HOOK}/deliveries`) return answer(200, DELIVERIES)
  const delivery = DELIVERIES.find(({ id }) => path === `${HOOK}/deliveries/${id}`)
  if (delivery !== undefined) {
    const headers = { 'X-GitHub-Event': delivery.event, 'X-GitHub-Delivery': delivery.guid }
    return answer(200, { request: { headers, payload: { action: 'opened' } } })
  }
  return answer(404, { message: 'Not Found' })
}

describeProvider(
  'github',
  () => new GitHubProvider(),
  {
    credentials: { token: TOKEN, webhook_secret: SECRET },
    metadata: { owner: 'octo', repo: 'widgets', base_url: API, hook_id: HOOK_ID },
    api,
    write: (integration, idempotencyKey) =>
      new GitHubClient(integration).issues.create({ title: 'It is broken', idempotencyKey }),
    webhook: {
      signer: gitHubSigner,
      body: { action: 'opened', issue: { number: 1 } },
      otherBody: { action: 'closed', issue: { number: 1 } },
      event: 'issues',
      secret: SECRET,
      otherSecret: 'another-conformance-secret',
      signatureHeader: 'x-hub-signature-256',
      toleranceSeconds: null,
    },
    checkpoints: [at(1), at(2), at(3)],
    cursor: at(100),
    window: { from: at(10), to: at(125) },
    kit: { now: at(200) },
  },
  { describe, it, afterAll },
)
