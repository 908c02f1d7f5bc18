/**
 * Handlers in other languages, on a real worker, a real Temporal server and a real Postgres: the workers of examples/python-handler and
 * examples/go-handler. And forwarded messages, judged by the makers' libraries in Python and Go.
 */
import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import type { ManagedProcess } from '../../dev/processes.ts'
import { readBundle } from '../../src/bundled-workflows.ts'
import { createWorkers } from '../../src/create-workers.ts'
import type { HandlingTargetSource } from '../../src/forwarding/target.ts'
import { SyncItemEvent } from '../../src/provider.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import { shareDevServer } from '../support/dev-server.ts'
import { builtByGo, STANDARDWEBHOOKS, startGoWorker, startPythonWorker } from '../support/foreign-workers.ts'
import { installedBundle } from '../support/installed-script.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { encryptionKey, testIntegrations } from '../support/integrations.ts'
import { sharePostgres } from '../support/postgres-setup.ts'
import { findPackage } from '../support/python-environment.ts'
import { makeIntegration } from '../support/rows.ts'
import { SOON } from '../support/soon.ts'
import { silenceTemporal } from '../workflows/stage.ts'

const IN_TIME = { ...SOON, timeout: 60_000 }
const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`
const prefix = `languages-${randomBytes(4).toString('hex')}`

class ContactSynced extends SyncItemEvent<{ name: string }> {
  static override readonly type = 'acme.contact'
}

const provider = {
  verifyWebhookSignature: () => true,
  handleWebhook: () => 'in our worker',
  resolveWebhookEvent: () => 'contact.updated',
  defaultRateLimit: () => null,
  defaultSyncInterval: () => null,
  reduceCheckpoints: () => null,
  syncItemEvents: () => [ContactSynced],
  sync: async (integration: never, session: { dispatch: (...given: never[]) => Promise<void> }) => {
    for (const name of ['ada', 'grace', ''])
      await session.dispatch(...([new ContactSynced(integration, { name }), null, `id of ${name}`] as never[]))
  },
}

let postgres: Awaited<ReturnType<typeof sharePostgres>>
let server: Awaited<ReturnType<typeof shareDevServer>>
let database: TestDatabase
let test: TestIntegrations
let stop: () => Promise<void>
let go: Awaited<ReturnType<typeof startGoWorker>>
let python: ManagedProcess
const messages: { body: string; headers: Record<string, string> }[] = []
const door = createServer((request, response) => {
  let body = ''
  request.on('data', (piece) => {
    body += piece
  })
  request.on('end', () => {
    messages.push({ body, headers: request.headers as Record<string, string> })
    response.writeHead(204).end()
  })
})

beforeAll(async () => {
  silenceTemporal()
  door.listen(0, '127.0.0.1')
  await once(door, 'listening')
  const url = `http://127.0.0.1:${(door.address() as AddressInfo).port}/`
  ;[postgres, server] = await Promise.all([sharePostgres(), shareDevServer()])
  const workflowBundle = await readBundle(installedBundle().INTEGRATIONS_WORKFLOW_BUNDLE)
  database = await createTestDatabase({ adminUrl: postgres.url })
  const by = (webhook: string, item: string, taskQueue: string) => ({
    webhooks: { workflow: webhook, taskQueue, sendsPayload: true } satisfies HandlingTargetSource,
    items: { workflow: item, taskQueue, sendsPayload: true } satisfies HandlingTargetSource,
  })
  const forward = { url, secrets: [SECRET] }
  test = testIntegrations(database.url, {
    recordStarts: false,
    encryptionKeys: encryptionKey('test'),
    temporal: { address: server.address },
    egress: { allow: ['127.0.0.1'] },
    config: { cache_prefix: prefix, schedules: { enabled: false }, sync: { item_backoff: [1] } },
    providers: { python: provider as never, go: provider as never, http: provider as never },
    handledBy: {
      python: by('handle_webhook', 'handle_item', 'python-handlers'),
      go: by('HandleWebhook', 'HandleItem', 'go-handlers'),
      http: { webhooks: forward, items: forward },
    },
  })
  const workers = await createWorkers(test.integrations, { workflowBundle })
  const running = workers.run()
  stop = async () => {
    workers.shutdown()
    await running
    await test.close()
  }
  ;[python, go] = await Promise.all([startPythonWorker(server.address), startGoWorker(server.address)])
}, 900_000)
afterAll(async () => {
  await python?.stop()
  await go?.stop()
  await go?.remove()
  await stop?.()
  door.close()
  await database?.drop()
  await server?.release()
  await postgres?.release()
})

async function deliver(name: string, body: string): Promise<number> {
  const { id } = await makeIntegration(test, name)
  const bytes = Buffer.from(body)
  await test.integrations.webhooks.receive({
    ...{ provider: name, integrationId: id, method: 'POST', path: '/', query: '' },
    headers: new Headers({ 'content-type': 'application/json' }),
    readBody: async () => ({ kind: 'read', bytes }),
  })
  return id
}

