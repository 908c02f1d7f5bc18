/** The door to providers in a rehearsal: each call is answered from the request log, and none goes out. Rule: docs/behaviour/rehearsal.md, "Answers". */
import { AsyncLocalStorage } from 'node:async_hooks'
import { createHash } from 'node:crypto'
import type { Attempt } from '../calls/attempt.ts'
import { fitted, makeAttempt } from '../calls/attempt.ts'
import type { PlannedCall } from '../calls/call.ts'
import { planCall } from '../calls/call.ts'
import { askedColumns, responseOf } from '../calls/outcome.ts'
import { usableAnswer } from '../calls/response-cache.ts'
import { bodyRules } from '../calls/stored-body.ts'
import type { Egress } from '../egress/guarded-fetch.ts'
import type { OutboundCall, RequestDoor } from '../framework/context.ts'
import { redactText } from '../framework/redaction.ts'
import type { StoredCall } from './history.ts'
import type { AskedCall, CallSpan, PlayedCall, SentOnWire } from './rehearsal-jobs.ts'
import { bodyOnWire, cachedOnWire, incomplete, isForToken } from './stored-answer-rules.ts'

/** What a handler's call ends with where the log can't answer it. Its message is among the piece's reasons even where the handler catches it. */
class CannotRehearse extends Error {
  override readonly name = 'CannotRehearse'
}

/** Calls of one piece: what happened, and what happens now. */
export interface PieceCalls {
  readonly stored: readonly StoredCall[]
  /** An answer of another piece's that the response cache gave then; null: none. */
  readonly cached: (requestHash: string) => Promise<string | null>
  /** Whether another piece of work had spent an idempotency key by then. */
  readonly spent: (key: string) => Promise<boolean>
  /** What the piece failed with then, as its log says; null: it did not. */
  readonly error: string | null
}

interface Answering {
  readonly call: PlannedCall
  readonly body: string | null
  readonly status: number
  readonly sent: SentOnWire[]
}

/** Answers that the log has of one attempt: the rest is a refusal of ours, which leaves no row. */
const REFUSALS = /^(CircuitOpenException|RateLimitExceededException|IdempotencyConflict)\b/

export class StoredAnswers {
  readonly #answering = new AsyncLocalStorage<Answering>()
  #piece: PieceCalls | null = null
  #used = new Set<number>()
  #calls: PlayedCall[] = []
  #cannot: string[] = []
  #step = 0

  begin(piece: PieceCalls): void {
    this.#piece = piece
    this.#used = new Set()
    this.#calls = []
    this.#cannot = []
  }

  /** @returns what the piece has asked for since it began */
  end(): { readonly calls: readonly PlayedCall[]; readonly cannot: readonly string[] } {
    this.#piece = null
    return { calls: this.#calls, cannot: [...new Set(this.#cannot)] }
  }

  /** In the place of the real one. */
  readonly request: RequestDoor = async (framework, outbound) => {
    const span = { began: this.#nextStep(), ended: Number.MAX_SAFE_INTEGER }
    try {
      return (await this.#answer(planCall(framework, outbound as OutboundCall<unknown>), span)) as never
    } finally {
      span.ended = this.#nextStep()
    }
  }

  /** In the place of the real one: the function of a call gets its stored answer, once. */
  readonly egress: Egress = {
    fetch: () => async (input, init) => {
      const answering = this.#answering.getStore()
      const request = new Request(input, init)
      if (answering === undefined)
        throw this.#refuse(`${request.method} ${hostOf(request)} was asked outside of integration.request()`)
      const { call, sent, status } = answering
      sent.push(await onWire(request, call))
      if (sent.length > 1)
        throw this.#refuse(`${named(call)} asks more than once, and the log keeps one answer of a call`)
      const { body, contentType } = bodyOnWire(answering.body)
      const isEmpty = body === null || [204, 205, 304].includes(status)
      const response = new Response(isEmpty ? null : body, {
        status,
        headers: body === null ? {} : { 'content-type': contentType },
      })
      return this.#watched(response, call)
    },
    close: async () => {},
  }

  #nextStep(): number {
    this.#step += 1
    return this.#step
  }

  async #answer(call: PlannedCall, span: CallSpan): Promise<unknown> {
    const piece = this.#piece
    if (piece === null) throw this.#refuse(`${named(call)} was made outside of a piece's handling`)
    const rules = bodyRules(call)
    const asked = askedOf(await askedColumns(call, rules.request))
    const recorded = this.#take(piece, asked)
    if (recorded === null) {
      const cached = call.requestHash === null ? null : await piece.cached(call.requestHash)
      const usable = cached === null ? null : usableAnswer(call, cached)
      // As then, it is served without a call.
      if (usable !== null) return usable.value
      if (isForToken(asked))
        throw this.#refuse(`${named(call)} wants a token, and no token is stored that was good then`)
      if (asked.idempotencyKey !== null && (await piece.spent(asked.idempotencyKey)))
        throw this.#refuse(`${named(call)}: its idempotency key had been spent by other work, which leaves no row`)
      this.#calls.push({ ...asked, recorded: null, sent: [], span })
      throw piece.error !== null && REFUSALS.test(piece.error)
        ? this.#refuse(`${named(call)} was refused then, by the circuit breaker, a limit or its key`)
        : new CannotRehearse(`${named(call)} has no stored answer`)
    }
    const stored = piece.stored[recorded] as StoredCall
    const sent: SentOnWire[] = []
    this.#calls.push({ ...asked, recorded, sent, span })
    const reason = incomplete(stored.last)
    if (reason !== null) throw this.#refuse(`${named(call)}: ${reason}`)
    if (call.serveStale && ['upstream', 'throttle'].includes(stored.last.failureClass ?? ''))
      throw this.#refuse(`${named(call)} failed then, and an older answer may have been served`)
    const { responseData, statusCode } = stored.last
    const returned = stored.isCached && responseData !== null ? { value: JSON.parse(responseData) as unknown } : null
    const body = returned === null ? responseData : cachedOnWire(returned.value)
    const answering = { call, body, status: statusCode as number, sent }
    // The log keeps a call's last attempt as its end: no retry is made, and no wait.
    const attempt = await this.#answering.run(answering, () => makeAttempt(call, 1))
    if (sent.length === 0)
      throw this.#refuse(`${named(call)} does not ask by context.fetch, so it can't be given its answer`)
    if (sent.length > 1) throw new CannotRehearse(`${named(call)} asks more than once`)
    // A cached answer is kept as the call returned it.
    if (returned !== null) return answerIn(fitted(call, returned.value, returned.value))
    const { text } = await responseOf(call, attempt, rules.response)
    if (text !== responseData)
      throw this.#refuse(
        `${named(call)} makes something else of its answer than the log has: only what a call returns is kept`,
      )
    return answerIn(attempt.outcome)
  }

