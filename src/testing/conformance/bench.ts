/** Where a provider is put through its checks: a kit whose wire the check plays, and a watch on what goes past it. */
import assert from 'node:assert/strict'
import { RateLimit } from '../../calls/rate-limit-rules.ts'
import { partsOf } from '../../create-integrations.ts'
import type { Framework, OutboundCall } from '../../framework/context.ts'
import { errorLine } from '../../framework/logger.ts'
import type { HandlesWebhooks, IntegrationProvider } from '../../providers/contracts.ts'
import { declaresRateLimit, sharesRateLimit } from '../../providers/contracts.ts'
import type { Credentials, Integration } from '../../providers/integration.ts'
import { declaredStream, syncSource } from '../../providers/streams.ts'
import type { WebhookRequest } from '../../providers/webhook-request.ts'
import { WebhookVerifier } from '../../webhooks/verifier.ts'
import type { PlayedApi } from '../played-transport.ts'
import { playedTransport } from '../played-transport.ts'
import type { TestIntegrations, TestSync } from '../test-integrations.ts'
import { createTestIntegrations } from '../test-integrations.ts'
import type { SentRequest, Transport } from '../transport.ts'
import { Attempts } from './attempts.ts'
import type { Subject } from './conformance-check.ts'
import { listingFixtures } from './conformance-check.ts'
import { DidNotEnd } from './outcome-checks.ts'
import type { Outflow } from './outflow.ts'
import { watched } from './outflow.ts'

/** Real time that one piece of a provider's work may take: nothing here waits for a network. */
const PATIENCE_SECONDS = 10
/** Of a whole check, in such pieces: a provider that never ends must not hold up the checks after it. */
const PIECES = 5
const MAX_ERROR_LENGTH = 500

/** Checks of a process run one at a time: what is watched, such as its global `fetch`, is there once. */
let last: Promise<unknown> = Promise.resolve()
/** More calls than the suite makes. */
const NO_LIMIT = RateLimit.per(1_000_000, 1)

/** How the door to the provider is narrowed while a check runs. */
interface Door {
  readonly attempts: number
  readonly timeoutMs?: number
}

/** What stands in the place of the wire, and what went over it and past it, in all checks so far. */
class Wire {
  api: PlayedApi
  door: Door | null = null
  readonly patienceSeconds: number
  readonly transport: Transport = playedTransport((request) => this.api(request))
  readonly outflow: Outflow = { past: [], printed: [] }
  readonly attempts = new Attempts()

  constructor(api: PlayedApi, patienceSeconds: number) {
    this.api = api
    this.patienceSeconds = patienceSeconds
  }
}

export class Bench {
  static async open(subject: Subject, { patienceSeconds = PATIENCE_SECONDS } = {}): Promise<Bench> {
    const wire = new Wire(subject.fixtures.api, patienceSeconds)
    const provider = subject.provider()
    const kit = await createTestIntegrations({
      ...subject.fixtures.kit,
      transport: wire.transport,
      providers: { [subject.identifier]: provider },
    })
    const { framework } = partsOf(kit.integrations)
    const real = framework.request
    const request = <T>(given: Framework, outbound: OutboundCall<T>): Promise<T> =>
      real(given, wire.attempts.counted(wire.door === null ? outbound : narrowed(outbound, wire.door)))
    Object.assign(framework, { request } satisfies Partial<Framework>)
    return new Bench(subject, provider, kit, wire, kit.clock.now())
  }

  readonly subject: Subject
  /** The one that is registered. */
  readonly provider: IntegrationProvider
  readonly kit: TestIntegrations
  /** Where the kit's clock began: checks move it on, and what the fixtures' api answers does not move with it. */
  readonly beganAt: Date
  /** Of which the listing is; null: a provider's one `sync()`. */
  readonly stream: string | null
  /** The model that the stream declares. */
  readonly model: string | undefined
  readonly #wire: Wire
  readonly #streams = new Map<string, Bench>()
  readonly #verifier: WebhookVerifier

  private constructor(
    subject: Subject,
    provider: IntegrationProvider,
    kit: TestIntegrations,
    wire: Wire,
    beganAt: Date,
    stream: string | null = null,
    model?: string,
  ) {
    this.subject = subject
    this.provider = provider
    this.kit = kit
    this.beganAt = beganAt
    this.stream = stream
    this.model = model
    this.#wire = wire
    this.#verifier = new WebhookVerifier(partsOf(kit.integrations).framework)
  }

