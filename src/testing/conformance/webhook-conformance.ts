/** What becomes of a delivery. Rule: docs/behaviour/webhooks.md. */
import assert from 'node:assert/strict'
import { desc, eq } from 'drizzle-orm'
import { partsOf } from '../../create-integrations.ts'
import type { WebhookRow } from '../../db/schema/tables.ts'
import type { HandlesWebhooks } from '../../providers/contracts.ts'
import type { Integration } from '../../providers/integration.ts'
import { handshakeOf } from '../../providers/webhook-door.ts'
import { deliveryIdOf } from '../../providers/webhook-request.ts'
import type { Bench } from './bench.ts'
import type { Chapter, Check } from './conformance-check.ts'
import type { SignedFixture } from './deliveries.ts'
import { delivery, oddRequests, received, withSignature } from './deliveries.ts'
import { outcomeOf, shown, wordsFor } from './outcome-checks.ts'

const OTHER_ID = 'b7a1c5de-90f2-4c83-8d1e-5f3a2b4c6d70'
const OTHER_EVENT = 'another.event'

export function webhookChapter(fixture: SignedFixture): Chapter {
  const checks = [
    sameId(fixture),
    signedId(fixture),
    duplicate(fixture),
    reads(fixture),
    handled(fixture),
    noHandshake(fixture),
  ]
  if (fixture.otherBody !== undefined) checks.push(otherId(fixture))
  return { contract: 'HandlesWebhooks: a delivery', checks }
}

const sameId = (fixture: SignedFixture): Check => ({
  name: 'has the same id and type each time that it is sent',
  async run(bench) {
    const provider = bench.provider as HandlesWebhooks
    const now = bench.kit.clock.now()
    const later = new Date(now.getTime() + 60_000)
    const [first, second] = [await namesOf(provider, fixture, now), await namesOf(provider, fixture, later)]
    assert.deepEqual(
      second,
      first,
      `a delivery that is sent again a minute later, signed anew, must have the id and the type of the first one: by the id it is known to be a repeat. First ${shown(first)}, then ${shown(second)}`,
    )
  },
})

const signedId = (fixture: SignedFixture): Check => ({
  name: 'has an id that its signature covers, or says that it does not',
  async run(bench) {
    const provider = bench.provider as HandlesWebhooks
    const at = bench.kit.clock.now()
    const { signatureHeader: header } = fixture
    // Elsewhere it can't be put beside another id.
    if (header === null) return
    const sent = delivery(fixture, { at })
    const signature = sent.headers.get(header)
    const renamed = withSignature(delivery(fixture, { at, deliveryId: OTHER_ID }), header, signature)
    const { id } = await named(provider, fixture, sent, at)
    const other = await named(provider, fixture, renamed, at)
    if (other.id === id) return
    const integration = await bench.create()
    if (provider.deliveryIdSigned === false) {
      await answerTo(bench, integration, sent)
      const retyped = delivery({ ...fixture, event: OTHER_EVENT }, { at, deliveryId: OTHER_ID })
      for (const again of [renamed, withSignature(retyped, header, signature)])
        assert.notEqual(
          await answerTo(bench, integration, again),
          '200 queued',
          'the same delivery passes under another id or type: webhookSignedBytes() must give exactly what the signature covers',
        )
      return
    }
    const request = await received(fixture, renamed, at)
    const outcome = await outcomeOf(() => bench.verifies(integration, request))
    const isTaken = outcome.kind === 'gave' && outcome.value
    assert(
      !isTaken,
      `the same delivery passes under another id, so whoever has seen it can send it again: the id must come from what is signed, or the provider must say deliveryIdSigned = false; its ids are ${shown(id)} and ${shown(other.id)}`,
    )
  },
})

const otherId = (fixture: SignedFixture): Check => ({
  name: 'has another id than another delivery',
  async run(bench) {
    const provider = bench.provider as HandlesWebhooks
    const now = bench.kit.clock.now()
    const one = await namesOf(provider, fixture, now)
    const other = delivery(fixture, {
      at: now,
      body: fixture.otherBody,
      deliveryId: OTHER_ID,
    })
    const { id } = await named(provider, fixture, other, now)
    assert.notEqual(
      id,
      one.id,
      `two deliveries must have two ids, or the second one is dropped as a repeat; both have ${shown(id)}`,
    )
    if (provider.deliveryIdSigned !== false) return
    const integration = await bench.create()
    await answerTo(bench, integration, delivery(fixture, { at: now }))
    assert.equal(
      await answerTo(bench, integration, other),
      '200 queued',
      'another delivery must be queued beside the first one; webhookSignedBytes(), where the provider has it, must give other bytes for it',
    )
  },
})