  /** The first call of the log that is the same and not used yet. */
  #take({ stored }: PieceCalls, asked: AskedCall): number | null {
    const at = stored.findIndex((call, index) => !this.#used.has(index) && isSame(call, asked))
    if (at < 0) return null
    this.#used.add(at)
    return at
  }

  #refuse(reason: string): CannotRehearse {
    this.#cannot.push(reason)
    return new CannotRehearse(reason)
  }

  /** Headers are not stored. An SDK that lists them sees the content type alone; one that is asked for by name is missed. */
  #watched(response: Response, call: PlannedCall): Response {
    const { headers } = response
    const seen = (name: string): void => {
      if (!UNMISSED.has(name.toLowerCase()))
        this.#refuse(`${named(call)} reads the header "${name}" of its answer, and headers are not stored`)
    }
    const watched = new Proxy(headers, {
      get(target, name) {
        const value: unknown = Reflect.get(target, name, target)
        if (typeof value !== 'function') return value
        if (name !== 'get' && name !== 'has') return value.bind(target)
        return (header: string) => {
          seen(header)
          return value.call(target, header)
        }
      },
    })
    Object.defineProperty(response, 'headers', { value: watched })
    return response
  }
}

/** What an answer is read by on our own side, and what says nothing that its body does not. */
const UNMISSED: ReadonlySet<string> = new Set([
  'content-type',
  'content-length',
  'retry-after',
  'request-id',
  'x-github-request-id',
  'x-request-id',
  'x-ratelimit-remaining',
  'x-ratelimit-reset',
  'x-ratelimit-resource',
  'x-ratelimit-bucket',
])

const isSame = (a: AskedCall, b: AskedCall): boolean =>
  a.method === b.method && a.endpoint === b.endpoint && a.data === b.data && a.idempotencyKey === b.idempotencyKey

const named = ({ method, shownEndpoint }: PlannedCall): string => `${method} ${shownEndpoint()}`

const hostOf = ({ url }: Request): string => new URL(url).host

export function askedOf(row: Awaited<ReturnType<typeof askedColumns>>): AskedCall {
  return {
    method: row.method,
    endpoint: row.endpoint,
    data: row.request_data,
    idempotencyKey: row.idempotency_key,
    relatedTo: row.related_type === null ? null : `${row.related_type}:${row.related_id}`,
  }
}

/** @throws the call's error, such as of a schema that refuses the answer or throws over it */
function answerIn(outcome: Attempt['outcome']): unknown {
  if (outcome.kind === 'succeeded') return outcome.value
  throw outcome.error
}

async function onWire(request: Request, { secrets }: PlannedCall): Promise<SentOnWire> {
  const body = new Uint8Array(await request.arrayBuffer())
  return {
    method: request.method,
    url: redactText(request.url, secrets()),
    bodyHash: body.length === 0 ? null : createHash('sha256').update(withoutBoundary(body, request)).digest('hex'),
  }
}

/** A form's boundary is drawn by lot each time (RFC 7578, 4.1). */
function withoutBoundary(body: Uint8Array, { headers }: Request): Uint8Array | string {
  const boundary = /boundary="?([^";]+)/.exec(headers.get('content-type') ?? '')?.[1]
  return boundary === undefined ? body : Buffer.from(body).toString('latin1').replaceAll(boundary, 'boundary')
}
