/** `missedWebhooks()`. Rule: docs/behaviour/webhook-reconciliation.md. */
import assert from 'node:assert/strict'
import type { MissedWebhook, ReconcilesWebhooks } from '../../providers/contracts.ts'
import type { Integration } from '../../providers/integration.ts'
import type { Bench } from './bench.ts'
import type { Chapter, Check } from './conformance-check.ts'
import { received } from './deliveries.ts'
import { askedAfterAbort } from './listings.ts'
import { outcomeOf, shown, wordsFor } from './outcome-checks.ts'
import { answering } from './played-faults.ts'

const LEAST_DELIVERIES = 2

export function reconciliationChapter(): Chapter {
  return { contract: 'ReconcilesWebhooks', checks: [LISTS, AS_DELIVERED, THROWS, ABORTED] }
}

const LISTS: Check = {
  name: 'lists deliveries with an id, of its window, oldest first',
  async run(bench) {
    const { since, until } = windowOf(bench)
    const deliveries = await missed(bench, await bench.create())
    assert(
      deliveries.length >= LEAST_DELIVERIES,
      `the fixtures' api must have ${LEAST_DELIVERIES} missed deliveries or more, from ${since.toISOString()} until before ${until.toISOString()} (the fixtures' kit.now); ${deliveries.length} were listed`,
    )
    let before = since
    for (const { deliveryId, occurredAt } of deliveries) {
      assert(
        typeof deliveryId === 'string' && deliveryId !== '',
        `a missed delivery must have the id that it would have had; one has ${shown(deliveryId)}`,
      )
      assert(
        occurredAt instanceof Date && occurredAt >= since && occurredAt < until,
        `missedWebhooks() must keep to its window, from ${since.toISOString()} until before ${until.toISOString()}; ${deliveryId} is of ${shown(occurredAt)}`,
      )
      assert(
        occurredAt >= before,
        `missedWebhooks() must list the oldest first; ${deliveryId} is of ${shown(occurredAt)}, the one before it of ${shown(before)}`,
      )
      before = occurredAt
    }
  },
}

/** By its id what has arrived is known, and by its type it is handled: both are those that its arrival would have given it. */
const AS_DELIVERED: Check = {
  name: 'gives each delivery the id and the type that are read off its content',
  async run(bench) {
    const provider = bench.provider as ReconcilesWebhooks
    for (const { deliveryId, eventType, content } of await missed(bench, await bench.create())) {
      if (content === null) continue
      const request = await received({ toleranceSeconds: null }, requestOf(content), bench.beganAt)
      const [id, type] = [
        provider.webhookDeliveryId?.(request) ?? null,
        provider.resolveWebhookEvent?.(request) ?? null,
      ]
      assert(
        id === null || deliveryId === id,
        `a missed delivery must have the id that it would have had, or it is stored twice; ${shown(deliveryId)} is ${shown(id)} by webhookDeliveryId()`,
      )
      assert(
        type === null || eventType === null || eventType === type,
        `a missed delivery must have the type that it would have had, by which it is handled; ${shown(deliveryId)} has ${shown(eventType)}, by resolveWebhookEvent() it is ${shown(type)}`,
      )
    }
  },
}

const THROWS: Check = {
  name: 'throws what goes wrong: a list that breaks off must not look whole',
  async run(bench) {
    const integration = await bench.create()
    const outcome = await bench.answeredBy(answering(500), () =>
      bench.withoutRetries(() => outcomeOf(() => missed(bench, integration))),
    )
    assert.equal(
      outcome.kind,
      'threw',
      `missedWebhooks() must throw where the provider answers 500; it ${wordsFor(outcome)}`,
    )
  },
}

const ABORTED: Check = {
  name: 'stops asking at once when it is aborted',
  async run(bench) {
    const asked = await askedAfterAbort(bench, (integration, signal) => missed(bench, integration, signal))
    assert.equal(
      asked,
      0,
      `missedWebhooks() must ask for nothing more once its signal is aborted; it made ${asked} more requests. Give the signal to integration.request().`,
    )
  },
}

/** It ends where the kit's clock began, wherever that is by now. */
function windowOf({ beganAt: until, provider }: Bench): { since: Date; until: Date } {
  const { reconcileLookbackSeconds } = provider as ReconcilesWebhooks
  return { since: new Date(until.getTime() - reconcileLookbackSeconds * 1_000), until }
}

type Content = Pick<MissedWebhook, 'payload' | 'headers'>

export interface Missed extends Omit<MissedWebhook, 'payload' | 'headers'> {
  /** Null: the provider has forgotten it. */
  readonly content: Content | null
}

/** With its content, where that is loaded apart. */
export async function missed(
  bench: Bench,
  integration: Integration,
  signal: AbortSignal = new AbortController().signal,
): Promise<Missed[]> {
  const provider = bench.provider as ReconcilesWebhooks
  return bench.inTime('missedWebhooks()', async () => {
    const found: Missed[] = []
    for await (const each of provider.missedWebhooks(integration, { ...windowOf(bench), signal })) {
      signal.throwIfAborted()
      const { deliveryId, eventType, occurredAt } = each
      found.push({ deliveryId, eventType, occurredAt, content: 'load' in each ? await each.load() : each })
    }
    return found
  })
}

/** As its arrival would have been: without the signature, and with those headers that the provider gives. */
function requestOf({ payload, headers }: Content): Request {
  const sent = new Headers()
  for (const [name, values] of Object.entries(headers))
    for (const value of [values].flat()) if (!name.startsWith(':')) sent.append(name, value)
  const isAsSent = typeof payload === 'string' || payload instanceof Uint8Array
  const body = new Blob([isAsSent ? payload : JSON.stringify(payload)])
  return new Request('https://host.example/integrations/webhook', { method: 'POST', headers: sent, body })
}
