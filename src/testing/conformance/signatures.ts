/** `signature`, `verifyWebhookSignature()` or both. Rule: docs/behaviour/webhook-signatures.md. */
import assert from 'node:assert/strict'
import type { Credentials, Integration } from '../../providers/integration.ts'
import type { Bench } from './bench.ts'
import type { Chapter, Check } from './conformance-check.ts'
import type { SignedFixture } from './deliveries.ts'
import { delivery, received, withBody, withByteAt, withCharacterAt, withDigest, withSignature } from './deliveries.ts'
import { outcomeOf, wordsFor } from './outcome-checks.ts'

const DAY_MS = 86_400_000
/** Characters from the end of a digest: the last ones of base64 are padding, or have bits that count for nothing. */
const NEAR_THE_END = 5

const middle = (length: number) => Math.floor(length / 2)

/** A delivery, when it comes in, and what it is. */
interface Case {
  readonly what: string
  readonly request: Request
  readonly at: Date
}

export function signatureChapter(fixture: SignedFixture): Chapter {
  const checks = [
    taken(fixture),
    ...(fixture.signatureHeader === null ? [] : refusals(fixture, fixture.signatureHeader)),
    ...(fixture.coversBody ? [changedBody(fixture)] : []),
    ...(fixture.hasSecrets ? ofSecrets(fixture) : []),
  ]
  if (fixture.toleranceSeconds !== null) checks.push(...ofTime(fixture, fixture.toleranceSeconds))
  return { contract: 'HandlesWebhooks: the signature', checks }
}

const taken = (fixture: SignedFixture): Check => ({
  name: 'takes a delivery as it is signed',
  run: (bench) =>
    expectTaken(bench, bench.subject.fixtures.credentials, (at) => [
      { what: 'the delivery of the fixtures', request: delivery(fixture, { at }), at },
    ]),
})

function refusals(fixture: SignedFixture, header: string): Check[] {
  const signed = (at: Date) => delivery(fixture, { at })
  const spoilt = (change: (digest: string) => string) => (at: Date) => {
    const request = signed(at)
    const value = withDigest(request.headers.get(header) ?? '', change)
    assert(value !== null, `the fixtures' signer must write a digest in hex or base64 into ${header}`)
    return withSignature(request, header, value)
  }
  const withSecond = (request: Request, order: (real: string, forged: string) => readonly string[]) => {
    const real = request.headers.get(header) ?? ''
    const forged = withDigest(real, (digest) => withCharacterAt(digest, 0)) ?? ''
    // Two headers of one name are one with a comma: https://fetch.spec.whatwg.org/#concept-header-list-get
    return withSignature(request, header, order(real, forged).join(', '))
  }

  return [
    refusal('a delivery without its signature header', [
      ['no header', (at) => withSignature(signed(at), header, null)],
    ]),
    refusal('an empty signature', [
      ['an empty header', (at) => withSignature(signed(at), header, '')],
      ['a header with an empty digest', spoilt(() => '')],
    ]),
    refusal('a signature of the wrong length', [
      ['half a digest', spoilt((digest) => digest.slice(0, middle(digest.length)))],
      ['a digest that lacks a character', spoilt((digest) => digest.slice(1))],
      ['a digest and more', spoilt((digest) => `00${digest}`)],
    ]),
    refusal('a signature in characters that are no hex or base64', [
      ['a digest of stars', spoilt((digest) => '*'.repeat(digest.length))],
      ['a digest of letters beyond both', spoilt((digest) => 'é'.repeat(digest.length))],
    ]),
    refusal('a signature of which a character was changed', [
      ['another first character', spoilt((digest) => withCharacterAt(digest, 0))],
      ['another character in the middle', spoilt((digest) => withCharacterAt(digest, middle(digest.length)))],
      ['another character near the end', spoilt((digest) => withCharacterAt(digest, digest.length - NEAR_THE_END))],
    ]),
    refusal('a delivery with a second signature header', [
      ['a forged one before it', (at) => withSecond(signed(at), (real, forged) => [forged, real])],
      ['a forged one after it', (at) => withSecond(signed(at), (real, forged) => [real, forged])],
    ]),
  ]
}

function changedBody(fixture: SignedFixture): Check {
  const changed = (change: (body: Uint8Array) => Uint8Array) => (at: Date) =>
    withBody(delivery(fixture, { at }), change)
  return refusal('a body with a changed byte', [
    ['another first byte', changed((body) => withByteAt(body, 0))],
    ['another byte in the middle', changed((body) => withByteAt(body, middle(body.length)))],
    ['another last byte', changed((body) => withByteAt(body, body.length - 1))],
    ['a line break more at the end', changed((body) => Buffer.concat([body, Buffer.from('\n')]))],
    [
      'a space more after its first byte',
      changed((body) => Buffer.concat([body.subarray(0, 1), Buffer.from(' '), body.subarray(1)])),
    ],
    ['no body', changed(() => new Uint8Array())],
  ])
}

function refusal(
  what: string,
  cases: readonly (readonly [what: string, make: (at: Date) => Request | Promise<Request>])[],
): Check {
  return {
    name: `refuses ${what}`,
    run: (bench) =>
      expectRefused(bench, bench.subject.fixtures.credentials, (at) =>
        Promise.all(cases.map(async ([each, make]) => ({ what: each, request: await make(at), at }))),
      ),
  }
}

