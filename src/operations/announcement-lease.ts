/** Keeps an announcement for as long as its listeners take. Rule: docs/behaviour/sync-cursor.md, "Announcement". */
import { randomUUID } from 'node:crypto'
import { errorLine } from '../core/logger.ts'
import { claimAnnouncement, noteAnnouncement, renewAnnouncement } from '../db/queries/logs.ts'
import type { LogRow } from '../db/schema/tables.ts'
import type { Framework } from '../framework.ts'
import { subjectOf } from './metric-subject.ts'

/** Whoever began to announce a run and died keeps the others from it for so long. */
const LEASE_SECONDS = 15
/** One renewal may be late, or fail, and the next one still comes in time. */
const RENEW_EVERY_MS = 5_000

export interface AnnouncementLease {
  readonly log: LogRow
  /** Somebody else announces the run: this process stood still for longer than the lease. */
  isLost(): boolean
  /** Renews no more, and waits for a renewal that is under way. */
  end(): Promise<void>
  /** Once it is ended: whoever asks next announces the run at once. */
  giveBack(): Promise<void>
  /** Notes the announcement, once it is ended. False: somebody else has it now, and notes it. */
  note(): Promise<boolean>
}

/** Null: nothing is to be announced, or somebody else has it. */
export async function leaseAnnouncement(framework: Framework, syncLogId: number): Promise<AnnouncementLease | null> {
  const { db, tables, logger } = framework
  const claim = { announcer: randomUUID(), leaseSeconds: LEASE_SECONDS }
  const log = await claimAnnouncement(db, tables, syncLogId, claim)
  if (log === null) return null
  let isLost = false
  let renewal: Promise<void> = Promise.resolve()
  const renew = async (): Promise<void> => {
    try {
      if (!(await renewAnnouncement(db, tables, syncLogId, claim))) isLost = true
    } catch (error) {
      logger.warn(
        {
          event: 'sync.announcement_not_renewed',
          integration: log.integrationId,
          provider: (await subjectOf(framework, log.integrationId)).provider,
          sync_log: syncLogId,
          error: errorLine(error, 300),
        },
        'the announcement of a sync run could not be kept; unless that succeeds soon, another process may tell the listeners again',
      )
    }
  }
  const timer = setInterval(() => {
    renewal = renewal.then(renew)
  }, RENEW_EVERY_MS)
  return {
    log,
    isLost: () => isLost,
    async end() {
      clearInterval(timer)
      await renewal
    },
    async giveBack() {
      await renewAnnouncement(db, tables, syncLogId, { ...claim, leaseSeconds: 0 })
    },
    note: () => noteAnnouncement(db, tables, syncLogId, { announcer: claim.announcer, at: framework.clock.now() }),
  }
}
