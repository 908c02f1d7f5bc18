/** What a row remembers of those who were told. Rule: docs/behaviour/events.md, "Durable events". */
import { z } from 'zod'
import type { ConsumerOutcome, Outcomes } from '../core/event-delivery.ts'

const Told = z.object({ attempts: z.number(), at: z.string() })
const Failed = Told.extend({ error: z.string() })

const Stored = z.discriminatedUnion('status', [
  Told.extend({ status: z.literal('delivered') }),
  Failed.extend({ status: z.literal('waiting'), dueAt: z.iso.datetime() }),
  Failed.extend({ status: z.literal('given_up') }),
])

/** What this release can't read counts as never told: at least once is promised. */
export function readOutcomes(stored: unknown): Outcomes {
  const read: Record<string, ConsumerOutcome> = {}
  for (const [key, outcome] of Object.entries(stored ?? {})) {
    const { data } = Stored.safeParse(outcome)
    if (data !== undefined) read[key] = data
  }
  return read
}
