/** list-webhooks, show-webhook, replay-webhook, recover-webhooks, reconcile-webhooks and rotate-webhook-secret on real rows. */
import { hostname, userInfo } from 'node:os'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { webhookRecoveryActivities } from '../../src/activities/webhook-recovery.ts'
import { BackendUnreachable } from '../../src/framework/errors.ts'
import type { HandlesWebhooks, ReconcilesWebhooks } from '../../src/providers/contracts.ts'
import type { Integration } from '../../src/providers/integration.ts'
import { runActivity } from '../support/activities.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { CREDENTIALS, SECRET, TOKEN, webhookProvider } from '../support/providers.ts'
import { logsOf, makeIntegration, makeWebhook, setIntegration, webhookOf } from '../support/rows.ts'
import type { Ran, RunOptions } from './cli/run.ts'
import { runCommand } from './cli/run.ts'

const NEVER = '999999999'
const AT = new Date('2031-06-01T12:00:00.000Z')
const byUser = `cli:${userInfo().username}`

let database: TestDatabase
let test: TestIntegrations
let integration: Integration
const handle = vi.fn<HandlesWebhooks['handleWebhook']>()
/** What Temporal would answer. */
const recovery = vi.fn()
const reconciliation = vi.fn()
const counts = {
  ...{ integrations: 1, seen: 5, known: 3, inserted: 1, tooLarge: 1, capped: 0, failed: 0, skipped: 0 },
  reasons: [] as string[],
}

beforeAll(async () => {
  database = await createTestDatabase()
  const acme = webhookProvider({ handleWebhook: (...given) => handle(...given) })
  const listing: ReconcilesWebhooks = {
    ...acme,
    reconcileLookbackSeconds: 86_400,
    missedWebhooks: () => expect.unreachable('the workflow asks'),
  }
  test = testIntegrations(database.url, { providers: { acme, listing, silent: {} } })
  const { processOneWebhook } = webhookRecoveryActivities(test.framework)
  let jobs = 0
  Object.assign(test.framework.workflows, {
    runProcessWebhook: (input: { webhookId: number }) => {
      jobs += 1
      return runActivity(processOneWebhook, { ...input, claim: `job-${jobs}:1` })
    },
    runRecovery: recovery,
    runReconciliation: reconciliation,
  })
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  handle.mockReset()
  handle.mockReturnValue({ done: true })
  recovery.mockReset()
  reconciliation.mockReset()
  reconciliation.mockResolvedValue(counts)
  integration = await makeIntegration(test, 'acme')
})

async function run(words: readonly (string | number)[], options?: RunOptions): Promise<Ran> {
  const ran = await runCommand(test.integrations, words.map(String), options)
  for (const secret of [TOKEN, SECRET]) expect(ran.out + ran.err).not.toContain(secret)
  return ran
}

const failed = (values: Parameters<typeof makeWebhook>[2] = {}, of = integration) =>
  makeWebhook(test, of.id, { status: 'failed', attempts: 1, error: 'Error: no', processedAt: AT, ...values })

const notes = async (id = integration.id) =>
  (await logsOf(test, id, 'operator')).map(({ metadata }) => metadata as Record<string, unknown>)

const errorOf = (ran: Ran): { code: string; message: string } => (ran.json() as { error: never }).error

