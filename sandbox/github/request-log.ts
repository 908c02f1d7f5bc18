/** One request to the API as the sandbox saw it; requests to `/_sandbox/` are not among them. */
export interface LoggedRequest {
  requestId: string
  method: string
  path: string
  /** The same path with the repository by name: GitHub's own `Link` headers name it by id. */
  canonicalPath: string
  query: Record<string, string>
  /** Null: the connection was cut by a fault. */
  status: number | null
  at: string
  durationMs: number
  /** Whether an ordered fault struck. */
  faulted: boolean
}

// The oldest entries go first; a long demo must not eat the machine's memory.
const MAX_LOGGED = 100_000

export class RequestLog {
  private entries: LoggedRequest[] = []

  add(entry: LoggedRequest): void {
    this.entries.push(entry)
    if (this.entries.length > MAX_LOGGED) this.entries = this.entries.slice(MAX_LOGGED / 10)
  }

  all(): LoggedRequest[] {
    return this.entries
  }

  clear(): number {
    const count = this.entries.length
    this.entries = []
    return count
  }
}
