import { lateFailedWebhooks, lingeringWebhooks } from '../../db/queries/doctor.ts'
import type { Check, Observation } from './check.ts'
import { capped, counted, fault, MAX_LOOKED_AT, moment, warning } from './check.ts'
import { nameOf, psqlCommand } from './commands.ts'

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
    for (const { integrationId, webhooks, since } of groups) {
      const told = `${counted(webhooks, 'webhook')} of integration ${integrationId} ${webhooks === 1 ? 'is' : 'are'} pending, the oldest since ${moment(since)}`
      if (!(await temporal.isInboxRunning(integrationId)))
        wrong.push(
          fault(
            `${told}, and its inbox does not run: nothing takes them up.`,
            temporal.commands.wakeInbox(integrationId),
          ),
        )
      else if (isOlderThan(since, config.webhook.pending_timeout))
        wrong.push(
          warning(
            `${told}; its inbox runs but has not got to them for ${config.webhook.pending_timeout} s (webhook.pending_timeout).`,
            temporal.commands.askInbox(integrationId),
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
    for (const { integrationId, webhooks, since } of groups) {
      const told = `${counted(webhooks, 'webhook')} of integration ${integrationId} ${webhooks === 1 ? 'has' : 'have'} been processing for longer than ${seconds} s (webhook.processing_timeout), the oldest since ${moment(since)}`
      // A living inbox holds rows of a batch with slow handlers, and takes up those of a worker that died.
      if (await temporal.isInboxRunning(integrationId))
        wrong.push(warning(`${told}; its inbox runs and may hold them.`, temporal.commands.askInbox(integrationId)))
      else
        wrong.push(
          fault(
            `${told}, and its inbox, which held them, is gone. Recovery takes them up, and their handlers run again.`,
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
            `select id, event_type, attempts, processed_at, error from ${nameOf(tables.webhooks)} where integration_id = ${integrationId} and status = $$failed$$ order by id desc limit 20`,
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