describe('list-webhooks', () => {
  it('has a row for each webhook, the newest first, without what was delivered', async () => {
    const first = await makeWebhook(test, integration.id, { eventType: 'issues', payload: TOKEN, createdAt: AT })
    const second = await failed({ error: `Error: ${'x'.repeat(100)}`, createdAt: AT })
    const ran = await run(['list-webhooks', '--integration', integration.id, '--json'])
    expect(ran).toMatchObject({ exitCode: 0, err: '' })
    const common = { integration_id: integration.id, created_at: AT.toISOString() }
    for (const row of ran.json() as object[])
      for (const left of ['payload', 'headers']) expect(row).not.toHaveProperty(left)
    expect(ran.json()).toMatchObject([
      {
        ...common,
        id: second.id,
        event_type: null,
        delivery_id: second.deliveryId,
        status: 'failed',
        attempts: 1,
        error: second.error,
        processed_at: AT.toISOString(),
        dismissed_at: null,
      },
      {
        ...common,
        id: first.id,
        event_type: 'issues',
        delivery_id: first.deliveryId,
        status: 'pending',
        attempts: 0,
        error: null,
        processed_at: null,
        dismissed_at: null,
      },
    ])
    const [head, row] = (await run(['list-webhooks', '--integration', integration.id])).out.split('\n')
    expect(head).toMatch(/^ *ID +Integration +Event +Delivery +Part +Status +Attempts +Error +Created$/)
    const cells = [second.id, integration.id, '-', second.deliveryId, '-', 'failed', 1, `Error: ${'x'.repeat(52)}…`]
    expect(row?.trim()).toMatch(new RegExp(`^${cells.join(' +')} +${AT.toISOString()}$`))
  })

  it.each<[readonly string[], readonly number[]]>([
    [
      ['--status', 'failed'],
      [2, 0],
    ],
    [['--event', 'issues'], [1]],
    [
      ['--since', '2031-06-01T12:00:00Z'],
      [2, 1],
    ],
    [['--until', '2031-06-01T14:00:00+02:00'], [0]],
    [['--provider', 'silent'], []],
  ])('%j', async (filter, expected) => {
    const rows = [
      await failed({ createdAt: new Date(AT.getTime() - 1) }),
      await makeWebhook(test, integration.id, { eventType: 'issues', createdAt: AT }),
      await failed({ createdAt: AT }),
    ]
    const ran = await run(['list-webhooks', '--integration', integration.id, ...filter, '--json'])
    expect((ran.json() as { id: number }[]).map(({ id }) => id)).toEqual(expected.map((index) => rows[index]?.id))
  })

  it('warns when there are more, and --after has them', async () => {
    const [older, newer] = [await failed(), await failed()]
    const only = ['list-webhooks', '--integration', integration.id, '--limit', 1]
    const first = await run([...only, '--json'])
    expect(first.err).toBe(`There are more than 1; --limit shows more, --after ${newer.id} the next ones.\n`)
    expect(first.json()).toMatchObject([{ id: newer.id }])
    const second = await run([...only, '--after', newer.id, '--json'])
    expect(second.err).toBe('')
    expect(second.json()).toMatchObject([{ id: older.id }])
  })

  it('says that there are none, and that there is no such integration', async () => {
    expect(await run(['list-webhooks', '--integration', integration.id])).toMatchObject({ out: 'No webhooks.\n' })
    const ran = await run(['list-webhooks', '--integration', NEVER, '--json'])
    expect([ran.exitCode, errorOf(ran).code]).toEqual([1, 'integration_not_found'])
  })
})

