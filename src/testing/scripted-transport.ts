/**
 * A `fetch` that answers from a script: everything of ours between a provider and the wire is real, the wire is not.
 *
 * Rule: docs/testing.md, "Scripted transport".
 */
import { AssertionError } from 'node:assert'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ManualClock } from './manual-clock.ts'
import { RepliesUsedUp } from './testing-errors.ts'
import type { SentRequest, Transport } from './transport.ts'
import { connectionReset } from './transport.ts'

export interface ScriptedAnswer {
  /** Default 200. */
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  /** Text and bytes are sent as they are, anything else as JSON with its content type. */
  readonly body?: unknown
  /** How long the answer takes: by the test's clock, which is moved on, or `real` time. */
  readonly delayMs?: number
  readonly delay?: 'clock' | 'real'
}

/**
 * An answer; `cut`: the connection breaks, as undici says it; `hang`: no answer until the caller gives up; a function
 * that looks at the request first.
 */
export type ScriptedReply =
  | ScriptedAnswer
  | 'cut'
  | 'hang'
  | ((request: Request) => ScriptedAnswer | Promise<ScriptedAnswer>)

export interface ScriptedTransport extends Transport {
  /** Throws an AssertionError when replies are left. */
  assertDone(): void
}

/** @param replies in the order of the requests; one request more throws RepliesUsedUp */
export function scriptedTransport(replies: readonly ScriptedReply[]): ScriptedTransport {
  const requests: SentRequest[] = []
  let clock: ManualClock | undefined
  const assertDone = (): void => {
    if (requests.length >= replies.length) return
    throw new AssertionError({
      message: `${replies.length - requests.length} of ${replies.length} scripted replies were never asked for`,
      actual: requests.length,
      expected: replies.length,
      operator: 'assertDone',
      stackStartFn: assertDone,
    })
  }
  return {
    requests,
    assertDone,
    useClock: (given) => {
      clock = given
    },
    async fetch(input, init) {
      const request = new Request(input, init)
      request.signal.throwIfAborted()
      const { method, headers } = request
      const reply = replies[requests.length]
      if (reply === undefined) throw new RepliesUsedUp(`${method} ${request.url}`, replies.length, 'the transport')
      const sent = { method, url: new URL(request.url), headers, body: '' }
      // Takes its reply's place before the body is read: of two requests at once each has its own.
      requests.push(sent)
      sent.body = await request.clone().text()
      if (reply === 'cut') throw connectionReset()
      if (reply === 'hang') return givenUp(request.signal)
      const answer = typeof reply === 'function' ? await reply(request) : reply
      await delay(answer, clock, request.signal)
      return responseOf(answer)
    },
  }
}

async function delay(
  { delayMs = 0, delay: by = 'clock' }: ScriptedAnswer,
  clock: ManualClock | undefined,
  signal: AbortSignal,
): Promise<void> {
  if (delayMs === 0) return
  if (by === 'real') await sleep(delayMs, undefined, { signal })
  else if (clock === undefined)
    throw new TypeError("a delay by the clock needs one: createTestIntegrations({ transport }), or delay: 'real'")
  else clock.advance(delayMs / 1_000)
}

function responseOf({ status = 200, headers = {}, body }: ScriptedAnswer): Response {
  if (body === undefined || typeof body === 'string' || body instanceof Uint8Array)
    return new Response((body as ResponseBody) ?? null, { status, headers })
  return new Response(JSON.stringify(body), { status, headers: { 'content-type': 'application/json', ...headers } })
}

/** `Uint8Array` alone would include views of shared memory, which no test scripts. */
type ResponseBody = ConstructorParameters<typeof Response>[0]

function givenUp(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason as Error)
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true })
  })
}