function ofSecrets(fixture: SignedFixture): Check[] {
  const { otherSecret } = fixture
  const rotating = (expiresAt: Date) => ({
    webhook_secrets: [{ secret: otherSecret, expires_at: expiresAt.toISOString() }],
  })
  const byEither = (at: Date): Case[] => [
    { what: 'one signed by `webhook_secret`', request: delivery(fixture, { at }), at },
    { what: 'one signed by one of `webhook_secrets`', request: delivery(fixture, { at, secret: otherSecret }), at },
  ]
  return [
    {
      name: 'refuses a delivery signed by a secret that it does not know',
      run: (bench) => expectRefused(bench, bench.subject.fixtures.credentials, (at) => byEither(at).slice(1)),
    },
    {
      name: 'takes deliveries of two secrets at once, as long as both are in force',
      async run(bench) {
        const { credentials } = bench.subject.fixtures
        const soon = new Date(bench.kit.clock.now().getTime() + DAY_MS)
        await expectTaken(bench, { ...credentials, ...rotating(soon) }, byEither)
      },
    },
    {
      name: 'refuses a delivery of a secret that has expired',
      async run(bench) {
        const { credentials } = bench.subject.fixtures
        const over = new Date(bench.kit.clock.now().getTime() - DAY_MS)
        await expectRefused(bench, { ...credentials, ...rotating(over) }, (at) => byEither(at).slice(1))
      },
    },
    {
      name: 'refuses every delivery where there is no secret',
      async run(bench) {
        const { webhook_secret: _, ...others } = bench.subject.fixtures.credentials
        // A provider that takes no credentials without one has nothing to be asked.
        if (bench.provider.credentialsSchema?.safeParse(others).success === false) return
        await expectRefused(bench, others, async (at) => {
          const cases: Case[] = [{ what: 'one signed by a secret', request: delivery(fixture, { at }), at }]
          for (const secret of ['', 'undefined', 'null']) {
            // A signer may refuse such a secret: then no delivery is signed so.
            const signed = await outcomeOf(() => delivery(fixture, { at, secret }))
            if (signed.kind === 'gave')
              cases.push({ what: `one signed by ${JSON.stringify(secret)}`, request: signed.value, at })
          }
          return cases
        })
      },
    },
  ]
}

function ofTime(fixture: SignedFixture, toleranceSeconds: number): Check[] {
  const cases = (now: Date, secondsOff: number): Case[] =>
    [-secondsOff, secondsOff].map((seconds) => ({
      what: `one signed ${secondsOff} s ${seconds < 0 ? 'before' : 'after'} it came in`,
      request: delivery(fixture, { at: new Date(now.getTime() + seconds * 1_000) }),
      at: now,
    }))
  const checks: Check[] = [
    {
      name: 'takes a delivery that was signed within the tolerance, past or future',
      run: (bench) =>
        expectTaken(bench, bench.subject.fixtures.credentials, (at) => [
          ...cases(at, toleranceSeconds - 1),
          ...cases(at, toleranceSeconds),
        ]),
    },
    {
      name: 'refuses a delivery that was signed a second beyond the tolerance, past or future',
      run: (bench) => expectRefused(bench, bench.subject.fixtures.credentials, (at) => cases(at, toleranceSeconds + 1)),
    },
  ]
  if (fixture.isToleranceConfigured)
    checks.push({
      name: 'keeps to the tolerance that is configured',
      async run(bench) {
        const { credentials } = bench.subject.fixtures
        const half = Math.floor(toleranceSeconds / 2)
        await expectTaken(bench, credentials, (at) => cases(at, half), half)
        await expectRefused(bench, credentials, (at) => cases(at, half + 1), half)
      },
    })
  return checks
}

type Cases = (at: Date) => readonly Case[] | Promise<readonly Case[]>

/** @param toleranceSeconds as it is configured; default: that of the scheme */
function expectTaken(bench: Bench, credentials: Credentials, cases: Cases, toleranceSeconds?: number): Promise<void> {
  return judged(bench, credentials, cases, (isTaken) => isTaken, 'must take', toleranceSeconds)
}

/** @param toleranceSeconds as it is configured; default: that of the scheme */
function expectRefused(bench: Bench, credentials: Credentials, cases: Cases, toleranceSeconds?: number): Promise<void> {
  return judged(bench, credentials, cases, (isTaken) => !isTaken, 'must not take', toleranceSeconds)
}

async function judged(
  bench: Bench,
  credentials: Credentials,
  cases: Cases,
  isRight: (isTaken: boolean) => boolean,
  rule: string,
  configuredSeconds?: number,
): Promise<void> {
  const toleranceSeconds = configuredSeconds ?? bench.subject.fixtures.webhook?.toleranceSeconds ?? null
  const integration: Integration = await bench.create(credentials)
  // A signed time is in whole seconds.
  const now = new Date(Math.floor(bench.kit.clock.now().getTime() / 1_000) * 1_000)
  const wrong: string[] = []
  for (const { what, request, at } of await cases(now)) {
    const seen = await received({ toleranceSeconds }, request, at)
    const outcome = await outcomeOf(() => bench.verifies(integration, seen))
    const isTaken = outcome.kind === 'gave' && outcome.value
    if (!isRight(isTaken)) wrong.push(`${what} (it ${wordsFor(outcome)})`)
  }
  const within = configuredSeconds === undefined ? '' : `, with a tolerance of ${configuredSeconds} s configured`
  assert.deepEqual(wrong, [], `the signature's check ${rule} ${wrong.join('; ')}${within}`)
}
