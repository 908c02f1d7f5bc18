/** A write with an idempotency key. Rule: docs/behaviour/requests.md, "Idempotency keys". */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import type { IntegrationProvider, SupportsIdempotency } from '../../providers/contracts.ts'
import { supportsIdempotency } from '../../providers/contracts.ts'
import type { KeyedWrite } from '../conformance.ts'
import type { PlayedApi } from '../played-transport.ts'
import type { Bench } from './bench.ts'
import type { Chapter, Check } from './conformance-check.ts'
import type { Outcome } from './outcome-checks.ts'
import { outcomeOf, wordsFor } from './outcome-checks.ts'
import { held } from './played-faults.ts'

const CONTRACT = 'a write with an idempotency key'

/** Of fixtures that say nothing of writes. */
export const UNASKED_WRITES: Chapter = {
  contract: CONTRACT,
  checks: [],
  todo: 'is not checked: give the fixture `write`, or `write: null` if the provider writes nothing',
}

export function writeChapter(provider: IntegrationProvider, write: KeyedWrite): Chapter {
  const checks = supportsIdempotency(provider)
    ? [keyIsSent(provider, write), once(write), onceAtATime(write), againAfterALoss(write)]
    : [once(write), onceAtATime(write), neverAfterALoss(write)]
  return { contract: CONTRACT, checks }
}

function keyIsSent({ idempotencyHeader }: SupportsIdempotency, write: KeyedWrite): Check {
  const where = idempotencyHeader === undefined ? 'its header, body or URL' : `the header ${idempotencyHeader}`
  return {
    name: 'sends the key to the provider, which declares that it knows keys',
    async run(bench) {
      const written = await Written.on(bench, write)
      await written.expectDone()
      written.expectRequests(1, 'a write')
      for (const { headers, text } of written.keyed) {
        const place = idempotencyHeader === undefined ? text : (headers.get(idempotencyHeader) ?? '')
        assert(
          place.includes(written.key),
          `the provider declares SupportsIdempotency: the request must have \`context.idempotencyKey\` in ${where}, and there it is not; sent was ${written.words()}`,
        )
      }
    },
  }
}

function once(write: KeyedWrite): Check {
  return {
    name: 'goes out once with its key, also where it is made again',
    async run(bench) {
      const written = await Written.on(bench, write)
      await written.expectDone()
      written.expectRequests(1, 'a write')
      await written.attempt()
      written.expectRequests(1, 'a write that was made again with the key of one that was answered')
    },
  }
}

function onceAtATime(write: KeyedWrite): Check {
  return {
    name: 'goes out once where two callers make it at the same time',
    async run(bench) {
      const written = await Written.on(bench, write)
      const outcomes = await written.twiceAtOnce()
      written.expectRequests(1, 'a write that two callers make at the same time')
      assert(
        outcomes.some(({ kind }) => kind === 'gave'),
        `of two callers one must get the answer; they ${outcomes.map(wordsFor).join(', and ')}`,
      )
    },
  }
}

function neverAfterALoss(write: KeyedWrite): Check {
  return {
    name: 'is not sent again after its answer was lost: it may have taken effect',
    async run(bench) {
      const written = await Written.on(bench, write)
      await written.expectLost()
      await written.attempt()
      written.expectRequests(1, 'a write whose answer was lost')
    },
  }
}

function againAfterALoss(write: KeyedWrite): Check {
  return {
    name: 'is sent again with the same key after its answer was lost',
    async run(bench) {
      const written = await Written.on(bench, write)
      await written.expectLost()
      written.expectRequests(1, 'a write whose answer was lost')
      await written.expectDone()
      written.expectRequests(2, 'a write that was made again after its answer was lost')
    },
  }
}

/** A request on the wire. */
interface Sent {
  /** Of the attempt in which it went out; null: without a key. */
  readonly key: string | null
  /** Method and address, without the query. */
  readonly what: string
  /** Equal for a request that is made again: an API may have one address for all that it does. */
  readonly content: string
  readonly headers: Headers
  /** All of it. */
  readonly text: string
}

