import { oldestOverdue } from '../../retention/overdue-queries.ts'
import { overdueLimits } from '../../retention/pruning.ts'
import type { DeletingStep } from '../../retention/queries.ts'
import type { Check } from './doctor-check.ts'
import { moment, ok, warning } from './doctor-check.ts'

/** Pruning comes once a day; one that is missed is made up for by the next. */
const GRACE_DAYS = 2

const WORDS: Readonly<Record<DeletingStep, string>> = {
  requests: 'requests',
  logs: 'logs',
  idempotency_keys: 'idempotency keys',
  sync_items: 'completed items',
  incidents: 'closed incidents',
  cache: 'expired cache rows',
  events: 'delivered events',
  webhooks: 'settled webhooks',
}

export const pruningOverdue: Check = {
  name: 'pruning.overdue',
  // Without Schedules and workers nothing is pruned: those checks name what mends it.
  needs: ['database.migrations', 'temporal.schedules', 'temporal.workers'],
  async look(framework) {
    const { db, tables } = framework
    const rows: string[] = []
    for (const [step, before] of await overdueLimits(framework, GRACE_DAYS)) {
      // What its workflow no longer sees of an open incident is a check of its own.
      if (before === null || step === 'incidents_closed') continue
      const oldestAt = await oldestOverdue(db, tables, step, before)
      if (oldestAt !== null) rows.push(`${WORDS[step]} since ${moment(oldestAt)}`)
    }
    if (rows.length === 0) return ok(`No row is there that should have been pruned ${GRACE_DAYS} days ago.`)
    return warning(
      `Rows that should have been pruned ${GRACE_DAYS} days ago are still there: ${rows.join(', ')}. Pruning comes once a day, by its Schedule or the host's; the command prunes now.`,
      'integrations prune',
    )
  },
}
