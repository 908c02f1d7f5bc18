/**
 * The Temporal UI as an operator's control panel, in a real browser: a sync run is started, paused, asked how far it is, and
 * resumed, by what anybody sees on the page. And what needs such a stack for a moment, without Schedules: reconciliation, and what
 * Temporal shows by its program.
 *
 * `SCREENSHOTS=1` writes the pictures of docs/temporal-ui.md anew.
 */
import { execFile } from 'node:child_process'
import { mkdir } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { Client, Connection } from '@temporalio/client'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { post, sendWebhooks } from '../../dev/traffic.ts'
import type { SyncProgress } from '../../src/syncs/sync-jobs.ts'
import { startChromium } from './chromium.ts'
import type { OwnStack } from './own-stack.ts'
import { holdLocks, startOwnStack, until } from './own-stack.ts'

const PICTURES = fileURLToPath(new URL('../../docs/images/temporal-ui/', import.meta.url))
const SYNC_ID = 'integrations:sync:1'
const ISSUES = 298
const WEBHOOKS = 10
const INBOX = 'integrations:webhook-inbox'
/** The listing asks for four pages. The last one waits for this time: a run is there to be looked at. */
const SLOW_PAGE_MS = 10_000

let stack: OwnStack
/** For what is asked again and again: a process of Temporal's program takes longer than its answer. */
let client: Client
let browser: Browser
let page: Page

beforeAll(async () => {
  stack = await startOwnStack({ env: { INTEGRATIONS__SCHEDULES__ENABLED: 'false' } })
  client = new Client({ connection: await Connection.connect({ address: stack.temporalAddress }) })
  browser = await startChromium()
  page = await browser.newPage({ viewport: { width: 1280, height: 860 } })
  page.setDefaultTimeout(30_000)
})

afterAll(async () => {
  await browser?.close()
  await client?.connection.close()
  await stack?.stop()
})

async function takePicture(name: string): Promise<void> {
  if (process.env.SCREENSHOTS === undefined) return
  await mkdir(PICTURES, { recursive: true })
  await page.screenshot({ path: `${PICTURES}${name}.png` })
}

function pathOf(workflow: string): string {
  return `${stack.temporalUi}/namespaces/default/workflows${workflow}`
}

/** @returns the run's id, from the UI's own request */
async function startWorkflow(fields: { id: string; queue: string; type: string; input: object }): Promise<string> {
  await page.goto(pathOf('/start-workflow'))
  await page.getByLabel('Workflow ID').fill(fields.id)
  await page.getByLabel('Task Queue').fill(fields.queue)
  await page.getByLabel('Workflow Type').fill(fields.type)
  await page.locator('.cm-content').first().fill(JSON.stringify(fields.input))
  // The editor lays its text out anew when it is left, and the button moves away.
  await page.getByRole('heading', { name: 'Start a Workflow' }).click()
  await page.getByText('Task Queue is Active').waitFor()
  await takePicture('start')
  const button = page.getByRole('button', { name: 'Start Workflow' })
  const [answer] = await Promise.all([
    page.waitForResponse(
      (response) => response.request().method() === 'POST' && response.url().includes(encoded(fields.id)),
    ),
    button.click(),
  ])
  return ((await answer.json()) as { runId: string }).runId
}

async function sendSignal(name: string): Promise<void> {
  await page.getByRole('button', { name: 'More Actions' }).click()
  await page.getByRole('menuitem', { name: 'Send a Signal' }).click()
  const dialog = page.getByRole('dialog', { name: 'Send a Signal' })
  // The worker answers for the workflow which signals it takes: nothing has to be known by heart.
  await dialog.getByRole('button', { name: 'Select a signal' }).click()
  await takePicture('signals')
  // Behind its name it says what it does.
  await page.getByRole('option', { name: new RegExp(`^${name}\\b`) }).click()
  await dialog.getByRole('button', { name: 'Submit' }).click()
  await page.getByText('Workflow signaled.').first().waitFor()
  await dialog.waitFor({ state: 'hidden' })
}

