/** The table of commands. Made by `npm run docs` of the files of this folder. */
import { circuit } from './circuit.ts'
import type { AnyCommand } from './command.ts'
import { deleteIntegration } from './delete.ts'
import { events } from './events.ts'
import { forgetIdempotencyKey } from './forget-idempotency-key.ts'
import { forgetMapping } from './forget-mapping.ts'
import { idempotencyKeys } from './idempotency-keys.ts'
import { listWebhooks } from './list-webhooks.ts'
import { logs } from './logs.ts'
import { mappings } from './mappings.ts'
import { repointMapping } from './repoint-mapping.ts'
import { requests } from './requests.ts'
import { showWebhook } from './show-webhook.ts'

export const TABLE: readonly AnyCommand[] = [
  circuit,
  deleteIntegration,
  events,
  forgetIdempotencyKey,
  forgetMapping,
  idempotencyKeys,
  listWebhooks,
  logs,
  mappings,
  repointMapping,
  requests,
  showWebhook,
]
