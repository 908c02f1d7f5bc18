/** Events of a delivery, their order and versions, and which are wanted. Rules: webhook-parts.md, webhook-order.md in docs/behaviour/. */
import assert from 'node:assert/strict'
import { isDeepStrictEqual } from 'node:util'
import type { HandlesWebhooks } from '../../providers/contracts.ts'
import type { WebhookRequest } from '../../providers/webhook-request.ts'
import { deliveryIdOf } from '../../providers/webhook-request.ts'
import { orderingOf } from '../../webhooks/order.ts'
import type { NewPart } from '../../webhooks/parts.ts'
import { partRequest, partsOf } from '../../webhooks/parts.ts'
import { judged, staleGuardOf } from '../../webhooks/stale-guard.ts'
import type { Bench } from './bench.ts'
import type { Chapter, Check } from './conformance-check.ts'
import type { SignedFixture } from './deliveries.ts'
import { delivery, oddRequests, received } from './deliveries.ts'
import { given, outcomeOf, shown, wordsFor } from './outcome-checks.ts'

export function eventsChapter(fixture: SignedFixture, provider: HandlesWebhooks): Chapter {
  const checks = [
    ...(provider.splitWebhook === undefined ? [] : [parts(fixture)]),
    ...(provider.orderingKey === undefined ? [] : [order(fixture)]),
    ...(provider.acceptsWebhook === undefined ? [] : [wanted(fixture)]),
    ...(provider.webhookHandlers === undefined ? [] : [versions(fixture)]),
  ]
  return { contract: 'HandlesWebhooks: its events', checks }
}

const parts = (fixture: SignedFixture): Check => ({
  name: 'are the parts of the delivery, with ids of their own that are the same each time',
  async run(bench) {
    const [first, again] = [await split(bench, fixture, 0), await split(bench, fixture, 60_000)]
    assert(first.length > 0, 'splitWebhook() must give the events of the delivery of the fixtures; it gave none')
    const ids = first.map(({ deliveryId }) => deliveryId)
    assert.equal(
      new Set(ids).size,
      ids.length,
      `each event must have an id of its own, or the second one is dropped as a repeat; they are ${shown(ids)}`,
    )
    const names = (of: readonly NewPart[]) => of.map(({ deliveryId, eventType }) => [deliveryId, eventType])
    assert.deepEqual(
      names(again),
      names(first),
      'a delivery that is sent again a minute later must have events of the same ids and types: by the ids they are known to be repeats',
    )
  },
})

const order = (fixture: SignedFixture): Check => ({
  name: 'have the same ordering key each time, or none',
  async run(bench) {
    const wrong: string[] = []
    for (const { first, again } of await requestPairs(bench, fixture)) {
      const provider = bench.provider as HandlesWebhooks
      const outcome = await outcomeOf(() => provider.orderingKey?.(first) ?? null)
      if (outcome.kind === 'threw') wrong.push(`it ${wordsFor(outcome)}`)
      else if (outcome.value !== null && orderingOf(outcome.value) === null)
        wrong.push(`it gave ${shown(outcome.value)}`)
      else {
        const key = orderingOf(provider.orderingKey?.(again))
        if (key?.orderingKey !== orderingOf(outcome.value)?.orderingKey)
          wrong.push('it gave another key the second time')
      }
    }
    assert.deepEqual(wrong, [], `orderingKey() gives a text, { key, coalesce } or null: ${wrong.join('; ')}`)
  },
})

const wanted = (fixture: SignedFixture): Check => ({
  name: 'are wanted: acceptsWebhook() gives true for those of the fixtures',
  async run(bench) {
    const integration = await bench.create()
    const wrong: string[] = []
    for (const { first: request } of await requestPairs(bench, fixture)) {
      const outcome = await outcomeOf(() => (bench.provider as HandlesWebhooks).acceptsWebhook?.(integration, request))
      if (outcome.kind === 'threw' || outcome.value !== true) wrong.push(`it ${wordsFor(outcome)}`)
    }
    assert.deepEqual(wrong, [], `acceptsWebhook() must give true for the delivery of the fixtures: ${wrong.join('; ')}`)
  },
})

const versions = (fixture: SignedFixture): Check => ({
  name: 'have the same version each time where a staleGuard judges them, and none that throws',
  async run(bench) {
    const provider = bench.provider as HandlesWebhooks
    const wrong: string[] = []
    const version = (type: string | null, request: WebhookRequest) =>
      given(() => judged(staleGuardOf(provider, type), 0, () => request.json()))
    for (const { first, again, type } of await requestPairs(bench, fixture)) {
      const outcome = version(type, first)
      if (outcome.kind === 'threw') wrong.push(`of the delivery of the fixtures it ${wordsFor(outcome)}`)
      else if (!isDeepStrictEqual(version(type, again), outcome))
        wrong.push('of the delivery of the fixtures it gave something else the second time')
    }
    for (const { body, request } of await oddRequests(bench, fixture)) {
      // That this does not throw is another check's.
      const type = given(() => provider.resolveWebhookEvent?.(request) ?? null)
      const outcome = type.kind === 'gave' ? version(type.value, request) : type
      if (type.kind === 'gave' && outcome.kind === 'threw')
        wrong.push(`of a delivery with the body ${shown(body)} it ${wordsFor(outcome)}`)
    }
    assert.deepEqual(
      wrong,
      [],
      `a staleGuard gives { key, version }, a text and a text or number, or null. What it throws fails the webhook, each time; ${wrong.join('; ')}`,
    )
  },
})

async function split(bench: Bench, fixture: SignedFixture, laterMs: number): Promise<readonly NewPart[]> {
  const provider = bench.provider as HandlesWebhooks
  const request = await requestAt(bench, fixture, laterMs)
  const outcome = await outcomeOf(() =>
    partsOf(provider, request, deliveryIdOf(request, provider.webhookDeliveryId?.(request) ?? null)),
  )
  assert.equal(
    outcome.kind,
    'gave',
    `splitWebhook() must give a list of { id, type, payload }; it ${wordsFor(outcome)}`,
  )
  return (outcome.kind === 'gave' ? outcome.value : null) ?? []
}

/** An event, and the same where the delivery is sent again. */
interface RequestPair {
  readonly first: WebhookRequest
  readonly again: WebhookRequest
  readonly type: string | null
}

export async function requestPairs(bench: Bench, fixture: SignedFixture): Promise<RequestPair[]> {
  const provider = bench.provider as HandlesWebhooks
  const [first, again] = [await requestAt(bench, fixture, 0), await requestAt(bench, fixture, 60_000)]
  if (provider.splitWebhook === undefined)
    return [{ first, again, type: provider.resolveWebhookEvent?.(first) ?? null }]
  const [now, later] = [await split(bench, fixture, 0), await split(bench, fixture, 60_000)]
  return now.map((part, at) => ({
    first: partRequest(first, part),
    again: partRequest(again, later[at] ?? part),
    type: part.eventType,
  }))
}

function requestAt(bench: Bench, fixture: SignedFixture, laterMs: number): Promise<WebhookRequest> {
  const at = new Date(bench.kit.clock.now().getTime() + laterMs)
  return received(fixture, delivery(fixture, { at }), at)
}
