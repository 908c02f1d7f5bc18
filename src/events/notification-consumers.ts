/** Notification targets as consumers of durable events. Rule: docs/behaviour/notifications.md. */

import type { Framework } from '../framework/context.ts'
import type { Consumer, DeliveredEvent } from './event-delivery.ts'
import type { NotifiedEvent } from './notification-message.ts'
import { isNews, notificationMessage } from './notification-message.ts'
import { NOTIFICATION_TYPE_OF } from './notification-rules.ts'
import type { NotificationTarget } from './notification-sending.ts'
import { NOTIFICATION_TIMEOUT_MS, originOf, sendNotification, targetKeys } from './notification-sending.ts'
import { slackMessage } from './slack-message.ts'

/** Its text ends up in the event's row and in the logs: it names the target by its origin. */
class NotificationNotTaken extends Error {
  override readonly name = 'NotificationNotTaken'
  readonly code = 'notification_not_taken'
}

/** The targets that are told of this event, in the order of the configuration. */
export function notificationConsumers(framework: Framework, event: DeliveredEvent): Consumer[] {
  if (!isNews(event)) return []
  const { targets } = framework.config.notifications
  const keys = targetKeys(targets)
  const type = NOTIFICATION_TYPE_OF[event.name]
  return targets.flatMap((target, index) =>
    target.types === undefined || target.types.includes(type)
      ? [consumerOf(framework, target, keys[index] as string, event)]
      : [],
  )
}

function consumerOf(framework: Framework, target: NotificationTarget, key: string, event: NotifiedEvent): Consumer {
  return {
    key,
    timeoutMs: NOTIFICATION_TIMEOUT_MS,
    deliver: async (_event, signal) => {
      const body = target.format === 'slack' ? slackMessage(event) : notificationMessage(event)
      const sent = await sendNotification(framework, target, { id: `evt_${event.id}`, body }, signal)
      if (sent.kind === 'taken') return 'delivered'
      if (sent.kind === 'gone') return 'gone'
      throw new NotificationNotTaken(`${originOf(target)}: ${sent.reason}`)
    },
  }
}
