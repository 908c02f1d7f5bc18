/** Finds subscriptions whose workflow got no signal. Rule: docs/behaviour/webhook-subscriptions.md, "Its workflow". */
import type { Framework } from '../framework/context.ts'
import { managesWebhooks } from '../providers/contracts.ts'
import { overdueSubscriptions, wantForAll } from './queries.ts'

/** A look takes its time, and a worker may be dying. */
const LATE_SECONDS = 60
/** At once: the next dispatch, a minute later, takes the rest. */
const MAX_WOKEN = 1_000

/** Tells the workflows of those that are late; with `webhook.subscribe` integrations that have none get theirs. */
export async function wakeSubscriptions(framework: Framework): Promise<number> {
  const { db, tables, clock, config, providers, workflows } = framework
  const lateBy = new Date(clock.now().getTime() - LATE_SECONDS * 1_000)
  const keys = providers.entries().flatMap(([key, provider]) => (managesWebhooks(provider) ? [key] : []))
  if (keys.length > 0 && config.webhook.subscribe)
    // As if they were late already, so that they are found below.
    await wantForAll(db, tables, { providers: keys, dueAt: lateBy, limit: MAX_WOKEN })
  const late = await overdueSubscriptions(db, tables, { by: lateBy, limit: MAX_WOKEN })
  for (const id of late) workflows.keepWebhookSubscription(id)
  return late.length
}