  /** Another provider in the place of this one, in the same kit: this bench is done with. */
  replacedBy(subject: Subject): Bench {
    const provider = subject.provider()
    this.kit.integrations.register(subject.identifier, provider, { replace: true })
    return new Bench(subject, provider, this.kit, this.#wire, this.beganAt)
  }

  /** The same for a stream of the provider, which it has in the form of a provider with one `sync()`; null: this one. */
  ofStream(stream: string | null): Bench {
    if (stream === null) return this
    const known = this.#streams.get(stream)
    if (known !== undefined) return known
    const { subject, provider, kit, beganAt } = this
    const fixtures = { ...subject.fixtures, ...listingFixtures(subject.fixtures, stream) }
    const source = syncSource(provider, stream) ?? provider
    const { model } = declaredStream(provider, stream) ?? {}
    const made = new Bench({ ...subject, fixtures }, source, kit, this.#wire, beganAt, stream, model)
    this.#streams.set(stream, made)
    return made
  }

  sync(integration: Integration): Promise<TestSync> {
    return this.kit.sync(integration, this.stream ?? undefined)
  }

  get sent(): readonly SentRequest[] {
    return this.#wire.transport.requests
  }

  get attempts(): Attempts {
    return this.#wire.attempts
  }

  /** As at the door: by `signature`, the provider's own check or both. */
  async verifies(integration: Integration, request: WebhookRequest): Promise<boolean> {
    const verdict = await this.#verifier.verify(this.provider as HandlesWebhooks, integration, request)
    return verdict.kind === 'verified'
  }

  get outflow(): Outflow {
    return this.#wire.outflow
  }

  /**
   * A new integration of the provider, so that no check is under the open circuit of another. Nor under the provider's rate limit:
   * a call that waits for capacity moves the kit's clock, and a check compares moments of that clock.
   */
  async create(credentials: Credentials = this.subject.fixtures.credentials): Promise<Integration> {
    const { identifier, fixtures } = this.subject
    const integration = await this.kit.integrations.create({
      provider: identifier,
      name: 'of the conformance suite',
      credentials,
      ...(fixtures.metadata === undefined ? {} : { metadata: fixtures.metadata }),
    })
    if (declaresRateLimit(this.provider)) await integration.overrideRateLimit(NO_LIMIT)
    if (sharesRateLimit(this.provider) && (await integration.rateLimit()).shared !== null)
      await integration.overrideSharedRateLimit(NO_LIMIT)
    return integration
  }

  /** Runs a check, after those that were asked for before: against a healthy API until it says otherwise, with the watch on. */
  run(check: () => Promise<void>): Promise<void> {
    const turn = last.then(() => this.#run(check))
    last = turn.catch(() => {})
    return turn
  }

  async #run(check: () => Promise<void>): Promise<void> {
    const { transport, attempts } = this.#wire
    this.#wire.api = this.subject.fixtures.api
    try {
      await this.inTime('the check', () => watched(this.outflow, attempts.past(transport.fetch), check), PIECES)
    } catch (cause) {
      if (cause instanceof assert.AssertionError) throw cause
      const message = `the provider threw where it must not: ${errorLine(cause, MAX_ERROR_LENGTH)}`
      throw Object.assign(new assert.AssertionError({ message }), { cause })
    }
  }

  /** What answers while `work` runs. */
  async answeredBy<T>(api: PlayedApi, work: () => Promise<T>): Promise<T> {
    const before = this.#wire.api
    this.#wire.api = api
    try {
      return await work()
    } finally {
      this.#wire.api = before
    }
  }

  /** While `work` runs no call is made again, so that no wait moves the kit's clock. */
  async withoutRetries<T>(work: () => Promise<T>, { timeoutMs }: { timeoutMs?: number } = {}): Promise<T> {
    const before = this.#wire.door
    this.#wire.door = { attempts: 1, ...(timeoutMs === undefined ? {} : { timeoutMs }) }
    try {
      return await work()
    } finally {
      this.#wire.door = before
    }
  }

  /** @throws DidNotEnd where it takes longer than anything should that waits for no network */
  async inTime<T>(what: string, work: () => T | Promise<T>, pieces = 1): Promise<T> {
    const seconds = this.#wire.patienceSeconds * pieces
    let timer: NodeJS.Timeout | undefined
    const tooLate = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        reject(new DidNotEnd(what, seconds))
      }, seconds * 1_000)
    })
    try {
      return await Promise.race([(async () => work())(), tooLate])
    } finally {
      clearTimeout(timer)
    }
  }

  close(): Promise<void> {
    return this.kit.close()
  }
}

function narrowed<T>(outbound: OutboundCall<T>, { attempts, timeoutMs }: Door): OutboundCall<T> {
  return { ...outbound, options: { ...outbound.options, attempts, ...(timeoutMs === undefined ? {} : { timeoutMs }) } }
}
