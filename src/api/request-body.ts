/** Reads a request's body within limits of size and time. */
import type { Context } from 'hono'

/** The whole body must arrive within this time. */
export const BODY_TIMEOUT_MS = 15_000
/** Limits of reading on after a refusal, so that a client that is still sending can read the answer. */
const LINGER_BYTES = 16 * 1_048_576
const LINGER_MS = 10_000
/** Up to here a connection itself costs as much. */
const SMALL_BYTES = 65_536

export type BodyRead =
  | { readonly kind: 'read'; readonly bytes: Uint8Array }
  | { readonly kind: 'too large' }
  | { readonly kind: 'too slow' }
  /** The process holds as many bytes of bodies as it may. */
  | { readonly kind: 'no room' }

/**
 * Room for the bytes of a body, which its owner gives back. Taken as they arrive: room for what a sender only announces would cost it
 * nothing. False: it is used up.
 */
export interface BodyRoom {
  take(bytes: number): boolean
}

const ANY_ROOM: BodyRoom = { take: () => true }

/** The raw bytes. @throws the error that broke the connection */
export function readBody({ env, req }: Context, maxBytes: number, room: BodyRoom = ANY_ROOM): Promise<BodyRead> {
  const { headers } = req.raw
  const length = headers.get('content-length')
  if (Number(length ?? 0) > maxBytes) return Promise.resolve({ kind: 'too large' })
  // Fetch: a GET and a HEAD have no body.
  if (req.raw.method === 'GET' || req.raw.method === 'HEAD')
    return Promise.resolve({ kind: 'read', bytes: new Uint8Array() })
  // Node's parser never reads more bytes than Content-Length says, so those of a small body need no counting.
  const isBounded = length !== null && !headers.has('transfer-encoding') && incomingOf(env) !== undefined
  if (isBounded && Number(length) <= SMALL_BYTES) return readWhole(req.arrayBuffer(), maxBytes)
  // A middleware has read it, and Hono gives it again.
  if (Object.keys(req.bodyCache).length > 0)
    return readWhole(req.arrayBuffer(), maxBytes).then((read) =>
      read.kind !== 'read' || room.take(read.bytes.byteLength) ? read : { kind: 'no room' },
    )
  return readCounted(req.raw, maxBytes, room)
}

function readWhole(reading: Promise<ArrayBuffer>, maxBytes: number): Promise<BodyRead> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => resolve({ kind: 'too slow' }), BODY_TIMEOUT_MS)
    reading.then(
      (body) => {
        clearTimeout(timer)
        const isTooLarge = body.byteLength > maxBytes // a middleware before us may have replaced the body
        resolve(isTooLarge ? { kind: 'too large' } : { kind: 'read', bytes: new Uint8Array(body) })
      },
      (error) => {
        clearTimeout(timer)
        reject(error)
      },
    )
  })
}

/** Counts the bytes as they arrive: a Content-Length may be missing or wrong. */
async function readCounted(request: Request, maxBytes: number, room: BodyRoom): Promise<BodyRead> {
  if (request.body === null) return { kind: 'read', bytes: new Uint8Array() }
  const reader = request.body.getReader()
  const chunks: Uint8Array[] = []
  let length = 0
  let timer: NodeJS.Timeout | undefined
  const timeout = new Promise<'too slow'>((resolve) => {
    timer = setTimeout(() => resolve('too slow'), BODY_TIMEOUT_MS)
  })
  try {
    for (;;) {
      const chunk = await Promise.race([reader.read(), timeout])
      if (chunk === 'too slow') return { kind: 'too slow' }
      if (chunk.done) return { kind: 'read', bytes: concatenated(chunks, length) }
      length += chunk.value.byteLength
      if (length > maxBytes) return { kind: 'too large' }
      if (!room.take(chunk.value.byteLength)) return { kind: 'no room' }
      chunks.push(chunk.value)
    }
  } finally {
    clearTimeout(timer)
    reader.releaseLock()
  }
}

function concatenated(chunks: readonly Uint8Array[], length: number): Uint8Array {
  const bytes = new Uint8Array(length)
  let at = 0
  for (const chunk of chunks) {
    bytes.set(chunk, at)
    at += chunk.byteLength
  }
  return bytes
}

/**
 * Sends the answer at once, and closes the connection once the client has sent its body or a limit is reached. Closing it while
 * the client still sends would reset it and lose the answer (RFC 9112, section 9.6).
 */
export async function lingering({ req }: Context, answer: Response): Promise<Response> {
  const bytes = new Uint8Array(await answer.arrayBuffer())
  const headers = new Headers(answer.headers)
  headers.set('Connection', 'close')
  // Shows the client that it has the whole answer while the connection is still open.
  headers.set('Content-Length', String(bytes.byteLength))
  const abort = new AbortController()
  const body = new ReadableStream<Uint8Array>({
    async start(controller) {
      controller.enqueue(bytes)
      await drop(req.raw, abort.signal)
      if (!abort.signal.aborted) controller.close()
    },
    cancel: () => abort.abort(),
  })
  return new Response(body, { status: answer.status, headers })
}

/** Reads on and keeps nothing. Never rejects: the client may hang up at any time. */
async function drop({ body }: Request, signal: AbortSignal): Promise<void> {
  if (body === null || body.locked) return
  const reader = body.getReader()
  const over = new Promise<'over'>((resolve) => {
    setTimeout(() => resolve('over'), LINGER_MS).unref()
    signal.addEventListener('abort', () => resolve('over'))
  })
  try {
    for (let left = LINGER_BYTES; left > 0; ) {
      const chunk = await Promise.race([reader.read(), over])
      if (chunk === 'over' || chunk.done) return
      left -= chunk.value.byteLength
    }
  } catch {
    // The client has hung up.
  }
}

/** Node's own request, if a Node server runs this app. */
export function incomingOf(env: unknown): { readonly rawHeaders?: readonly string[] } | undefined {
  return (env as { incoming?: { rawHeaders?: string[] } } | undefined)?.incoming
}