const duplicate = (fixture: SignedFixture): Check => ({
  name: 'is queued with its id and type, and is a duplicate the second time',
  async run(bench) {
    const integration = await bench.create()
    const request = () => delivery(fixture, { at: bench.kit.clock.now() })
    assert.equal(
      await answerTo(bench, integration, request()),
      '200 queued',
      'the door must queue the delivery of the fixtures',
    )
    assert.equal(
      await answerTo(bench, integration, request()),
      '200 duplicate',
      'the same delivery again must be known as a repeat by its id',
    )
    // Its events have ids and types of their own.
    if ((bench.provider as HandlesWebhooks).splitWebhook !== undefined) return
    const row = await newestOf(bench, integration)
    const { id, type } = await namesOf(bench.provider as HandlesWebhooks, fixture, bench.kit.clock.now())
    assert.deepEqual(
      [row?.deliveryId, row?.eventType],
      [id, type],
      'the row must have the id and the type that the provider reads off the delivery',
    )
    if (fixture.event !== undefined)
      assert.equal(
        type,
        fixture.event,
        `resolveWebhookEvent() must give the type that the delivery names; it gave ${shown(type)}`,
      )
  },
})

/** A signature says who sent it, not what it holds. */
const reads = (fixture: SignedFixture): Check => ({
  name: 'has an id and a type, or null, whatever its body: reading them never throws',
  async run(bench) {
    const provider = bench.provider as HandlesWebhooks
    const wrong: string[] = []
    for (const { body, request } of await oddRequests(bench, fixture)) {
      for (const [name, ask] of [
        ['resolveWebhookEvent()', () => provider.resolveWebhookEvent?.(request) ?? null],
        ['webhookDeliveryId()', () => provider.webhookDeliveryId?.(request) ?? null],
      ] as const) {
        const outcome = await outcomeOf<unknown>(ask)
        if (outcome.kind === 'threw' || (outcome.value !== null && typeof outcome.value !== 'string'))
          wrong.push(`of the body ${shown(body)} ${name} ${wordsFor(outcome)}`)
      }
    }
    assert.deepEqual(wrong, [], `a delivery's id and type are texts, or null; ${wrong.join('; ')}`)
  },
})

const handled = (fixture: SignedFixture): Check => ({
  name: 'is handled',
  async run(bench) {
    const integration = await bench.create()
    await answerTo(bench, integration, delivery(fixture, { at: bench.kit.clock.now() }))
    const { failed } = await bench.inTime('the handler', () => bench.kit.processWebhooks())
    const row = await newestOf(bench, integration)
    assert.deepEqual(
      [row?.status, failed],
      ['processed', 0],
      `the handler must take the delivery of the fixtures; it failed: ${row?.error ?? 'nothing was queued'}`,
    )
  },
})

const noHandshake = (fixture: SignedFixture): Check => ({
  name: 'is no handshake: webhookDoor.handshake() gives null for it',
  async run(bench) {
    const provider = bench.provider as HandlesWebhooks
    const at = bench.kit.clock.now()
    const request = await received(fixture, delivery(fixture, { at }), at)
    const answer = await handshakeOf(provider, await bench.create(), request)
    assert.equal(
      answer,
      null,
      `an ordinary delivery would be answered and dropped; handshake() or answerWebhookChallenge() gave ${shown(answer?.sent)}`,
    )
  },
})

interface Names {
  readonly id: string
  readonly type: string | null
}

function namesOf(provider: HandlesWebhooks, fixture: SignedFixture, at: Date): Promise<Names> {
  return named(provider, fixture, delivery(fixture, { at }), at)
}

async function named(provider: HandlesWebhooks, fixture: SignedFixture, sent: Request, at: Date): Promise<Names> {
  const request = await received(fixture, sent, at)
  return {
    id: deliveryIdOf(request, provider.webhookDeliveryId?.(request) ?? null),
    type: provider.resolveWebhookEvent?.(request) ?? null,
  }
}

/** `200 queued` when it left a row, `200 duplicate` when it was accepted and left none, else its status. */
export async function answerTo(bench: Bench, integration: Integration, request: Request): Promise<string> {
  const before = await newestOf(bench, integration)
  const answer = await bench.kit.deliver(request, integration)
  if (!answer.ok) return String(answer.status)
  const after = await newestOf(bench, integration)
  return after?.id === before?.id ? '200 duplicate' : '200 queued'
}

async function newestOf({ kit }: Bench, { id }: Integration): Promise<WebhookRow | undefined> {
  const { db, tables } = partsOf(kit.integrations).framework
  const { webhooks } = tables
  const rows = await db
    .select()
    .from(webhooks)
    .where(eq(webhooks.integrationId, id))
    .orderBy(desc(webhooks.id))
    .limit(1)
  return rows[0]
}
