/** What the provider of the chaos tests lists. It travels as the integration's metadata. */
import { z } from 'zod'

/** One entry in fifty fails at its first run. */
const FLAKY_EVERY = 50

export const Plan = z.object({
  /** Numbered from 1, which is their external id; each changed a second after the one before it. */
  items: z.number().int(),
  /** They fail until they are cured. */
  poison: z.array(z.number().int()),
  /** Listeners work for less than so long, each entry for another time. */
  max_work_ms: z.number().int(),
  work_step_ms: z.number().int(),
  /** Entries of a page, and how long the next one takes to come. */
  page: z.number().int(),
  page_ms: z.number().int(),
})
export type Plan = z.infer<typeof Plan>

export type Kind = 'good' | 'flaky' | 'poison'

export interface Listed {
  readonly n: number
  readonly kind: Kind
  readonly work_ms: number
}

export function kindOf({ poison }: Pick<Plan, 'poison'>, n: number): Kind {
  if (poison.includes(n)) return 'poison'
  return n % FLAKY_EVERY === 0 ? 'flaky' : 'good'
}

/** The checkpoint of an entry; of 0: before all of them. */
export function checkpointOf(n: number): string {
  return new Date(Date.UTC(2026, 0, 1) + n * 1_000).toISOString()
}

/** Of the chaos test about streams. */
export const STREAMS = ['contacts', 'deals', 'notes', 'calls', 'files'] as const
/** Its 17th item fails always. */
export const POISONED = 'notes'
/** Of each stream. */
export const STREAM_ITEMS = 40
