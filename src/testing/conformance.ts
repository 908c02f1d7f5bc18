/**
 * What every provider must hold to, as a suite that its author runs against it.
 *
 * Rule: docs/testing.md, "The conformance suite".
 */
import type { Json } from '../framework/json.ts'
import type { Credentials, Integration } from '../providers/integration.ts'
import type { AnyProvider, ProviderSource } from '../providers/registry.ts'
import { instantiate } from '../providers/registry.ts'
import { Bench } from './conformance/bench.ts'
import { chapters } from './conformance/chapters.ts'
import type { Check, Subject } from './conformance/conformance-check.ts'
import type { PlayedApi } from './played-transport.ts'
import type { WebhookSigner } from './signed-webhook.ts'
import type { TestIntegrationsOptions } from './test-integrations.ts'

/** Of one check: the first one makes the kit, which takes seconds where no snapshot of the database is kept yet. */
const TEST_TIMEOUT_MS = 60_000

/** A delivery that the provider takes, and how it is signed. */
export interface WebhookFixture {
  /** Default: what the provider's `signature` says, which then says `signatureHeader` and `toleranceSeconds`, too. */
  readonly signer?: WebhookSigner
  /** Text as it is, anything else as JSON. */
  readonly body: unknown
  /** Another delivery's; without it nothing is said about two deliveries having two ids. */
  readonly otherBody?: unknown
  /** For a signer that names the type in a header; it is then the type that the webhook must get. */
  readonly event?: string
  /** As the provider writes them. Default: a UUID. */
  readonly deliveryId?: string
  readonly headers?: Readonly<Record<string, string>>
  /** Without a `signer`: a header, which is not signed, that names the delivery. */
  readonly deliveryIdHeader?: string
  /** The one in the fixtures' credentials, under `webhook_secret`. */
  readonly secret: string
  /** Another one of the same kind, for the time of a rotation. */
  readonly otherSecret: string
  /** Of a `signature` with public keys: the private ones, in PEM, of `secret` and of `otherSecret`. */
  readonly signingKey?: string
  readonly otherSigningKey?: string
  /** Goes with `signer`: the header with the signature. Its longest stretch of hex or base64 is taken for the digest. */
  readonly signatureHeader?: string
  /** Goes with `signer`: seconds that a signed time may be off; null, the default: the scheme signs no time. */
  readonly toleranceSeconds?: number | null
}

/** Moments, as `syncWindow()` is given them: a Date or ISO 8601 text. */
export interface BackfillWindow {
  readonly from: Date | string
  readonly to: Date | string
}

/** What the suite has to know of a listing. */
export interface ListingFixtures {
  /** Required where it syncs: three or more, in the order of time, as its items carry them. */
  readonly checkpoints?: readonly Json[]
  /** Required where it syncs incrementally: a cursor from which `api` lists something. */
  readonly cursor?: Json
  /** Required where it backfills: a window of which `api` lists something. */
  readonly window?: BackfillWindow
}

/** Makes a write, always the same one, with this idempotency key: `new AcmeProvider().addItem(integration, item, key)`. */
export type KeyedWrite = (integration: Integration, idempotencyKey: string) => Promise<unknown>

/** What the suite has to know to put a provider through its contracts. */
export interface ProviderFixtures extends ListingFixtures {
  /** Made up: nothing of them may turn up in a row, a log line or an error. */
  readonly credentials: Credentials
  /**
   * Of another account: the suite looks for what is sent of one integration's credentials for the other one. Default: `credentials`
   * with another end of each text that `credentialsSchema` takes so.
   */
  readonly otherCredentials?: Credentials
  /** What else must not turn up, such as a client's secret, and the tokens that `api` gives out. */
  readonly secrets?: readonly string[]
  readonly metadata?: Readonly<Record<string, Json>>
  /**
   * Answers as a healthy provider would: health check, identity, tokens, a listing of at least two pages where it syncs, and two
   * missed deliveries where it reconciles. The same request gets the same answer, however often it is made.
   */
  readonly api: PlayedApi
  /** Required where it handles webhooks. */
  readonly webhook?: WebhookFixture
  /** Required where it supports idempotency keys. Null: it writes nothing. Left out: the suite says that no write was checked. */
  readonly write?: KeyedWrite | null
  /** Of a provider with streams: of each, by its name, in the place of those above. */
  readonly streams?: Readonly<Record<string, ListingFixtures>>
  /** Of the kit that the suite makes: the host's models, configuration, where the clock begins (missed deliveries end there). */
  readonly kit?: Omit<TestIntegrationsOptions, 'transport' | 'allowRequests' | 'providers'>
}

