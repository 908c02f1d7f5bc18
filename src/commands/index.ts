/** The table of commands. Made by `npm run docs` of the files of this folder. */
import { circuit } from './circuit.ts'
import type { AnyCommand } from './command.ts'
import { deleteIntegration } from './delete.ts'
import { dismissWebhook } from './dismiss-webhook.ts'
import { listWebhooks } from './list-webhooks.ts'
import { oauthLink } from './oauth-link.ts'
import { oauthStatus } from './oauth-status.ts'
import { reconcileWebhooks } from './reconcile-webhooks.ts'
import { recoverWebhooks } from './recover-webhooks.ts'
import { refreshTokens } from './refresh-tokens.ts'
import { replayWebhook } from './replay-webhook.ts'
import { revokeOAuth } from './revoke-oauth.ts'
import { rotateWebhookSecret } from './rotate-webhook-secret.ts'
import { showWebhook } from './show-webhook.ts'

export const TABLE: readonly AnyCommand[] = [
  circuit,
  deleteIntegration,
  dismissWebhook,
  listWebhooks,
  oauthLink,
  oauthStatus,
  reconcileWebhooks,
  recoverWebhooks,
  refreshTokens,
  replayWebhook,
  revokeOAuth,
  rotateWebhookSecret,
  showWebhook,
]