async function readProgress(): Promise<SyncProgress> {
  await page.getByTestId('queries-tab').click()
  // The only query of a run, so that it is chosen already.
  await page.getByRole('textbox', { name: 'Query Type' }).waitFor()
  expect(await page.getByRole('textbox', { name: 'Query Type' }).inputValue()).toBe('progress')
  const [answer] = await Promise.all([
    page.waitForResponse((response) => response.url().includes('/query/progress')),
    page.getByRole('button', { name: /^(Run|Refresh) Query$/ }).click(),
  ])
  const { queryResult } = (await answer.json()) as { queryResult: { payloads: { data: string }[] } }
  const shown = JSON.parse(Buffer.from(queryResult.payloads[0]?.data ?? '', 'base64').toString()) as SyncProgress
  // What came over the wire is what the page shows.
  await page.getByText('"phase"').first().waitFor()
  return shown
}

/** The page draws what a workflow says of itself as Markdown, in a frame of its own. */
async function showsWords(words: string): Promise<void> {
  await until(`the page says "${words}"`, async () => {
    const texts = await Promise.all(page.frames().map((frame) => frame.textContent('body').catch(() => '')))
    return texts.some((text) => text?.includes(words))
  })
}

const encoded = (id: string): string => encodeURIComponent(id)

describe('the Temporal UI', () => {
  it('starts a sync run, pauses it, shows its progress, and resumes it', async () => {
    // Its items can't be written until it is paused, however long that takes.
    const items = await holdLocks(stack.databaseUrl, 'lock table integration_sync_items in share row exclusive mode')
    const runId = await startWorkflow({
      id: SYNC_ID,
      queue: 'integrations-default',
      type: 'syncIntegration',
      input: { integrationId: stack.integrationId },
    })
    await until('the run lists', async () => {
      const [row] = await stack.sql`select from pg_stat_activity where wait_event_type = 'Lock'`
      return row !== undefined
    })
    await page.goto(pathOf(`/${encoded(SYNC_ID)}/${runId}/history`))
    await sendSignal('pause')
    await until('it is paused while it lists', async () => (await readProgress()).isPaused)
    await items.release()

    await until('the listing is done and the run holds its items', async () => {
      const { isPaused, listed } = await readProgress()
      return isPaused && listed === ISSUES
    })
    expect(await readProgress()).toMatchObject({ isPaused: true, listed: ISSUES, succeeded: 0, failed: 0 })
    await takePicture('progress')
    await page.getByTestId('user-metadata-tab').click()
    await showsWords('Sync of integration 1: paused while processing items')
    await takePicture('details')
    const [{ count } = { count: -1 }] = await stack.sql<{ count: number }[]>`
      select count(*)::int as count from integration_sync_items where status <> 'pending'`
    expect(count).toBe(0)

    await sendSignal('resume')
    await until('the run is done', async () => (await readProgress()).phase === 'done')
    expect(await readProgress()).toMatchObject({ isPaused: false, listed: ISSUES, succeeded: ISSUES, failed: 0 })
    await page.goto(pathOf(`/${encoded(SYNC_ID)}/${runId}/history`))
    await page.getByText('Completed', { exact: true }).first().waitFor()
    await takePicture('run')
    expect(await stack.sql`select status from integration_logs where operation = 'sync'`).toEqual([
      { status: 'success' },
    ])
  }, 120_000)

  it('runs a command by its name, and shows its result', async () => {
    const runId = await startWorkflow({
      id: 'integrations:prune',
      queue: 'integrations-default',
      type: 'integrations:prune',
      input: {},
    })
    await page.goto(pathOf(`/${encoded('integrations:prune')}/${runId}/history`))
    await page.getByText('Completed', { exact: true }).first().waitFor()
    await page.getByText('"idempotency_keys"').first().waitFor()
    await takePicture('command')
  }, 60_000)
})

