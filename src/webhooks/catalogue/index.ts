import { COMMERCE_AND_SALES_DOORS } from './commerce-and-sales.ts'
import type { WebhookDoor } from './door.ts'
import { MESSAGE_DOORS } from './messages.ts'
import { PAYMENT_DOORS } from './payments.ts'
import { WORK_AND_PLATFORM_DOORS } from './work-and-platforms.ts'

/** By the name that `make-provider --like` takes. */
export const WEBHOOK_DOORS: Readonly<Record<string, WebhookDoor>> = {
  ...PAYMENT_DOORS,
  ...COMMERCE_AND_SALES_DOORS,
  ...MESSAGE_DOORS,
  ...WORK_AND_PLATFORM_DOORS,
}