/** Of the test runner: vitest's, jest's, or node:test's. */
export interface SuiteRunner {
  describe(name: string, body: () => void): unknown
  it: {
    (name: string, body: () => Promise<void>, timeoutMs: number): unknown
    /** Says what is not checked. Without it a test of that name passes. */
    todo?(name: string): unknown
  }
  /** In node:test it is called `after`. Without it each test makes a kit of its own, half a second each. */
  afterAll?(body: () => Promise<void>): unknown
}

/**
 * Declares the suite: a `describe()` with tests for each contract that the provider implements. It is registered under the name of its
 * class: `AcmeProvider` as `acme`, one without such a name as `provider`.
 *
 * @param provider a class, a function that makes one, or one, which then all tests share
 * @param runner default: the globals `describe`, `it` and `afterAll`; with vitest, `{ describe, it, afterAll }` as imported
 */
export function describeProvider(provider: ProviderSource, fixtures: ProviderFixtures, runner?: SuiteRunner): void
/**
 * The same under an identifier of its own.
 *
 * @param identifier under which the provider is registered
 * @param provider makes one: a test may need a fresh one
 */
export function describeProvider(
  identifier: string,
  provider: () => AnyProvider,
  fixtures: ProviderFixtures,
  runner?: SuiteRunner,
): void
export function describeProvider(first: string | ProviderSource, ...rest: readonly unknown[]): void {
  if (typeof first === 'string') {
    const [provider, fixtures, runner] = rest as [() => AnyProvider, ProviderFixtures, SuiteRunner?]
    declareSuite({ identifier: first, provider, fixtures }, runner)
  } else {
    const [fixtures, runner] = rest as [ProviderFixtures, SuiteRunner?]
    const provider = () => instantiate(first)
    declareSuite({ identifier: identifierOf(provider()), provider, fixtures }, runner)
  }
}

function identifierOf(provider: object): string {
  const name = provider.constructor.name.replace(/Provider$/, '').toLowerCase()
  return name !== 'object' && /^[a-z][a-z0-9]*$/.test(name) ? name : 'provider'
}

function declareSuite(subject: Subject, runner: SuiteRunner = globalRunner()): void {
  const { identifier } = subject
  runner.describe(`the provider ${identifier}`, () => {
    const { run, close } = benches(subject, runner.afterAll !== undefined)
    for (const { contract, checks, todo } of chapters(subject))
      runner.describe(contract, () => {
        for (const check of checks) runner.it(check.name, () => run(check), TEST_TIMEOUT_MS)
        if (todo !== undefined) sayTodo(runner, todo)
      })
    runner.afterAll?.(close)
  })
}

function sayTodo({ it }: SuiteRunner, todo: string): void {
  if (it.todo === undefined) it(todo, async () => {}, TEST_TIMEOUT_MS)
  else it.todo(todo)
}

/** One bench for all checks where the runner says when they are over; else one for each. */
function benches(subject: Subject, isShared: boolean): { run(check: Check): Promise<void>; close(): Promise<void> } {
  let shared: Promise<Bench> | undefined
  return {
    async run(check) {
      if (isShared) shared ??= Bench.open(subject)
      const bench = await (shared ?? Bench.open(subject))
      try {
        await bench.run(() => check.run(bench))
      } finally {
        if (!isShared) await bench.close()
      }
    },
    close: async () => (await shared)?.close(),
  }
}

function globalRunner(): SuiteRunner {
  const { describe, it, afterAll } = globalThis as Partial<SuiteRunner>
  if (describe !== undefined && it !== undefined) return { describe, it, ...(afterAll && { afterAll }) }
  throw new TypeError(
    'describeProvider() needs a test runner, and there is no global `describe` and `it`: give it as its last argument, such as { describe, it, afterAll } of vitest or { describe, it, afterAll: after } of node:test',
  )
}
