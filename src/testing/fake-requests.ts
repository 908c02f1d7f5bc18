/**
 * Answers in the provider's place, at the door of `integration.request()`: nothing is sent, classified, retried or stored.
 *
 * Rule: docs/testing.md, "Fake requests". For the real pipeline: scripted-transport.ts.
 */
import { AssertionError } from 'node:assert'
import { fitted } from '../calls/attempt.ts'
import { methodNamed } from '../calls/call.ts'
import type { OutboundCall } from '../framework/context.ts'
import type { Json } from '../framework/json.ts'
import type { Integration, RequestOptions } from '../providers/integration.ts'
import type { RequestPattern } from './request-pattern.ts'
import { byPrecedence, matches, parsePattern } from './request-pattern.ts'
import { RepliesUsedUp, UnexpectedRequest } from './testing-errors.ts'

/** A call as the fakes saw it. */
export interface FakedCall {
  readonly integration: Integration
  readonly method: string
  readonly endpoint: string
  readonly data: Json | string | Uint8Array | undefined
  readonly options: RequestOptions
}

/** What `request()` gives: a value, what a function returns, an Error to be thrown, or a sequence of these. */
export type FakeReply = unknown

/** One reply after the other; the call after the last one throws. */
export function sequence(...replies: readonly FakeReply[]): FakeSequence {
  return new FakeSequence(replies)
}

export class FakeSequence {
  readonly replies: readonly FakeReply[]
  #next = 0

  constructor(replies: readonly FakeReply[]) {
    this.replies = replies
  }

  take(request: string): FakeReply {
    if (this.#next >= this.replies.length) throw new RepliesUsedUp(request, this.replies.length, 'its sequence')
    this.#next += 1
    return this.replies[this.#next - 1]
  }
}

interface Fake {
  readonly pattern: RequestPattern
  readonly reply: FakeReply
  /** Null: of any integration. */
  readonly integrationId: number | null
}

export class FakeRequests {
  #fakes: Fake[] = []
  #isActive = false
  readonly #calls: FakedCall[] = []

  /** From the first `add()` to `stop()`: a call that no fake matches throws. */
  get isActive(): boolean {
    return this.#isActive
  }

  /** Every call so far, in order, those that nothing matched too. */
  get calls(): readonly FakedCall[] {
    return this.#calls
  }

  /** Adds fakes. The same pattern of the same scope takes the place of the earlier one. */
  add(
    replies: Readonly<Record<string, FakeReply>>,
    { integration }: { integration?: Integration | number } = {},
  ): this {
    const integrationId = typeof integration === 'object' ? integration.id : (integration ?? null)
    const added = Object.entries(replies).map(([text, reply]) => ({
      pattern: parsePattern(text),
      reply,
      integrationId,
    }))
    const texts = new Set(added.map(({ pattern }) => pattern.text))
    const kept = this.#fakes.filter((fake) => fake.integrationId !== integrationId || !texts.has(fake.pattern.text))
    this.#fakes = [...kept, ...added].sort(
      (a, b) =>
        Number(a.integrationId === null) - Number(b.integrationId === null) || byPrecedence(a.pattern, b.pattern),
    )
    this.#isActive = true
    return this
  }

  /** Removes all fakes and forgets the calls. */
  stop(): void {
    this.#fakes = []
    this.#isActive = false
    this.#calls.length = 0
  }

  /** @throws what the reply is or throws; UnexpectedRequest, RepliesUsedUp, SchemaDrift */
  async answer({
    integration,
    endpoint,
    method,
    options,
    schema,
  }: Pick<OutboundCall<unknown>, 'integration' | 'endpoint' | 'method' | 'options' | 'schema'>): Promise<unknown> {
    options.signal?.throwIfAborted()
    const call: FakedCall = { integration, method: methodNamed(method), endpoint, data: options.data, options }
    this.#calls.push(call)
    const fake = this.#fakes.find(
      (candidate) =>
        (candidate.integrationId === null || candidate.integrationId === integration.id) &&
        matches(candidate.pattern, call),
    )
    if (fake === undefined) throw new UnexpectedRequest(call.method, endpoint, `No fake matches it. ${this.#known()}`)
    const value = await replyValue(fake.reply, call)
    if (schema === undefined) return value
    const outcome = fitted({ schema, shownEndpoint: () => endpoint }, value, value)
    if (outcome.kind === 'succeeded') return outcome.value
    throw outcome.error
  }

  assertRequested(pattern: string, predicate: (call: FakedCall) => boolean = () => true): void {
    const matching = this.#matching(pattern)
    if (matching.some(predicate)) return
    const why =
      matching.length === 0 ? 'was not' : `was made ${matching.length} times, but never so that the predicate holds`
    throw this.#failure(
      `${pattern} ${why}${matching.length === 0 ? ' requested' : ''}`,
      [pattern],
      this.assertRequested,
    )
  }

  assertNotRequested(pattern: string): void {
    const count = this.#matching(pattern).length
    if (count > 0)
      throw this.#failure(`${pattern} was requested ${count} times, not expected`, [], this.assertNotRequested)
  }

  assertRequestCount(pattern: string, count: number): void {
    const actual = this.#matching(pattern).length
    if (actual !== count)
      throw new AssertionError({
        message: `${pattern} was requested ${actual} times, expected ${count}. ${this.#asked()}`,
        actual,
        expected: count,
        operator: 'assertRequestCount',
        stackStartFn: this.assertRequestCount,
      })
  }

  #matching(text: string): FakedCall[] {
    const pattern = parsePattern(text)
    return this.#calls.filter((call) => matches(pattern, call))
  }

  #failure(message: string, expected: readonly string[], stackStartFn: (...args: never[]) => unknown): AssertionError {
    return new AssertionError({
      message: `${message}. ${this.#asked()}`,
      actual: this.#calls.map(nameOf),
      expected,
      operator: stackStartFn.name,
      stackStartFn,
    })
  }

  #asked(): string {
    return this.#calls.length === 0 ? 'Nothing was requested.' : `Requested: ${this.#calls.map(nameOf).join(', ')}.`
  }

  #known(): string {
    return `Fakes: ${this.#fakes.map(({ pattern }) => pattern.text).join(', ') || 'none'}.`
  }
}

async function replyValue(reply: FakeReply, call: FakedCall): Promise<unknown> {
  if (reply instanceof FakeSequence) return replyValue(reply.take(nameOf(call)), call)
  if (reply instanceof Error) throw reply
  return typeof reply === 'function' ? (reply as (call: FakedCall) => unknown)(call) : reply
}

function nameOf({ method, endpoint }: FakedCall): string {
  return `${method} ${endpoint}`
}