describe('show-webhook', () => {
  it('has every column, and the payload only on request; secrets in neither', async () => {
    const row = await failed({
      payload: `{"token":"${TOKEN}","n":1}`,
      headers: { 'x-token': [SECRET], 'x-two': ['a', 'b\u001b[2J'] },
      replayAttempt: 1,
      createdAt: AT,
    })
    const document = {
      id: row.id,
      integration_id: integration.id,
      delivery_id: row.deliveryId,
      event_type: null,
      status: 'failed',
      attempts: 1,
      error: 'Error: no',
      created_at: AT.toISOString(),
      updated_at: row.updatedAt.toISOString(),
      processed_at: AT.toISOString(),
      dismissed_at: null,
      claim: null,
      replay_attempt: 1,
      lost_workers: 0,
      traceparent: null,
      headers: { 'x-token': ['[REDACTED]'], 'x-two': ['a', 'b\u001b[2J'] },
    }
    const shown: object = (await run(['show-webhook', row.id, '--json'])).json()
    expect(shown).toMatchObject(document)
    expect(shown).not.toHaveProperty('payload')
    expect((await run(['show-webhook', row.id, '--payload', '--json'])).json()).toMatchObject({
      ...document,
      payload: '{"token":"[REDACTED]","n":1}',
      encoding: 'text',
    })
    const { out } = await run(['show-webhook', row.id, '--payload'])
    expect(out).toMatch(/^header x-token +\[REDACTED\]$/m)
    expect(out).toMatch(/^header x-two +b\[2J$/m)
    expect(out).toMatch(/^payload +\{"token":"\[REDACTED\]","n":1\}$/m)
  })

  it('of an id that is not there ends with 1', async () => {
    const ran = await run(['show-webhook', NEVER, '--json'])
    expect(ran.exitCode).toBe(1)
    expect(errorOf(ran)).toEqual({ code: 'webhook_not_found', message: `There is no webhook with id ${NEVER}.` })
  })
})

describe('replay-webhook of one', () => {
  it('runs it and says how it ended, and who asked', async () => {
    const { id } = await failed()
    const ran = await run(['replay-webhook', id, '--json'])
    expect(ran).toMatchObject({ exitCode: 0, err: '' })
    expect(ran.json()).toEqual({ webhook_id: id, outcome: 'processed', status: 'processed', attempts: 2, error: null })
    expect((await run(['replay-webhook', id])).out).toBe(`Webhook ${id} is processed, in attempt 3.\n`)
    const note = { token: byUser, action: 'replay', target: `webhook:${id}`, from: hostname() }
    expect(await notes()).toEqual([note, note])
  })

  it('ends with 1 when the handler fails', async () => {
    handle.mockRejectedValue(new Error(`401 for ${TOKEN}`))
    const { id } = await failed()
    const ran = await run(['replay-webhook', id, '--json'])
    expect(ran.exitCode).toBe(1)
    expect(ran.json()).toEqual({
      webhook_id: id,
      outcome: 'failed',
      status: 'failed',
      attempts: 2,
      error: '401 for [REDACTED]',
    })
    const text = await run(['replay-webhook', id])
    expect(text).toMatchObject({ exitCode: 1, out: `Webhook ${id} failed in attempt 3: 401 for [REDACTED]\n` })
  })

  it.each(['pending', 'processing'] as const)('names the status of what is %s, and ends with 1', async (status) => {
    const { id } = await makeWebhook(test, integration.id, { status })
    const ran = await run(['replay-webhook', id, '--json'])
    expect(ran.exitCode).toBe(1)
    expect(errorOf(ran)).toEqual({
      code: 'webhook_not_replayable',
      message: `Webhook ${id} is ${status}; only one that is processed or failed can be replayed.`,
    })
    expect(await notes()).toEqual([])
  })

  it('ends with 1 for what was erased, and for what is not there', async () => {
    const { id } = await failed({ payload: '', headers: {}, error: 'erased' })
    expect(errorOf(await run(['replay-webhook', id, '--json'])).message).toContain('was erased or pruned')
    expect(errorOf(await run(['replay-webhook', NEVER, '--json'])).code).toBe('webhook_not_found')
  })
})

describe('replay-webhook of many', () => {
  const many = (...words: string[]) => ['replay-webhook', '--integration', integration.id, ...words]
  const statusOf = async ({ id }: { id: number }) => (await webhookOf(test, id)).status

  it('--dry-run counts and names the first ten, and changes nothing', async () => {
    const rows = []
    for (let n = 0; n < 12; n += 1) rows.push(await failed())
    const ids = rows.slice(0, 10).map(({ id }) => id)
    const ran = await run(many('--dry-run', '--json'))
    expect(ran).toMatchObject({ exitCode: 0, err: '' })
    expect(ran.json()).toEqual({ count: 12, ids, integrations: 1, waiting: 0, more: false })
    expect((await run(many('--dry-run'))).out).toBe(
      `Would replay 12 webhooks of 1 integration (${ids.join(', ')}, ...).\n`,
    )
    expect(await Promise.all(rows.map(({ id }) => webhookOf(test, id)))).toEqual(rows)
    expect(await notes()).toEqual([])
  })

  it('says which will wait until their integration is enabled', async () => {
    const { id } = await failed()
    await setIntegration(test, integration.id, { isActive: false, healthStatus: 'disabled' })
    expect((await run(many('--dry-run', '--json'))).json()).toEqual({
      count: 1,
      ids: [id],
      integrations: 1,
      waiting: 1,
      more: false,
    })
    expect((await run(many('--dry-run'))).out).toContain(
      `Would replay 1 webhook of 1 integration (${id}). 1 of them will wait`,
    )
  })

  it('needs --yes where nobody can be asked', async () => {
    const row = await failed()
    const ran = await run(many('--json'))
    expect(ran.exitCode).toBe(1)
    expect(errorOf(ran)).toEqual({
      code: 'confirmation_needed',
      message: expect.stringMatching(
        new RegExp(`^Replay 1 webhook of 1 integration \\(${row.id}\\)\\? .* give --yes to go on`),
      ),
    })
    expect(await statusOf(row)).toBe('failed')
  })

  it('asks, and takes no for an answer', async () => {
    const row = await failed()
    const ran = await run(many(), { answers: { 'Replay 1 webhook': false } })
    expect(ran).toMatchObject({ exitCode: 1, err: 'Nothing was changed.\n' })
    expect(await statusOf(row)).toBe('failed')
  })

  it.each<[string, string[], RunOptions]>([
    ['--yes', ['--yes'], {}],
    ['a yes', [], { answers: { 'Replay 2 webhooks': true } }],
  ])('goes on with %s, and writes down who asked', async (_, words, options) => {
    const rows = [await failed(), await failed()]
    const processed = await failed({ status: 'processed', error: null })
    test.starts.wakes.length = 0
    const ran = await run(many(...words, '--json'), options)
    expect(ran.exitCode).toBe(0)
    expect(ran.json()).toEqual({
      replayed: 2,
      integrations: 1,
      span: [rows[0]?.id, rows[1]?.id],
      more: false,
    })
    expect(await Promise.all([...rows, processed].map(statusOf))).toEqual(['pending', 'pending', 'processed'])
    expect(test.starts.wakes).toEqual(['arrived'])
    expect(await notes()).toEqual([
      { token: byUser, action: 'replay 2 webhooks', target: `integration:${integration.id}`, from: hostname() },
    ])
    const { out } = await run(many('--status', 'processed', '--yes'))
    expect(out).toBe('Put 1 webhook of 1 integration back into the queue.\n')
  })

  it.each([
    ['replay-webhook', 'replay 500 webhooks'],
    ['dismiss-webhook', 'dismiss 500 webhooks'],
  ])('%s writes down what it has done also where it is broken off', async (command, action) => {
    await test.sql`
      insert into integration_webhooks (integration_id, delivery_id, payload, headers, status, attempts)
      select ${integration.id}, n, '{}', '{"a": ["b"]}', 'failed', 1 from generate_series(1, 501) n`
    await test.sql.unsafe(`
      create function refuse_webhook() returns trigger language plpgsql as $$ begin raise 'the disk is full'; end $$;
      create trigger refuse_webhook before update on integration_webhooks for each row
      when (old.delivery_id = '501' and old.integration_id = ${integration.id}) execute function refuse_webhook()`)
    try {
      const ran = await run([command, '--integration', integration.id, '--yes', '--json'])
      expect(ran.exitCode).not.toBe(0)
    } finally {
      await test.sql.unsafe('drop function refuse_webhook() cascade')
    }
    expect(await notes()).toMatchObject([{ action, target: `integration:${integration.id}` }])
  })

  it('warns when the limit leaves some out', async () => {
    const rows = [await failed(), await failed()]
    const ran = await run(many('--limit', '1', '--yes', '--json'))
    expect(ran.err).toBe('There are more than 1; --limit takes more.\n')
    expect(ran.json()).toEqual({
      replayed: 1,
      integrations: 1,
      span: [rows[0]?.id, rows[0]?.id],
      more: true,
    })
    expect(await Promise.all(rows.map(statusOf))).toEqual(['pending', 'failed'])
  })

  it('asks nothing where there is nothing to do', async () => {
    expect(await run(many())).toMatchObject({ exitCode: 0, out: 'Nothing to replay.\n', err: '' })
    expect((await run(many('--dry-run'))).out).toBe('Nothing to replay.\n')
    expect((await run(many('--json'))).json()).toEqual({ replayed: 0, integrations: 0, span: null, more: false })
  })

  it.each([
    ['an end before its beginning', ['--since', '2031-06-01T12:00:00Z', '--until', '2031-06-01T11:59:59Z'], 'usage'],
    ['an integration that is not there', ['--integration', NEVER], 'integration_not_found'],
  ])('refuses %s', async (_, words, code) => {
    const ran = await run([...many('--yes', '--json'), ...words])
    expect([ran.exitCode, errorOf(ran).code]).toEqual([1, code])
  })
})

describe('dismiss-webhook', () => {
  it('hides one failed webhook, shows it again by --undo, and writes down who asked', async () => {
    const { id } = await failed()
    const ran = await run(['dismiss-webhook', id, '--json'])
    expect(ran).toMatchObject({ exitCode: 0, err: '' })
    expect(ran.json()).toEqual({ webhook_id: id, status: 'failed', dismissed_at: expect.any(String) })
    const list = async (...words: string[]) =>
      (await run(['list-webhooks', '--integration', integration.id, ...words, '--json'])).json()
    expect(await list()).toEqual([])
    expect(await list('--dismissed')).toMatchObject([{ id, status: 'failed', dismissed_at: expect.any(String) }])
    expect((await run(['dismiss-webhook', id, '--undo'])).out).toBe(`Webhook ${id} is not dismissed any more.\n`)
    expect(await list()).toMatchObject([{ id, dismissed_at: null }])
    const target = `webhook:${id}`
    expect(await notes()).toEqual([
      { token: byUser, action: 'dismiss', target, from: hostname() },
      { token: byUser, action: 'undo dismiss', target, from: hostname() },
    ])
  })

  it('of many asks first, and takes no more than it has shown', async () => {
    const rows = [await failed(), await failed(), await failed({ status: 'processed', error: null })]
    const many = (...words: string[]) => ['dismiss-webhook', '--integration', integration.id, ...words]
    const ids = rows.slice(0, 2).map(({ id }) => id)
    expect((await run(many('--dry-run', '--json'))).json()).toEqual({
      count: 2,
      ids,
      integrations: 1,
      more: false,
      undo: false,
    })
    expect(errorOf(await run(many('--json'))).code).toBe('confirmation_needed')
    const ran = await run(many('--json'), { answers: { 'Dismiss 2 webhooks': true } })
    expect(ran.json()).toEqual({ dismissed: 2, integrations: 1, more: false, undo: false })
    expect((await run(many('--yes'))).out).toBe('Nothing to dismiss.\n')
    const limited = await run(many('--undo', '--limit', '1', '--yes'))
    expect(limited).toMatchObject({
      out: 'Took back the dismissal of 1 webhook of 1 integration.\n',
      err: 'There are more than 1; --limit takes more.\n',
    })
  })

  it('is for failed ones', async () => {
    const { id } = await failed({ status: 'processed', error: null })
    const ran = await run(['dismiss-webhook', id, '--json'])
    expect([ran.exitCode, errorOf(ran).code]).toEqual([1, 'webhook_not_failed'])
  })
})

describe('recover-webhooks', () => {
  it('has a line for each pass that found something', async () => {
    recovery.mockResolvedValue({ processing: 2, pending: 0, failed: 3 })
    const ran = await run(['recover-webhooks', '--json'])
    expect(ran).toMatchObject({ exitCode: 0, err: '' })
    expect(ran.json()).toEqual({ processing: 2, pending: 0, failed: 3 })
    expect((await run(['recover-webhooks'])).out).toBe(
      'Took up 2 that were processing for too long.\nTrying 3 again that had failed.\n',
    )
    recovery.mockResolvedValue({ processing: 0, pending: 1, failed: 0 })
    expect((await run(['recover-webhooks'])).out).toBe('Took up 1 that were pending for too long.\n')
  })

  it('names each workflow that it replaced, before the rows', async () => {
    const replaced = [
      { workflow: 'integrations:sync:7', attempts: 5 },
      { workflow: 'integrations:webhook-inbox', attempts: 12 },
      { workflow: 'integrations:event-outbox', attempts: 1, queue: 'integrations-old' },
    ]
    recovery.mockResolvedValue({ processing: 1, pending: 0, failed: 0, replaced })
    expect((await run(['recover-webhooks', '--json'])).json()).toEqual({
      processing: 1,
      pending: 0,
      failed: 0,
      replaced,
    })
    expect((await run(['recover-webhooks'])).out).toBe(
      [
        'Replaced the workflow integrations:sync:7, whose task had failed 5 times.',
        'Replaced the workflow integrations:webhook-inbox, whose task had failed 12 times.',
        'Replaced the workflow integrations:event-outbox, whose task queue integrations-old no worker polled.',
        'Took up 1 that were processing for too long.\n',
      ].join('\n'),
    )
    recovery.mockResolvedValue({ processing: 0, pending: 0, failed: 0, replaced: replaced.slice(0, 1) })
    expect((await run(['recover-webhooks'])).out).toBe(
      'Replaced the workflow integrations:sync:7, whose task had failed 5 times.\n',
    )
  })

  it('says that there was nothing', async () => {
    recovery.mockResolvedValue({ processing: 0, pending: 0, failed: 0 })
    expect(await run(['recover-webhooks'])).toMatchObject({ exitCode: 0, out: 'Nothing to recover\n' })
  })
})

describe('reconcile-webhooks', () => {
  it('has the counts, and writes down who asked', async () => {
    const { id } = await makeIntegration(test, 'listing')
    const ran = await run(['reconcile-webhooks', id, '--json'])
    expect(ran).toMatchObject({ exitCode: 0, err: '' })
    expect(ran.json()).toEqual({
      integrations: 1,
      seen: 5,
      known: 3,
      inserted: 1,
      too_large: 1,
      capped: 0,
      failed: 0,
      skipped: 0,
      reasons: [],
    })
    expect(reconciliation).toHaveBeenLastCalledWith({ integrationId: id, dryRun: false })
    expect((await run(['reconcile-webhooks', id])).out).toMatch(/^too_large +1$/m)
    const note = { token: byUser, action: 'reconcile', target: `integration:${id}`, from: hostname() }
    expect(await notes(id)).toEqual([note, note])
  })

  it('of all, since a moment, and only counting', async () => {
    await run(['reconcile-webhooks', '--since', '2021-06-01T14:00:00+02:00', '--dry-run'])
    expect(reconciliation).toHaveBeenLastCalledWith({ since: '2021-06-01T12:00:00.000Z', dryRun: true })
    reconciliation.mockResolvedValue({ ...counts, integrations: 0 })
    expect((await run(['reconcile-webhooks'])).out).toContain('Nothing to reconcile')
  })

  it('warns of a limit that was reached, and ends with 1 when a part failed', async () => {
    reconciliation.mockResolvedValue({ ...counts, capped: 1 })
    expect(await run(['reconcile-webhooks'])).toMatchObject({
      exitCode: 0,
      err: '1 reached the limit of a run; the next run goes on.\n',
    })
    reconciliation.mockResolvedValue({ ...counts, failed: 2 })
    const ran = await run(['reconcile-webhooks', '--json'])
    expect([ran.exitCode, ran.err]).toEqual([1, '2 failed; the log of the worker says why.\n'])
    expect(ran.json()).toMatchObject({ failed: 2 })
  })

  it('says why an integration was skipped, and ends with 1 where no provider was asked', async () => {
    const reasons = ['integration 7: no webhook to list; set metadata hook_id']
    reconciliation.mockResolvedValue({ ...counts, integrations: 4, skipped: 3, reasons })
    const some = await run(['reconcile-webhooks'])
    expect(some).toMatchObject({
      exitCode: 0,
      err: `${reasons[0]}\n2 more were skipped; integrations doctor says which.\n`,
    })
    expect(some.out).toMatch(/^skipped +3$/m)
    reconciliation.mockResolvedValue({ ...counts, skipped: 1, reasons })
    const none = await run(['reconcile-webhooks', '--json'])
    expect(none).toMatchObject({ exitCode: 1, err: `${reasons[0]}\n` })
    expect(none.json()).toMatchObject({ skipped: 1, reasons })
  })

  it.each<[string, () => Promise<string | number>, string]>([
    ['a provider that can not', async () => integration.id, 'unsupported_by_provider'],
    ['an integration that is not there', async () => NEVER, 'integration_not_found'],
    [
      'one that is switched off',
      async () => (await makeIntegration(test, 'listing', { isActive: false })).id,
      'integration_inactive',
    ],
  ])('refuses %s, and asks nothing of Temporal', async (_, of, code) => {
    const ran = await run(['reconcile-webhooks', await of(), '--json'])
    expect([ran.exitCode, errorOf(ran).code]).toEqual([1, code])
    expect(reconciliation).not.toHaveBeenCalled()
  })

  it('says that one runs already', async () => {
    reconciliation.mockResolvedValue('already running')
    const ran = await run(['reconcile-webhooks', '--json'])
    expect([ran.exitCode, errorOf(ran).code]).toEqual([1, 'already_running'])
  })
})

it.each([['recover-webhooks'], ['reconcile-webhooks'], ['replay-webhook']])(
  '%s without Temporal ends with 2',
  async (command) => {
    const away = () => Promise.reject(new BackendUnreachable('Temporal', '127.0.0.1:1', { remedy: 'Start it.' }))
    recovery.mockImplementation(away)
    reconciliation.mockImplementation(away)
    const before = test.framework.workflows.runProcessWebhook
    Object.assign(test.framework.workflows, { runProcessWebhook: away })
    const row = await failed()
    const ran = await run([command, ...(command === 'replay-webhook' ? [row.id] : []), '--json'])
    Object.assign(test.framework.workflows, { runProcessWebhook: before })
    expect([ran.exitCode, errorOf(ran).code]).toEqual([2, 'backend_unreachable'])
    expect(await webhookOf(test, row.id)).toEqual(row)
  },
)

describe('rotate-webhook-secret', () => {
  const secretsOf = async () => (await test.integrations.get(integration.id)).credentialsArray()

  it('makes one and prints it once; the old one stays for a while', async () => {
    const ran = await run(['rotate-webhook-secret', integration.id, '--json'])
    expect(ran).toMatchObject({ exitCode: 0, err: '' })
    const made: { secret: string; old_valid_until: string } = ran.json()
    expect(made).toEqual({
      integration_id: integration.id,
      secret: expect.stringMatching(/^whsec_[A-Za-z0-9+/]{43}=$/),
      old_valid_until: expect.any(String),
    })
    expect(await secretsOf()).toEqual({
      ...CREDENTIALS,
      webhook_secret: made.secret,
      webhook_secrets: [{ secret: SECRET, expires_at: made.old_valid_until }],
    })
    const text = await run(['rotate-webhook-secret', integration.id])
    const [secret, rest] = text.out.split('\n')
    expect(await secretsOf()).toMatchObject({ webhook_secret: secret })
    expect(rest).toMatch(/^The old one is valid until 20.*Z\. This one is shown once/)
    const note = {
      token: byUser,
      action: 'rotate-webhook-secret',
      target: `integration:${integration.id}`,
      from: hostname(),
      detail: expect.stringMatching(/^the former secret is valid until 20.*Z$/),
    }
    expect(await notes()).toEqual([note, note])
    const shown = await run(['show', integration.id])
    expect(shown.out).toMatch(
      /^former webhook secrets +2 in force: until 20.*Z \(no delivery has matched it\), until 20.*Z \(no delivery has matched it\)$/m,
    )
    const seen = await run(['show', integration.id, '--json'])
    expect(seen.json()).toMatchObject({
      former_webhook_secrets: [
        { until: expect.any(String), last_matched_at: null, is_watched: true },
        { until: made.old_valid_until, last_matched_at: null, is_watched: true },
      ],
    })
    for (const each of [SECRET, secret, made.secret]) expect(seen.out + shown.out).not.toContain(each)
    const acts: unknown[] = (await run(['audit', '--integration', integration.id, '--json'])).json()
    expect(acts[0]).toMatchObject({ action: 'rotate-webhook-secret', detail: note.detail })
  })

  it('takes one from stdin, and does not repeat it', async () => {
    const words = ['rotate-webhook-secret', integration.id, '--secret', '-', '--json']
    const ran = await run(words, { stdin: 'of-the-provider\n' })
    expect(ran).toMatchObject({ exitCode: 0, err: '' })
    expect(ran.json()).toMatchObject({ integration_id: integration.id, secret: null })
    expect(ran.out).not.toContain('of-the-provider')
    expect(await secretsOf()).toMatchObject({ webhook_secret: 'of-the-provider' })
  })

  it('warns of one on the command line, and of nothing else repeats it', async () => {
    const ran = await run(['rotate-webhook-secret', integration.id, '--secret', 'on-the-line'])
    expect(ran.exitCode).toBe(0)
    expect(ran.err).toContain('Better: --secret env:NAME')
    expect(ran.out + ran.err).not.toContain('on-the-line')
  })

  it.each<[string, (string | number)[], string]>([
    ['an integration that is not there', [NEVER], 'integration_not_found'],
    ['a file that is not there', [1, '--secret', '@/nowhere/at/all'], 'usage'],
    ['a variable that is not there', [1, '--secret', 'env:NO_SUCH_VARIABLE_HERE'], 'usage'],
  ])('refuses %s', async (_, words, code) => {
    const ran = await run(['rotate-webhook-secret', ...words, '--json'])
    expect([ran.exitCode, errorOf(ran).code]).toEqual([1, code])
  })
})
