/**
 * How often one source may fail to sign in. Kept by each process for itself: it costs no statement, and holds while Postgres is
 * away. Rule: docs/behaviour/access.md, "Sessions".
 */

/** More than a person mistypes, and nothing for who guesses. */
const MAX_FAILURES = 10
/** From the first failure on; then all are forgotten. */
const WINDOW_MS = 60_000
/** A source that is forgotten for want of room may try anew; nobody fills our memory. */
const MAX_SOURCES = 10_000

export class FailedSignIns {
  /** In the order in which their windows end: each is as long, and begins when its source is put in. */
  readonly #windows = new Map<string, { failures: number; readonly endsAtMs: number }>()

  /** Whole seconds until this source may try again; null: it may now. */
  waitSeconds(address: string | null, nowMs: number): number | null {
    const window = this.#windows.get(sourceOf(address))
    if (window === undefined || nowMs >= window.endsAtMs || window.failures < MAX_FAILURES) return null
    return Math.ceil((window.endsAtMs - nowMs) / 1_000)
  }

  note(address: string | null, nowMs: number): void {
    for (const [source, { endsAtMs }] of this.#windows) {
      if (nowMs < endsAtMs && this.#windows.size < MAX_SOURCES) break
      this.#windows.delete(source)
    }
    const source = sourceOf(address)
    const window = this.#windows.get(source)
    if (window === undefined) this.#windows.set(source, { failures: 1, endsAtMs: nowMs + WINDOW_MS })
    else window.failures += 1
  }
}

/** Of IPv6 the network: a host has a whole /64 to call from (RFC 4291, 2.5.4). Those whose address nobody knows are one source. */
function sourceOf(address: string | null): string {
  if (address === null || !address.includes(':') || address.startsWith('::ffff:')) return address ?? ''
  const [head = ''] = address.split('::')
  return `${head.split(':').slice(0, 4).join(':')}::/64`
}