async function synced(name: string): Promise<unknown[]> {
  const { id } = await makeIntegration(test, name)
  await test.integrations.syncs.start(id)
  return vi.waitFor(async () => {
    const rows = await test.sql`
      select external_id, status, attempts, error from integration_sync_items where integration_id = ${id} order by external_id`
    expect(rows).toHaveLength(3)
    expect(rows.every(({ status }) => status === 'success' || status === 'failed')).toBe(true)
    return rows
  }, IN_TIME)
}

const handled = (id: number) =>
  vi.waitFor(async () => {
    const [row] = await test.sql`
      select w.status, w.attempts, l.result_data from integration_webhooks w
      join integration_logs l on l.integration_id = w.integration_id and l.external_id = w.delivery_id and l.operation = 'webhook'
      where w.integration_id = ${id}`
    expect(row?.status).toBe('processed')
    return row
  }, IN_TIME)

const NAMELESS = 'a contact without a name is never stored'

describe.each(['python', 'go'])('handlers in %s', (language) => {
  it('handle a delivery, and their result is that of the attempt', async () => {
    const id = await deliver(language, '{"contact":1}')
    expect(await handled(id)).toMatchObject({ attempts: 1, result_data: { by: language, event: 'contact.updated' } })
  })

  it('handle sync items; an error fails one, and a final one at once', async () => {
    expect(await synced(language)).toMatchObject([
      { external_id: 'id of ', status: 'failed', attempts: 1, error: expect.stringContaining(NAMELESS) },
      { external_id: 'id of ada', status: 'success', attempts: 1 },
      { external_id: 'id of grace', status: 'success', attempts: 1 },
    ])
  })
})

describe('a row’s workflow', () => {
  const run = (id: string, input: object) =>
    test.framework.workflows.runHandler(
      { workflow: 'handle_webhook', taskQueue: 'python-handlers', id, input: input as never, timeoutSeconds: 60 },
      new AbortController().signal,
    )

  it('is joined while it lives, and not run again once it has succeeded', async () => {
    const input = { attempt: 1, eventType: 'one', body: '' }
    const [first, second] = await Promise.all([run('webhook_9001', input), run('webhook_9001', input)])
    expect(second).toEqual(first)
    expect(await run('webhook_9001', { ...input, attempt: 2, eventType: 'two' })).toEqual(first)
  })

  it('is run again by the next attempt after it has failed', async () => {
    const input = { attempt: 1, eventType: 'one', body: 'flaky' }
    await expect(run('webhook_9002', input)).rejects.toMatchObject({
      message: expect.stringContaining('not at the first attempt'),
    })
    expect(await run('webhook_9002', { ...input, attempt: 2 })).toMatchObject({ by: 'python' })
  })

  it('fails by an error that its code does not expect, and does not wait for other code', async () => {
    await expect(run('webhook_9004', { body: 'without an attempt' })).rejects.toMatchObject({
      message: expect.stringContaining("'attempt'"),
    })
  })

  it('waits for a worker, and is given up with its attempt', async () => {
    const alone = {
      workflow: 'handle_webhook',
      taskQueue: 'nobody-polls',
      id: 'webhook_9003',
      input: {},
      timeoutSeconds: 60,
    }
    const attempt = new AbortController()
    const waiting = test.framework.workflows.runHandler(alone, attempt.signal)
    attempt.abort(new Error('its time is over'))
    await expect(waiting).rejects.toThrow('its time is over')
  })

  it('goes on when its worker is killed and another one comes', async () => {
    await python.stop()
    const id = await deliver('python', '{"contact":2}')
    python = await startPythonWorker(server.address)
    expect(await handled(id)).toMatchObject({ attempts: 1, result_data: { by: 'python' } })
  })
})

describe('a forwarded message', () => {
  it('is judged genuine by the makers’ libraries in Python and Go, and not with another body', async () => {
    await handled(await deliver('http', '{"contact":"é"}'))
    await synced('http')
    const judge = await findPackage(STANDARDWEBHOOKS)
    const verifier = await builtByGo(join(import.meta.dirname, 'go-verifier'))
    const script = [
      'import json, sys',
      'from standardwebhooks import Webhook',
      'm = json.load(sys.stdin)',
      "Webhook(m['secret']).verify(m['body'], m['headers'])",
    ].join('\n')
    try {
      expect(messages.length).toBeGreaterThanOrEqual(4)
      for (const message of messages) {
        const genuine = JSON.stringify({ ...message, secret: SECRET })
        const forged = JSON.stringify({ ...message, body: `${message.body} `, secret: SECRET })
        expect(spawnSync(judge, ['-c', script], { input: genuine }).status).toBe(0)
        expect(spawnSync(verifier.path, [], { input: genuine }).status).toBe(0)
        expect(spawnSync(judge, ['-c', script], { input: forged }).status).not.toBe(0)
        expect(spawnSync(verifier.path, [], { input: forged }).status).not.toBe(0)
      }
    } finally {
      await verifier.remove()
    }
  })
})
