/** Moments at each door: what can't be stored is bad input, and the first and the last that can be are taken. */
import type { Hono } from 'hono'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { commandStep } from '../../src/activities/command-steps.ts'
import { createApi } from '../../src/api/app.ts'
import { runCommand } from '../commands/cli/run.ts'
import { runActivity } from '../support/activities.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { BASE_URL, OPERATE_TOKEN, TOKENS } from '../support/operators.ts'
import { syncProvider, webhookProvider } from '../support/providers.ts'
import { makeIntegration } from '../support/rows.ts'

let database: TestDatabase
let test: TestIntegrations
let api: Hono
let id: number

beforeAll(async () => {
  database = await createTestDatabase()
  const acme = { ...webhookProvider(), ...syncProvider(() => {}), missedWebhooks: () => [], syncWindow: async () => {} }
  test = testIntegrations(database.url, {
    providers: { acme: { ...acme, reconcileLookbackSeconds: 60 } as never },
    baseUrl: BASE_URL,
    config: { operator: { tokens: TOKENS } },
  })
  api = createApi(test.integrations)
  id = (await makeIntegration(test, 'acme')).id
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

/** The last three are written well, and lie outside by their offset, or as no day of any month. */
const BAD = [
  '0000-01-01T00:00:00Z',
  '0000-12-31T23:59:59.999Z',
  '+010000-01-01T00:00:00Z',
  '-000001-01-01T00:00:00Z',
  '0001-01-01T00:00:00+00:01',
  '9999-12-31T23:59:59-00:01',
  '2031-02-30T00:00:00Z',
]
const EDGES = ['0001-01-01T00:00:00Z', '9999-12-31T23:59:59.999Z']

async function ask(method: string, path: string, body?: object): Promise<number> {
  const headers = { authorization: `Bearer ${OPERATE_TOKEN}`, 'content-type': 'application/json' }
  const init = { method, headers, ...(body && { body: JSON.stringify(body) }) }
  return (await api.request(`/operator/api/v1${path}`, init)).status
}

describe.each(['/webhooks', '/sync-runs', '/sync-items', '/incidents'])('GET %s', (path) => {
  it.each(['since', 'until'])('takes %s of the years 1 to 9999', async (name) => {
    for (const moment of BAD)
      expect([moment, await ask('GET', `${path}?${name}=${encodeURIComponent(moment)}`)]).toEqual([moment, 422])
    for (const moment of EDGES)
      expect([moment, await ask('GET', `${path}?${name}=${encodeURIComponent(moment)}`)]).toEqual([moment, 200])
  })
})

it.each([
  ['/webhooks/replay', (since: string) => ({ since, dry_run: true })],
  ['/webhooks/replay', (until: string) => ({ until, dry_run: true })],
  ['/integrations/ID/reconcile', (since: string) => ({ since, dry_run: true })],
  ['/integrations/ID/backfill', (from: string) => ({ from, to: '9999-12-31T23:59:59Z' })],
  ['/integrations/ID/backfill', (to: string) => ({ from: '0001-01-01T00:00:00Z', to })],
])('POST %s takes those alone, too', async (path, bodyOf) => {
  for (const moment of BAD)
    expect([moment, await ask('POST', path.replace('ID', String(id)), bodyOf(moment))]).toEqual([moment, 422])
})

it.each([
  ['incidents', '--since'],
  ['list-failed-items', '--since'],
  ['list-sync-runs', '--until'],
  ['list-webhooks', '--since'],
  ['replay-webhook --dry-run', '--until'],
  ['reconcile-webhooks', '--since'],
  ['circuit 7 open', '--until'],
])('%s %s is bad input, in one line', async (command, option) => {
  for (const moment of BAD) {
    const ran = await runCommand(test.integrations, [...command.split(' '), `${option}=${moment}`])
    expect(ran).toMatchObject({ exitCode: 1, out: '' })
    expect(ran.err.trim().split('\n')).toEqual([expect.stringContaining('of the years 1 to 9999')])
  }
})

it.each(['listFailedSyncItems', 'listReconcilable'] as const)('a workflow’s input of %s is refused', async (step) => {
  const reached = async () => expect.fail('the activity ran')
  for (const since of BAD)
    await expect(runActivity(commandStep(step, reached), { since })).rejects.toMatchObject({
      type: 'invalid_argument',
      nonRetryable: true,
    })
})

it('a Date in code is held to the same', async () => {
  const {
    webhooks,
    syncs,
    admin: { syncItems, incidents },
  } = test.integrations
  for (const since of [new Date('0000-06-01T00:00:00Z'), new Date('+010000-01-01T00:00:00Z'), new Date(Number.NaN)])
    for (const list of [
      () => webhooks.list({ since }),
      () => syncs.runs({ since }),
      () => syncItems.list({ since }),
      () => incidents.list({ since }),
    ])
      await expect(drained(list)).rejects.toMatchObject({ code: 'invalid_argument' })
})

async function drained(list: () => AsyncIterable<unknown>): Promise<void> {
  for await (const _ of list());
}
