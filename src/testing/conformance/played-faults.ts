/** What a provider's API does on a bad day. */
import type { PlayedApi } from '../played-transport.ts'

export const answering =
  (
    status: number,
    body: string | null = '{"message":"of the conformance suite"}',
    headers: Record<string, string> = {},
  ): PlayedApi =>
  () =>
    new Response(body, { status, headers: { 'content-type': 'application/json', ...headers } })

export const HTML: PlayedApi = () =>
  new Response('<!doctype html><title>Back soon</title>', { headers: { 'content-type': 'text/html' } })

export const EMPTY: PlayedApi = () => new Response(null, { status: 200 })

/** The connection breaks before an answer. */
export const cut: PlayedApi = () => {
  throw new Error('the conformance suite cuts this connection')
}

/** No answer until the caller gives up. */
export const hang: PlayedApi = () => new Promise(() => {})

/** The answer of `api`, whose body breaks off half way. */
export const cutInBody =
  (api: PlayedApi): PlayedApi =>
  async (request) => {
    const { status, headers, body } = await api(request)
    if (body === null) return new Response(null, { status, headers })
    const bytes = new Uint8Array(await new Response(body).arrayBuffer())
    const half = bytes.subarray(0, Math.floor(bytes.length / 2))
    return new Response(broken(half), { status, headers })
  }

/** The answer number `at` is another one; the others are those of `api`. */
export function interrupted(api: PlayedApi, at: number, by: PlayedApi): PlayedApi {
  let answers = 0
  return (request) => {
    answers += 1
    return answers === at ? by(request) : api(request)
  }
}

/** A request of a listing: the one of number `nth` to its endpoint, whatever else is asked, such as for a token. */
export interface Place {
  readonly endpoint: string
  readonly nth: number
}

export function placeOf(requests: readonly { method: string; url: URL }[], at: number): Place {
  const endpoints = requests.slice(0, at + 1).map(({ method, url }) => endpointOf(method, url))
  const endpoint = endpoints.at(-1) ?? ''
  return { endpoint, nth: endpoints.filter((each) => each === endpoint).length }
}

/** The answer at the place is another one, once; the others are those of `api`. */
export function interruptedAt(api: PlayedApi, { endpoint, nth }: Place, by: PlayedApi): PlayedApi {
  let answers = 0
  return (request) => {
    if (endpointOf(request.method, new URL(request.url)) !== endpoint) return api(request)
    answers += 1
    return answers === nth ? by(request) : api(request)
  }
}

const endpointOf = (method: string, { origin, pathname }: URL) => `${method} ${origin}${pathname}`

/** As undici says it: `terminated`, because of a socket that the other side closed. */
function broken(begin: Uint8Array): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start: (controller) => controller.enqueue(begin),
    pull(controller) {
      const cause = Object.assign(new Error('other side closed'), { name: 'SocketError', code: 'UND_ERR_SOCKET' })
      controller.error(new TypeError('terminated', { cause }))
    },
  })
}

const LONGEST_HOLD_MS = 1_000

/** Holds the first of two until the second lets it go; for a second at most, as a provider may make the second wait for the first. */
export function held(): { released(): Promise<void>; release(): void } {
  let go = (): void => {}
  const gone = new Promise<void>((resolve) => {
    go = resolve
  })
  let timer: NodeJS.Timeout | undefined
  return {
    released() {
      timer ??= setTimeout(go, LONGEST_HOLD_MS)
      return gone
    },
    release() {
      clearTimeout(timer)
      go()
    },
  }
}
