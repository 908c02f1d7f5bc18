import type { PumpEnd, Pumped, PumpInput } from '../../src/claims/pump-jobs.ts'

/** Pending rows as a number, and pumps that end as they are told. */
export class ScriptedPumps {
  pending: number
  /** Rows that each pump gives back. */
  handedBack = 0
  /** What the pump that ends next says. */
  nextDueInMs: number | null = null
  readonly claims: string[] = []
  /** Pumps that run at this moment, and the most there were. */
  running = 0
  mostRunning = 0
  readonly #during: (pump: number, claim: string) => Promise<PumpEnd>

  /** @param during runs inside a pump, counted from 1; what is pending when it ends counts as processed by this pump */
  constructor(pending: number, during: (pump: number, claim: string) => Promise<PumpEnd> = async () => 'empty') {
    this.pending = pending
    this.#during = during
  }

  readonly pumpWebhooks = async ({ claim }: PumpInput): Promise<Pumped> => {
    const pump = this.claims.push(claim)
    this.running += 1
    this.mostRunning = Math.max(this.mostRunning, this.running)
    try {
      const end = await this.#during(pump, claim)
      const processed = this.pending
      this.pending = 0
      return { end, processed, failed: 0, handedBack: this.handedBack, nextDueInMs: this.nextDueInMs }
    } finally {
      this.running -= 1
    }
  }

  readonly pumpEvents = this.pumpWebhooks
}
