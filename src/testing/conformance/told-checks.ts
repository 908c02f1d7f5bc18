/** `toldRecord()`. Rule: docs/behaviour/echoes.md, "What a provider declares". */
import assert from 'node:assert/strict'
import type { HashedRecord } from '../../echoes/told-record.ts'
import { hashedRecord } from '../../echoes/told-record.ts'
import type { Json } from '../../framework/json.ts'
import type { IntegrationProvider, RecognisesEchoes, Told } from '../../providers/contracts.ts'
import { canSync, streamsOf } from '../../providers/streams.ts'
import type { WebhookRequest } from '../../providers/webhook-request.ts'
import type { Bench } from './bench.ts'
import type { Chapter, Check } from './conformance-check.ts'
import type { SignedFixture } from './deliveries.ts'
import { oddRequests } from './deliveries.ts'
import { requestPairs } from './event-checks.ts'
import { typeOf, wholeListing } from './listings.ts'
import type { Outcome } from './outcome-checks.ts'
import { given, shown, wordsFor } from './outcome-checks.ts'

/** @param fixture null: there is no delivery to ask about */
export function echoChapters(provider: IntegrationProvider, fixture: SignedFixture | null): Chapter[] {
  const checks = [...(fixture === null ? [] : [ofDeliveries(fixture)]), ...(canSync(provider) ? [OF_ITEMS] : [])]
  return checks.length === 0 ? [] : [{ contract: 'RecognisesEchoes', checks }]
}

const ofDeliveries = (fixture: SignedFixture): Check => ({
  name: 'toldRecord() gives { key, content } or null of a delivery, whatever its body, and the same each time',
  async run(bench) {
    const wrong: string[] = []
    const told = (request: WebhookRequest): Told => ({ kind: 'delivery', request })
    for (const { first, again } of await requestPairs(bench, fixture))
      wrong.push(...faultsOf(bench, 'the delivery of the fixtures', told(first), told(again)))
    for (const { body, request } of await oddRequests(bench, fixture))
      wrong.push(...faultsOf(bench, `a delivery with the body ${shown(body)}`, told(request), told(request)))
    expectRight(wrong)
  },
})

const OF_ITEMS: Check = {
  name: 'toldRecord() gives { key, content } or null of each item, and the same each time',
  async run(bench) {
    const wrong: string[] = []
    for (const stream of streamsOf(bench.provider))
      for (const { event, externalId } of (await wholeListing(bench.ofStream(stream))).session.items) {
        const eventClass = typeOf(event)
        // As its row has it.
        const told = (): Told => ({
          kind: 'item',
          eventClass,
          payload: JSON.parse(JSON.stringify(event.payload)) as Json,
        })
        wrong.push(...faultsOf(bench, `${eventClass} ${externalId ?? ''}`.trim(), told(), told()))
      }
    expectRight(wrong)
  },
}

function faultsOf({ provider }: Bench, what: string, first: Told, again: Told): string[] {
  const outcome = asked(provider as RecognisesEchoes, first)
  if (outcome.kind === 'threw') return [`of ${what} it ${wordsFor(outcome)}`]
  const repeated = asked(provider as RecognisesEchoes, again)
  const isSame = repeated.kind === 'gave' && sameRecord(outcome.value, repeated.value)
  return isSame ? [] : [`of ${what} it gave something else the second time`]
}

const asked = (provider: RecognisesEchoes, told: Told): Outcome<HashedRecord | null> =>
  given(() => hashedRecord(provider, told))

const sameRecord = (one: HashedRecord | null, other: HashedRecord | null) =>
  one?.key === other?.key && one?.hash === other?.hash

function expectRight(wrong: readonly string[]): void {
  assert.deepEqual(
    wrong,
    [],
    `toldRecord() gives a key that is a text, and a content that is JSON and the same whenever the record is the same, or null. What it throws fails the webhook or the item, each time; ${wrong.join('; ')}`,
  )
}
