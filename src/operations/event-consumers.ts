/** Who is told of a durable event: by the configuration and the listeners of this process. */

import type { EventDelivery, QueuedListener } from '../events/listeners.ts'
import type { Framework } from '../framework.ts'
import type { Consumer, DeliveredEvent } from './event-delivery.ts'
import { notificationConsumers } from './notification-consumers.ts'

const LISTENER_TIMEOUT_MS = 60_000

export function consumersOf(framework: Framework, event: DeliveredEvent): readonly Consumer[] {
  return [
    ...framework.listeners.queuedFor(event.name).map((listener) => listenerConsumer(listener)),
    ...notificationConsumers(framework, event),
  ]
}

function listenerConsumer({ name, listener }: QueuedListener): Consumer {
  return {
    key: `listener:${name}`,
    timeoutMs: LISTENER_TIMEOUT_MS,
    async deliver(event, signal) {
      const delivery: EventDelivery = { id: `evt_${event.id}`, createdAt: event.createdAt, signal }
      await listener(event.payload as never, delivery as never)
      return 'delivered'
    },
  }
}
