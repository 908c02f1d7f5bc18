/** An answer's body, counted while it streams. Rule: docs/behaviour/egress.md, "Limits". */
import { ResponseTooLarge } from '../core/errors.ts'

/**
 * @param body decoded: a small gzip may hold a very large text
 * @param signal aborts the reading too; the stream holds on to it
 */
export function limitedBody(
  body: ReadableStream<Uint8Array>,
  maxBytes: number,
  signal: AbortSignal | null,
): ReadableStream<Uint8Array> {
  const reader = body.getReader()
  let seenBytes = 0
  let onAbort = () => {}
  const stopListening = () => signal?.removeEventListener('abort', onAbort)
  /** The connection is closed; what that says is about a stream that nobody reads any more. */
  const drop = (reason: unknown) => {
    stopListening()
    reader.cancel(reason).catch(() => {})
  }
  return new ReadableStream<Uint8Array>({
    start(controller) {
      onAbort = () => {
        controller.error(signal?.reason)
        drop(signal?.reason)
      }
      if (signal?.aborted) onAbort()
      else signal?.addEventListener('abort', onAbort, { once: true })
    },
    async pull(controller) {
      try {
        const { done, value } = await reader.read()
        if (signal?.aborted) return
        if (done) {
          stopListening()
          controller.close()
          return
        }
        seenBytes += value.byteLength
        if (seenBytes > maxBytes) throw new ResponseTooLarge(maxBytes)
        controller.enqueue(value)
      } catch (error) {
        drop(error)
        if (!signal?.aborted) controller.error(error)
      }
    },
    cancel: drop,
  })
}
