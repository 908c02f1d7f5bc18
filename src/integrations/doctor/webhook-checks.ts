import type { Check, Observation } from './doctor-check.ts'
import { capped, counted, fault, MAX_LOOKED_AT, moment, nameOf, psqlCommand, warning } from './doctor-check.ts'
import { lateFailedWebhooks, lingeringWebhooks } from './doctor-queries.ts'

/** A wake-up that fails is tried again a minute later at the most, and each process sweeps (docs/behaviour/webhook-recovery.md, "Wake-ups"). */
const UNWOKEN_SECONDS = 120
const DAY_SECONDS = 86_400

export const webhooksPending: Check = {
  name: 'webhooks.pending',
  needs: ['database.migrations', 'temporal.reachable'],
  async look({ config, db, tables, temporal }) {
    const groups = await lingeringWebhooks(db, tables, {
      status: 'pending',
      seconds: Math.min(UNWOKEN_SECONDS, config.webhook.pending_timeout),
      limit: MAX_LOOKED_AT,
    })
    const wrong: Observation[] = []
    const isRunning = groups.length > 0 && (await temporal.isInboxRunning())
    for (const { integrationId, webhooks, since } of groups) {
      const told = `${counted(webhooks, 'webhook')} of integration ${integrationId} ${webhooks === 1 ? 'is' : 'are'} pending, the oldest since ${moment(since)}`
      if (!isRunning)
        wrong.push(fault(`${told}, and the inbox does not run: nothing takes them up.`, temporal.commands.wakeInbox()))
      else if (isOlderThan(since, config.webhook.pending_timeout))
        wrong.push(
          warning(
            `${told}; the inbox runs but has not got to them for ${config.webhook.pending_timeout} s (webhook.pending_timeout).`,
            temporal.commands.askInbox(),
          ),
        )
    }
    return capped(wrong, `No webhook has been pending for ${UNWOKEN_SECONDS} s without an inbox.`)
  },
}

export const webhooksProcessing: Check = {
  name: 'webhooks.processing',
  needs: ['database.migrations', 'temporal.reachable'],
  async look({ config, db, tables, temporal }) {
    const seconds = config.webhook.processing_timeout
    const groups = await lingeringWebhooks(db, tables, { status: 'processing', seconds, limit: MAX_LOOKED_AT })
    const wrong: Observation[] = []
    const isRunning = groups.length > 0 && (await temporal.isInboxRunning())
    for (const { integrationId, webhooks, since } of groups) {
      const told = `${counted(webhooks, 'webhook')} of integration ${integrationId} ${webhooks === 1 ? 'has' : 'have'} been processing for longer than ${seconds} s (webhook.processing_timeout), the oldest since ${moment(since)}`
      // A living inbox holds rows with slow handlers, and takes up those of a worker that died.
      if (isRunning) wrong.push(warning(`${told}; the inbox runs and may hold them.`, temporal.commands.askInbox()))
      else
        wrong.push(
          fault(
            `${told}, and the inbox does not run. Recovery takes them up, and their handlers run again.`,
            'integrations recover-webhooks',
          ),
        )
    }
    return capped(wrong, `No webhook has been processing for ${seconds} s.`)
  },
}

export const webhooksFailed: Check = {
  name: 'webhooks.failed',
  needs: ['database.migrations'],
  async look({ db, tables }) {
    const groups = await lateFailedWebhooks(db, tables, { seconds: DAY_SECONDS, limit: MAX_LOOKED_AT })
    return capped(
      groups.map(({ integrationId, webhooks, since }) =>
        warning(
          `${counted(webhooks, 'webhook')} of integration ${integrationId} failed in the last 24 hours, the first at ${moment(since)}. Read why.`,
          psqlCommand(
            `select id, event_type, attempts, processed_at, error from ${nameOf(tables.webhooks)} where integration_id = ${integrationId} and status = $$failed$$ and dismissed_at is null order by id desc limit 20`,
          ),
        ),
      ),
      'None failed in the last 24 hours.',
    )
  },
}

function isOlderThan(at: Date, seconds: number): boolean {
  return at.getTime() < Date.now() - seconds * 1_000
}
