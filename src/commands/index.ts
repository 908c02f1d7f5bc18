/** The table of commands. Made by `npm run docs` of the files of this folder. */
import { circuit } from './circuit.ts'
import type { AnyCommand } from './command.ts'
import { deleteIntegration } from './delete.ts'
import { listWebhooks } from './list-webhooks.ts'
import { showWebhook } from './show-webhook.ts'

export const TABLE: readonly AnyCommand[] = [
  circuit,
  deleteIntegration,
  listWebhooks,
  showWebhook,
]
