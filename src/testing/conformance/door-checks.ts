/** What a provider's webhook door answers. Rule: docs/behaviour/webhook-answers.md. */
import assert from 'node:assert/strict'
import { secretsIn } from '../../credentials/integration-secrets.ts'
import { redactText } from '../../framework/redaction.ts'
import type { HandlesWebhooks } from '../../providers/contracts.ts'
import type { DoorAnswerKind } from '../../providers/webhook-door.ts'
import { DOOR_METHODS, handshakeOf, sentAnswer } from '../../providers/webhook-door.ts'
import { webhookRequest } from '../../providers/webhook-request.ts'

import type { Chapter, Check } from './conformance-check.ts'
import type { SignedFixture } from './deliveries.ts'
import { delivery } from './deliveries.ts'
import { outcomeOf, wordsFor } from './outcome-checks.ts'

/** Anyone may ask anything: what senders ask with, and what they don't. */
const ASKED = '<script>alert(1)</script>\r\n'
const QUERY_NAMES = ['challenge', 'hub.challenge', 'validationToken', 'crc_token', 'ask']
const HEADER_NAMES = ['x-hook-secret', 'webhook-request-origin', 'aeg-event-type']
const ODD_BODIES = ['', 'null', '[]', '{}', `{"challenge":${JSON.stringify(ASKED)},"type":"url_verification"}`]

export function doorChapter(fixture: SignedFixture): Chapter {
  return { contract: 'HandlesWebhooks: the door', checks: [declared(fixture), asked] }
}

const declared = (fixture: SignedFixture): Check => ({
  name: 'answers a delivery, a repeat and a bad signature as it declares',
  async run(bench) {
    const { webhookDoor: door } = bench.provider as HandlesWebhooks
    const integration = await bench.create()
    const at = bench.kit.clock.now()
    // A token may stand in the query.
    const address = new URL(delivery(fixture, { at }).url)
    address.search = ''
    const unsigned = new Request(address, { method: 'POST', body: '{}' })
    const cases: [Exclude<DoorAnswerKind, 'handshake'>, Request][] = [
      ['accepted', delivery(fixture, { at })],
      ['duplicate', delivery(fixture, { at })],
      ['badSignature', unsigned],
    ]
    for (const [kind, request] of cases) {
      const answer = kind === 'duplicate' ? (door?.duplicate ?? door?.accepted) : door?.[kind]
      const sent = sentAnswer(kind, answer ?? {})
      assert(!('fault' in sent))
      const { status } = await bench.kit.deliver(request, integration)
      assert.equal(status, sent.status, `${kind} must be answered with ${sent.status}, as webhookDoor says`)
    }
  },
})

const asked: Check = {
  name: 'answers whatever is asked within bounds, without a credential and without a throw',
  async run(bench) {
    const provider = bench.provider as HandlesWebhooks
    const integration = await bench.create()
    const secrets = secretsIn(integration)
    const headers = new Headers(HEADER_NAMES.map((name) => [name, 'SubscriptionValidation']))
    const query = new URLSearchParams(Object.fromEntries(QUERY_NAMES.map((name) => [name, ASKED]))).toString()
    const wrong: string[] = []
    for (const method of DOOR_METHODS)
      for (const body of ODD_BODIES) {
        const request = webhookRequest({
          method,
          path: '/integrations/webhook',
          query,
          headers,
          rawBody: Buffer.from(body),
          receivedAt: bench.kit.clock.now(),
          toleranceSeconds: 300,
        })
        const outcome = await outcomeOf(() => handshakeOf(provider, integration, request))
        if (outcome.kind === 'threw') wrong.push(`${method} with the body ${body}: it ${wordsFor(outcome)}`)
        else if (outcome.value !== null) {
          const { sent } = outcome.value
          if (!('fault' in sent) && holds(sent.body, secrets)) wrong.push(`${method}: it holds a credential`)
        }
      }
    assert.deepEqual(
      wrong,
      [],
      `handshake() and answerWebhookChallenge() must answer, or give null: ${wrong.join('; ')}`,
    )
  },
}

const holds = (text: string, secrets: readonly string[]): boolean => redactText(text, secrets) !== text
