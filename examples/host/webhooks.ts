import { sql } from 'drizzle-orm'
import type { PostgresJsDatabase } from 'drizzle-orm/postgres-js'
import type { GitHubWebhookReceived } from 'durable-integrations/github'
import { z } from 'zod'
import { activity } from './tables.ts'

const Payload = z.object({
  repository: z.object({ full_name: z.string().optional() }).optional(),
  sender: z.object({ type: z.string().optional() }).optional(),
})

/** Notes a delivery; if it is handled again (a replay, a lost worker), its `runs` says so. */
export async function noteActivity(db: PostgresJsDatabase, event: GitHubWebhookReceived): Promise<void> {
  const payload = Payload.safeParse(event.payload)
  await db
    .insert(activity)
    .values({
      deliveryId: event.deliveryId ?? `${event.event}-without-id`,
      event: event.event,
      action: event.action,
      repository: payload.data?.repository?.full_name ?? null,
      isBot: payload.data?.sender?.type === 'Bot',
    })
    .onConflictDoUpdate({ target: activity.deliveryId, set: { runs: sql`${activity.runs} + 1` } })
}
