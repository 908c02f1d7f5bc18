/** The table of commands. Made by `npm run docs` of the files of this folder. */
import { bundleWorkflows } from './bundle-workflows.ts'
import { circuit } from './circuit.ts'
import type { AnyCommand } from './command.ts'
import { completion } from './completion.ts'
import { config } from './config.ts'
import { deleteIntegration } from './delete.ts'
import { disable } from './disable.ts'
import { doctor } from './doctor.ts'
import { enable } from './enable.ts'
import { erase } from './erase.ts'
import { health } from './health.ts'
import { install } from './install.ts'
import { keys } from './keys.ts'
import { list } from './list.ts'
import { listWebhooks } from './list-webhooks.ts'
import { makeProvider } from './make-provider.ts'
import { migrate } from './migrate.ts'
import { rateLimit } from './rate-limit.ts'
import { schedules } from './schedules.ts'
import { show } from './show.ts'
import { showWebhook } from './show-webhook.ts'
import { stats } from './stats.ts'
import { test } from './test.ts'
import { update } from './update.ts'

export const TABLE: readonly AnyCommand[] = [
  bundleWorkflows,
  circuit,
  completion,
  config,
  deleteIntegration,
  disable,
  doctor,
  enable,
  erase,
  health,
  install,
  keys,
  listWebhooks,
  list,
  makeProvider,
  migrate,
  rateLimit,
  schedules,
  showWebhook,
  show,
  stats,
  test,
  update,
]
