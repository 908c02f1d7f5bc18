/** Pictures of the dashboard as a campaign leaves it. */
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import type { Server } from 'node:http'
import { serve } from '@hono/node-server'
import { createApi } from '../../../src/api/app.ts'
import { freePort } from '../../../src/bin/free-port.ts'
import { startChromium } from '../../e2e/chromium.ts'
import { PATHS } from '../../e2e/dashboard/paths.ts'
import { takePictures } from '../../e2e/dashboard/pictures.ts'
import type { DashboardRows } from '../../support/dashboard-rows.ts'
import { TOKENS } from '../../support/operators.ts'
import { operatorOf } from './operators.ts'
import type { CampaignStack } from './stack.ts'

export async function takeCampaignPictures(stack: CampaignStack, folder: string): Promise<void> {
  const port = await freePort()
  const base = `http://127.0.0.1:${port}`
  const integrations = operatorOf(stack, await readFile(stack.keyFile, 'utf8'), {
    baseUrl: base,
    operator: { tokens: [...TOKENS] },
  })
  const stopping = new AbortController()
  const server = serve({
    fetch: createApi(integrations, { signal: stopping.signal }).fetch,
    port,
    hostname: '127.0.0.1',
  }) as Server
  await once(server, 'listening')
  const browser = await startChromium()
  try {
    const rows = await rowsOf(stack)
    const found = (of: (typeof PATHS)[number]): string[] => {
      const path = of(rows as DashboardRows)
      return path.includes('null') ? [] : [path]
    }
    await takePictures(browser, base, PATHS.flatMap(found), folder)
  } finally {
    await browser.close()
    stopping.abort()
    server.closeAllConnections()
    server.close()
    await integrations.close()
  }
}

/** The rows that have most to tell. Null: the campaign has left none, or it was pruned. */
async function rowsOf({ sql, atticId }: CampaignStack): Promise<Record<keyof DashboardRows, number | null>> {
  const [ids] = await sql<[Record<keyof DashboardRows, number | null>]>`
    select
      (select min(id) from integrations where is_active)::int as healthy,
      (select integration_id from integration_requests where failure_class is not null
        group by integration_id order by count(*) desc limit 1)::int as failing,
      ${atticId}::int as off,
      (select id from integration_webhooks where attempts > 1 and integration_id <> ${atticId}
        order by attempts desc, id desc limit 1)::int as webhook,
      (select id from integration_logs where operation = 'sync' order by (status = 'partial') desc, id desc limit 1)::int as run,
      (select id from integration_sync_items order by attempts desc, id desc limit 1)::int as item,
      (select id from integration_sync_items order by (status = 'success'), id desc limit 1)::int as "waitingItem",
      (select id from integration_requests order by (failure_class is not null) desc, id desc limit 1)::int as request,
      (select max(id) from integration_incidents)::int as incident,
      (select max(id) from integration_events)::int as event,
      (select id from integration_logs order by (status = 'failed') desc, id desc limit 1)::int as log,
      (select max(id) from integration_mappings)::int as mapping,
      (select max(id) from integration_idempotency_keys)::int as key`
  return ids
}
