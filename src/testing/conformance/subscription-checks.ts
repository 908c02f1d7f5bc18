/** `ManagesWebhooks`. Rule: docs/behaviour/webhook-subscriptions.md. */
import assert from 'node:assert/strict'
import type { ManagesWebhooks, WantedSubscription, WebhookSubscription } from '../../providers/contracts.ts'
import type { Integration } from '../../providers/integration.ts'
import type { Bench } from './bench.ts'
import type { Chapter, Check } from './conformance-check.ts'
import { outcomeOf, shown, wordsFor } from './outcome-checks.ts'
import { answering } from './played-faults.ts'

const DOOR = 'https://host.example/integrations/conformance/7/webhook'
/** What no provider has. GitHub's ids are numbers. */
const GONE: WebhookSubscription = { id: '987654321', url: DOOR, expiresAt: null }

export function subscriptionChapter(): Chapter {
  return { contract: 'ManagesWebhooks', checks: [CREATES, LISTS, FORGIVES, THROWS] }
}

const CREATES: Check = {
  name: 'creates a subscription with an id, and tells the provider the door and our secret',
  async run(bench) {
    const { provider, integration, wanted } = await posed(bench)
    const before = bench.sent.length
    const made = await bench.inTime('createWebhookSubscription()', () =>
      provider.createWebhookSubscription(integration, wanted),
    )
    expectSubscription('createWebhookSubscription()', made)
    const sent = bench.sent.slice(before).map(({ url, body }) => `${url.href}\n${body}`)
    for (const text of [wanted.url, ...(wanted.secret === null ? [] : [wanted.secret])])
      assert(
        sent.some((request) => [text, encodeURIComponent(text)].some((form) => request.includes(form))),
        `createWebhookSubscription() must send ${text === wanted.url ? 'the URL' : 'the secret'} that it was given`,
      )
    if (provider.webhookSecretFrom === 'provider')
      assert(
        typeof made.secret === 'string' && made.secret !== '',
        "createWebhookSubscription() must give the `secret` of the answer, since webhookSecretFrom is 'provider'",
      )
  },
}

const LISTS: Check = {
  name: 'lists subscriptions with an id and a URL, or says that the API has no list',
  async run(bench) {
    const { provider, integration, wanted } = await posed(bench)
    const listed = await bench.inTime('webhookSubscriptions()', () =>
      provider.webhookSubscriptions(integration, wanted),
    )
    assert(
      listed === null || Array.isArray(listed),
      `webhookSubscriptions() must give a list or null; it gave ${shown(listed)}`,
    )
    for (const one of listed ?? []) expectSubscription('webhookSubscriptions()', one)
  },
}

const FORGIVES: Check = {
  name: 'takes one that is gone for removed, and for one that can not be renewed',
  async run(bench) {
    const { provider, integration, wanted } = await posed(bench)
    const [renewed, removed] = await bench.answeredBy(answering(404), () =>
      bench.withoutRetries(async () => [
        await outcomeOf(() => provider.renewWebhookSubscription(integration, GONE, wanted)),
        await outcomeOf(() => provider.removeWebhookSubscription(integration, GONE, wanted)),
      ]),
    )
    assert.deepEqual(
      renewed,
      { kind: 'gave', value: null },
      `renewWebhookSubscription() must give null where the provider answers 404; it ${wordsFor(renewed)}`,
    )
    assert.equal(
      removed?.kind,
      'gave',
      `removeWebhookSubscription() must end well where the provider answers 404; it ${wordsFor(removed)}`,
    )
  },
}

const THROWS: Check = {
  name: 'throws what goes wrong: a list that breaks off must not look empty',
  async run(bench) {
    const { provider, integration, wanted } = await posed(bench)
    for (const [what, work] of [
      ['createWebhookSubscription()', () => provider.createWebhookSubscription(integration, wanted)],
      ['webhookSubscriptions()', () => provider.webhookSubscriptions(integration, wanted)],
      ['renewWebhookSubscription()', () => provider.renewWebhookSubscription(integration, GONE, wanted)],
      ['removeWebhookSubscription()', () => provider.removeWebhookSubscription(integration, GONE, wanted)],
    ] as const) {
      const before = bench.sent.length
      const outcome = await bench.answeredBy(answering(500), () =>
        bench.withoutRetries(async () => outcomeOf<unknown>(work)),
      )
      const isNull = outcome.kind === 'gave' && outcome.value === null && what !== 'createWebhookSubscription()'
      // A provider without a list, or that renews by another subscription, asks nothing.
      if (isNull && bench.sent.length === before) continue
      assert.equal(outcome.kind, 'threw', `${what} must throw where the provider answers 500; it ${wordsFor(outcome)}`)
    }
  },
}

async function posed(bench: Bench): Promise<{
  readonly provider: ManagesWebhooks
  readonly integration: Integration
  readonly wanted: WantedSubscription
}> {
  const provider = bench.provider as ManagesWebhooks
  const { webhook } = bench.subject.fixtures
  const secret = provider.webhookSecretFrom === 'us' ? (webhook?.secret ?? null) : null
  const wanted = { url: DOOR, secret, signal: new AbortController().signal }
  return { provider, integration: await bench.create(), wanted }
}

function expectSubscription(what: string, one: WebhookSubscription): void {
  const { id, url, expiresAt } = one
  assert(typeof id === 'string' && id !== '', `${what} must give an \`id\` that is a text; it gave ${shown(id)}`)
  assert(typeof url === 'string', `${what} must give the \`url\`; it gave ${shown(url)}`)
  assert(
    expiresAt === null || expiresAt === undefined || (expiresAt instanceof Date && !Number.isNaN(expiresAt.getTime())),
    `${what} must give \`expiresAt\` as a Date, null for never, or not at all; it gave ${shown(expiresAt)}`,
  )
}