/** One key, the write that is made with it, and what went out. */
class Written {
  static async on(bench: Bench, write: KeyedWrite): Promise<Written> {
    const integration = await bench.create()
    const key = randomUUID()
    return new Written(bench, key, () => write(integration, key))
  }

  readonly key: string
  readonly #bench: Bench
  readonly #write: () => Promise<unknown>
  readonly #sent: Sent[] = []

  private constructor(bench: Bench, key: string, write: () => Promise<unknown>) {
    this.#bench = bench
    this.key = key
    this.#write = write
  }

  get keyed(): readonly Sent[] {
    return this.#sent.filter(({ key }) => key === this.key)
  }

  words(): string {
    return this.#sent.map(({ what, key }) => `${what} (${key === null ? 'no key' : 'a key'})`).join(', ') || 'nothing'
  }

  /** @param play answers what has this key */
  attempt(play: PlayedApi = this.#bench.subject.fixtures.api): Promise<Outcome<unknown>> {
    return this.#watched(play, () => outcomeOf(() => this.#bench.inTime('`write`', this.#write)))
  }

  async expectDone(): Promise<void> {
    const outcome = await this.attempt()
    assert.equal(outcome.kind, 'gave', `\`write\` must succeed on the \`api\` of the fixtures; it ${wordsFor(outcome)}`)
  }

  async expectLost(): Promise<void> {
    const { api } = this.#bench.subject.fixtures
    const outcome = await this.attempt(async (request) => {
      await api(request)
      throw new Error('the conformance suite loses this answer')
    })
    assert.equal(
      outcome.kind,
      'threw',
      `a write whose answer was lost must throw, since only the provider knows what came of it; it ${wordsFor(outcome)}`,
    )
  }

  /** The first request waits until the other caller has ended, or sends as well. */
  twiceAtOnce(): Promise<Outcome<unknown>[]> {
    const { api } = this.#bench.subject.fixtures
    const { released, release } = held()
    const play: PlayedApi = async (request) => {
      if (this.keyed.length > 1) release()
      await released()
      return api(request)
    }
    return this.#watched(play, async () => {
      const caller = () => outcomeOf(() => this.#bench.inTime('`write`', this.#write)).finally(release)
      return Promise.all([caller(), caller()])
    })
  }

  expectRequests(wanted: number, what: string): void {
    const { keyed } = this
    const [first] = keyed
    assert(
      first !== undefined,
      `the key must be the \`idempotencyKey\` of the integration.request() that writes: without it nothing keeps the write from happening twice; sent was ${this.words()}`,
    )
    const beside = this.#sent.filter((sent) => sent.content === first.content && sent.key !== this.key)
    assert.deepEqual(
      beside.map((sent) => sent.what),
      [],
      `${what} must go out with its key only; sent was ${this.words()}`,
    )
    assert.equal(
      keyed.length,
      wanted,
      `${what} must go out ${wanted === 1 ? 'once' : `${wanted} times in all`}; sent was ${this.words()}`,
    )
  }

  #watched<T>(play: PlayedApi, work: () => Promise<T>): Promise<T> {
    const { attempts, subject } = this.#bench
    const api: PlayedApi = async (request) => {
      const key = attempts.current?.idempotencyKey ?? null
      const { method, url, headers } = request
      const { origin, pathname } = new URL(url)
      const body = await request.clone().text()
      const content = [method, url, body].join('\n')
      const text = [content, ...[...headers].flat()].join('\n')
      this.#sent.push({ key, what: `${method} ${origin}${pathname}`, content, headers, text })
      return key === this.key ? play(request) : subject.fixtures.api(request)
    }
    return this.#bench.answeredBy(api, () => this.#bench.withoutRetries(work))
  }
}
