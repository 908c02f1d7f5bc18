import { outboxStatus } from '../../events/outbox.ts'
import type { Check } from './doctor-check.ts'
import { capped, counted, fault, MAX_LOOKED_AT, moment, ok, warning } from './doctor-check.ts'
import { lateEvents } from './doctor-queries.ts'

/** A wake-up that fails is tried again, and each worker sweeps every 30 s (docs/behaviour/events.md, "Durable events"). */
const UNWOKEN_SECONDS = 120
/** A pump tells of a row within 90 s of its claim, or has died and its rows are set apart. */
const HELD_SECONDS = 90 + UNWOKEN_SECONDS
/** Behind a target that is down many may line up. */
const LINED_UP_SECONDS = 15 * 60

export const eventsWaiting: Check = {
  name: 'events.waiting',
  // Without a worker all wait: that check names what mends it.
  needs: ['database.migrations', 'temporal.workers'],
  async look({ db, tables, temporal }) {
    const { events, since } = await lateEvents(db, tables, { seconds: UNWOKEN_SECONDS, claimSeconds: HELD_SECONDS })
    if (since === null) return ok(`No event has waited for ${UNWOKEN_SECONDS} s to be told to listeners and targets.`)
    const told = `${counted(events, 'event')} ${events === 1 ? 'waits' : 'wait'} to be told to queued listeners and notification targets, the oldest since ${moment(since)}`
    if (!(await temporal.isOutboxRunning()))
      return fault(`${told}, and the outbox does not run: nothing takes them up.`, temporal.commands.wakeOutbox())
    if (since.getTime() > Date.now() - LINED_UP_SECONDS * 1_000) return ok(`${told}; the outbox is at it.`)
    return warning(`${told}; the outbox runs but has not got to them.`, temporal.commands.askOutbox())
  },
}

export const eventsGivenUp: Check = {
  name: 'events.given_up',
  needs: ['database.migrations'],
  async look(framework) {
    const { givenUp } = await outboxStatus(framework, { limit: MAX_LOOKED_AT })
    const listeners = [...new Set(givenUp.map(({ listener }) => listener))]
    return capped(
      listeners.flatMap((listener) => {
        const deliveries = givenUp.filter((delivery) => delivery.listener === listener)
        const [newest] = deliveries
        const oldest = deliveries.at(-1)
        if (newest === undefined || oldest === undefined) return []
        const many = `${givenUp.length === MAX_LOOKED_AT ? 'At least ' : ''}${counted(deliveries.length, 'event')}`
        return [
          warning(
            `${many} of the last 7 days could not be told to ${listener} and ${deliveries.length === 1 ? 'was' : 'were'} given up, the first of ${moment(oldest.createdAt)}; the last, ${newest.name}, failed with: ${newest.error}. Mend that first; then all get another ten tries.`,
            'integrations notifications retry',
          ),
        ]
      }),
      'No event of the last 7 days was given up.',
    )
  },
}
