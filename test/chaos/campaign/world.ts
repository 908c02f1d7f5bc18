/** What the campaign's host and its outside servers both know. */
import { z } from 'zod'
import { checkpointOf } from '../sync-plan.ts'

/** What all integrations of the shop share, by the provider's clock. */
export const BUDGET = { calls: 50, seconds: 2 } as const

/** How long an access token is good for, and how long before its end it is refreshed. */
export const TOKEN_SECONDS = 20
export const REFRESH_THRESHOLD_SECONDS = 5

/** Of each integration of the list's provider: entries a minute, and which of them fail. */
export const STREAMS = {
  contacts: { perMinute: 40, flakyEvery: 20, poisonEvery: null },
  deals: { perMinute: 20, flakyEvery: 10, poisonEvery: null },
  /** Each poisoned entry holds its cursor until it is cured. */
  notes: { perMinute: 6, flakyEvery: 5, poisonEvery: 4 },
} as const satisfies Record<string, StreamPlan>

interface StreamPlan {
  readonly perMinute: number
  readonly flakyEvery: number
  readonly poisonEvery: number | null
}

export type StreamName = keyof typeof STREAMS
export const STREAM_NAMES = Object.keys(STREAMS) as StreamName[]

/** The entry that a cursor stands for; 0: none. */
export function entryOf(cursor: unknown): number {
  if (cursor === null || cursor === undefined) return 0
  return (Date.parse(String(cursor)) - Date.parse(checkpointOf(0))) / 1_000
}

/** The body of a delivery. */
export const Payload = z.object({
  work_ms: z.number(),
  /** Webhooks of one key come in order; null: in any. */
  key: z.string().nullable(),
  n: z.number().int(),
  filler: z.string(),
})
export type Payload = z.infer<typeof Payload>

/** The body of a delivery of many. */
export const Many = z.object({ events: z.array(z.object({ id: z.string(), payload: Payload })) })
export type Many = z.infer<typeof Many>