it('reconciliation finds a delivery that never arrived, and the worker handles it', async () => {
  const { integrationId, integrations, sandboxUrl, sql } = stack
  // Younger ones may still arrive by themselves.
  const lost = (await post(`${sandboxUrl}/_sandbox/deliveries`, { count: 1, secondsAgo: 600 })) as {
    deliveries: { guid: string }[]
  }
  expect(await integrations.webhooks.reconcile({ integrationId })).toEqual({
    ...{ integrations: 1, seen: 1, known: 0, inserted: 1, tooLarge: 0, capped: 0, failed: 0, skipped: 0 },
    reasons: [],
  })
  await until('the delivery is processed', async () => {
    const rows = await sql`select delivery_id from integration_webhooks where status = 'processed'`
    return rows.length === 1 && rows[0]?.delivery_id === lost.deliveries[0]?.guid
  })
})

async function temporal(...args: string[]): Promise<unknown> {
  const { stdout } = await promisify(execFile)(stack.temporalBinary ?? '', [
    ...args,
    '--address',
    stack.temporalAddress,
    '--output',
    'json',
  ])
  return JSON.parse(stdout)
}

async function query(workflow: string, type: string): Promise<unknown> {
  const answer = (await temporal('workflow', 'query', '--workflow-id', workflow, '--type', type)) as {
    queryResult: unknown[]
  }
  return answer.queryResult[0]
}

const asked = <Answer>(workflow: string, type: string): Promise<Answer> =>
  client.workflow.getHandle(workflow).query<Answer>(type)

interface Listed {
  readonly execution: { readonly workflowId: string }
  readonly type: { readonly name: string }
  readonly taskQueue: string
}

describe('what Temporal shows of a running stack', () => {
  let synced: number

  it('answers for the inbox with what it has done', async () => {
    const processed = async (): Promise<number> => {
      const [row] = await stack.sql<{ count: number }[]>`
        select count(*)::int as count from integration_webhooks where status = 'processed'`
      return row?.count ?? 0
    }
    const before = await processed()
    await sendWebhooks(stack, { limit: WEBHOOKS, fresh: true })
    await until('the webhooks are processed', async () => (await processed()) === before + WEBHOOKS)
    await until('the inbox ends', async () => (await asked<{ pumps: unknown[] }>(INBOX, 'state')).pumps.length === 0)
    expect(await query(INBOX, 'state')).toMatchObject({ ended: expect.any(Number), failed: 0 })
  })

  it('answers for a run with its progress, while it lists and when it is done', async () => {
    const { integrations, integrationId } = stack
    const own = await integrations.get(integrationId)
    await post(`${stack.sandboxUrl}/_sandbox/faults`, { match: 'GET */issues?*page=4*', delayMs: SLOW_PAGE_MS })
    const credentials = own.credentialsArray()
    synced = (await integrations.create({ provider: 'github', name: 'seen', credentials, metadata: own.metadata })).id
    const run = `integrations:sync:${synced}`
    await integrations.syncs.start(synced)
    // It is no small run: after five seconds the activity that opened it says where it is.
    await until('the run lists', async () => (await asked<{ phase: string }>(run, 'progress')).phase === 'listing')
    expect(await query(run, 'progress')).toMatchObject({ syncLogId: expect.any(Number), listed: null, succeeded: 0 })

    await until('the run is done', async () => (await asked<{ phase: string }>(run, 'progress')).phase === 'done')
    expect(await query(run, 'progress')).toMatchObject({ listed: ISSUES, succeeded: ISSUES, failed: 0, waiting: 0 })
  })

  it('lists both', async () => {
    // The list is written after the fact.
    await until('both are listed', async () => {
      const listed = (await temporal('workflow', 'list')) as Listed[]
      const found = new Map(listed.map((entry) => [entry.execution.workflowId, entry.type.name]))
      return found.get(`integrations:sync:${synced}`) === 'syncIntegration' && found.get(INBOX) === 'webhookInbox'
    })
  })

  it('keeps payloads and credentials out of the histories', async () => {
    const { token, webhook_secret: webhookSecret } = (
      await stack.integrations.get(stack.integrationId)
    ).credentialsArray()
    for (const id of [INBOX, `integrations:sync:${synced}`]) {
      const history = JSON.stringify(await temporal('workflow', 'show', '--workflow-id', id))
      expect(history.length).toBeGreaterThan(1_000)
      for (const secret of [String(token), String(webhookSecret), 'octocat', 'sender'])
        expect(history).not.toContain(secret)
    }
  })
})
