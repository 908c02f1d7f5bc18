import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { post, sendWebhooks, webhookSecretOf } from '../../dev/traffic.ts'
import { sendWebhooks as sendFromHere } from '../../sandbox/github/webhook-sender.ts'
import type { OwnStack } from './own-stack.ts'
import { holdLocks, killNine, killNineInTheAct, startOwnStack, until } from './own-stack.ts'

const WEBHOOKS = 329
/** So slowly that the worker dies twice while they are sent. */
const WEBHOOKS_PER_SECOND = 20
/** Five pages; four syncs of them fit into the minute on a machine that is three times slower. */
const ENTRIES = 480
/** Each eighth entry of the sandbox is a pull request, which is no issue. */
const ISSUES = 420
const DIFFERENT = 150
const SAME = 50
/**
 * Settled, once, within a minute of the successor's readiness: when that comes is the supervisor's and the machine's business. Of it
 * up to 20 s pass until a dead worker is missed, and some seconds until it is certain or a try is made again; the rest is work.
 * Rules: docs/behaviour/workflows.md, "Activities"; docs/behaviour/webhooks.md, "Claims".
 */
const MINUTE = 60

let stack: OwnStack

beforeAll(async () => {
  stack = await startOwnStack({
    sandboxEntries: ENTRIES,
    // A run starts when a test says so.
    // Items that wait hold connections of the worker's pool of 10: some are left for its other work.
    env: { INTEGRATIONS__SCHEDULES__ENABLED: 'false', INTEGRATIONS__SYNC__ITEM_CONCURRENCY: '4' },
  })
})

afterAll(() => stack?.stop())

async function count(query: string): Promise<number> {
  const [row] = await stack.sql.unsafe<{ count: number }[]>(`select count(*)::int as count ${query}`)
  return row?.count ?? 0
}

/** What the dead worker sent is still carried out by Postgres; then its rows are those that nobody ends. */
async function heldByTheDead(): Promise<number[]> {
  const writes = `query ~* '^\\s*(update|with outcome)'`
  await until('its last statements are done', async () => {
    return (await count(`from pg_stat_activity where state <> 'idle' and pid <> pg_backend_pid() and ${writes}`)) === 0
  })
  const rows = await stack.sql<{ id: number }[]>`
    select id::int from integration_webhooks where status = 'processing' and claim is not null`
  return rows.map((row) => row.id)
}

/** Every webhook was processed and has one log line; none is left. */
async function expectSettledOnce(webhooks: number): Promise<void> {
  expect(await count(`from integration_webhooks`)).toBe(webhooks)
  expect(await count(`from integration_webhooks where status = 'processed' and claim is null`)).toBe(webhooks)
  expect(
    await count(`from integration_webhooks w where 1 <> (select count(*) from integration_logs l
      where l.operation = 'webhook' and l.integration_id = w.integration_id and l.external_id = w.delivery_id
        and l.status = 'success')`),
  ).toBe(0)
  expect(await count(`from integration_logs where operation = 'webhook'`)).toBe(webhooks)
  // The host saw each delivery, and again only what a dead worker had in its hands.
  expect(await count(`from activity`)).toBe(webhooks)
  expect(
    await count(`from activity a join integration_webhooks w on w.delivery_id = a.delivery_id
      where a.runs > w.attempts`),
  ).toBe(0)
}

describe('kill -9 of the worker', () => {
  it('twice while 329 webhooks come in: each is processed, once, within a minute', async () => {
    const sending = sendWebhooks(stack, { ratePerSecond: WEBHOOKS_PER_SECOND, fresh: true })
    const dead = new Set<number>()
    for (let kill = 1; kill <= 2; kill += 1) {
      const before = await count(`from integration_webhooks where status = 'processed'`)
      const { back } = await killNineInTheAct(stack.worker, 'some are processed and more are in hand', async () => {
        return (
          (await count(`from integration_webhooks where status = 'processed'`)) > before &&
          (await count(`from integration_webhooks where status = 'processing'`)) > 0
        )
      })
      for (const id of await heldByTheDead()) dead.add(id)
      await back
    }
    expect(await sending).toMatchObject({ sent: WEBHOOKS, accepted: WEBHOOKS, duplicates: 0 })
    const afterSeconds = await until(
      'all are settled',
      async () => (await count(`from integration_webhooks where status in ('processed', 'failed')`)) === WEBHOOKS,
      MINUTE,
    )
    console.log(`settled ${afterSeconds} s after the last was sent; the dead had ${dead.size} rows in hand`)
    await expectSettledOnce(WEBHOOKS)
    const again = await stack.sql<{ id: number }[]>`select id::int from integration_webhooks where attempts > 1`
    expect([...dead]).toEqual(expect.arrayContaining(again.map((row) => row.id)))
  })
})

describe('kill -9 of the API', () => {
  it('while webhooks come in, 50 of them the same: the sender tries again, and each is one row and one run', async () => {
    const before = await count(`from integration_webhooks`)
    const url = `${stack.apiUrl}/integrations/github/${stack.integrationId}/webhook`
    const secret = await webhookSecretOf(stack.integrations, stack.integrationId)
    const different = sendWebhooks(stack, { limit: DIFFERENT, ratePerSecond: 50, fresh: true })
    const same = Promise.all(Array.from({ length: SAME }, () => sendFromHere({ url, secret, limit: 1 })))
    await until('some are stored', async () => (await count(`from integration_webhooks`)) > before)
    const { back } = await killNine(stack.api)
    await back
    expect(await different).toMatchObject({ sent: DIFFERENT, accepted: DIFFERENT, failed: 0 })
    expect((await same).every((one) => one.accepted === 1)).toBe(true)
    const stored = before + DIFFERENT + 1
    const seconds = await until('all are settled', async () => {
      return (await count(`from integration_webhooks where status = 'processed'`)) === stored
    })
    console.log(`settled ${seconds} s after the last was accepted`)
    await expectSettledOnce(stored)
    expect(await count(`from activity a where runs > 1`)).toBe(
      await count(
        `from activity a join integration_webhooks w using (delivery_id) where w.attempts > 1 and a.runs > 1`,
      ),
    )
  })
})

describe('kill -9 of the worker at every step at once', () => {
  it('goes on from a pump, a batch, a listing, an opening and a finalisation within a minute, each item once and the cursor right', async () => {
    const finished = (id: number, runs: number) => async () =>
      (await count(`from integration_logs where operation = 'sync' and integration_id = ${id} and status = 'success'
        and metadata ? 'announced_at'`)) === runs
    // The run that dies in its finalisation has little else to do.
    const finalising = stack.integrationId
    await stack.integrations.syncs.start(finalising)
    await until('the first run has ended', finished(finalising, 1))
    const known = await stack.integrations.get(stack.integrationId)
    const make = async (name: string): Promise<number> => {
      const credentials = known.credentialsArray()
      return (await stack.integrations.create({ provider: 'github', name, credentials, metadata: known.metadata })).id
    }
    // One integration for each line at which the worker dies. What it waits for there is ours.
    const [inHand, items, listing, opening] = [
      await make('inbox'),
      await make('items'),
      await make('listing'),
      await make('opening'),
    ]
    const waitingForLocks = (least: number) =>
      until(`${least} statements wait`, async () => {
        return (await count(`from pg_stat_activity where wait_event_type = 'Lock'`)) >= least
      })

    const row = await holdLocks(
      stack.databaseUrl,
      `select from integrations where id = ${finalising} for no key update`,
    )
    await stack.integrations.syncs.start(finalising)
    await waitingForLocks(1)

    const hosts = await holdLocks(stack.databaseUrl, 'lock table activity, issues in share mode')
    await sendWebhooks({ ...stack, integrationId: inHand }, { limit: 60, fresh: true })
    await stack.integrations.syncs.start(items)
    await until('webhooks and items are in hand', async () => {
      return (
        (await count(`from integration_webhooks where integration_id = ${inHand} and status = 'processing'`)) > 0 &&
        (await count(`from integration_sync_items where integration_id = ${items} and status = 'processing'`)) > 0
      )
    })

    await post(`${stack.sandboxUrl}/_sandbox/faults`, { match: 'GET */issues?*page=2*', delayMs: 60_000 })
    await stack.integrations.syncs.start(listing)
    await until('a page is awaited', async () => {
      const left = (await (await fetch(`${stack.sandboxUrl}/_sandbox/faults`)).json()) as { faults: unknown[] }
      return left.faults.length === 0
    })

    const logs = await holdLocks(stack.databaseUrl, 'lock table integration_logs in share mode')
    const waitingBefore = await count(`from pg_stat_activity where wait_event_type = 'Lock'`)
    await stack.integrations.syncs.start(opening)
    await waitingForLocks(waitingBefore + 1)

    const { back } = await killNine(stack.worker)
    for (const held of [row, hosts, logs]) await held.release()
    await back

    const recovered = async (name: string, rows: string, look: () => Promise<boolean>): Promise<string> => {
      const seconds = await until(`${name} has recovered (${rows})`, look, MINUTE)
      const told = `${name} ${seconds} s`
      console.log(`after the worker was back: ${told}`)
      return told
    }
    const times = await Promise.all([
      recovered('inbox', 'webhooks', async () => {
        return (
          (await count(`from integration_webhooks where integration_id = ${inHand} and status = 'processed'`)) === 60
        )
      }),
      recovered('items', 'run', finished(items, 1)),
      recovered('listing', 'run', finished(listing, 1)),
      recovered('opening', 'run', finished(opening, 1)),
      recovered('finalising', 'run', finished(finalising, 2)),
    ])
    console.log(times.join(', '))
    await expectSettledOnce(await count(`from integration_webhooks`))
    expect(await count(`from integration_sync_items where status <> 'success'`)).toBe(0)
    expect(await count(`from integration_logs where operation = 'sync'`)).toBe(5)
    for (const id of [items, listing, opening]) await expectWholeRun(id)
    const [finalised] = await stack.sql<{ cursor: string; newest: string }[]>`
      select sync_cursor #>> '{}' as cursor,
        (select max(checkpoint_value #>> '{}') from integration_sync_items where integration_id = i.id) as newest
      from integrations i where id = ${finalising}`
    expect(finalised?.cursor).toBe(finalised?.newest)
    expect(await count('from (select distinct number from issues)')).toBe(ISSUES)
  })

  /** Its only run has listed all, each item succeeded once, and the cursor stands at the newest. */
  async function expectWholeRun(id: number): Promise<void> {
    const [newest] = await stack.sql<{ checkpoint: unknown }[]>`
      select max(checkpoint_value #>> '{}') as checkpoint from integration_sync_items where integration_id = ${id}`
    const runs = await stack.sql<{ status: string; metadata: Record<string, unknown> }[]>`
      select status, metadata from integration_logs where operation = 'sync' and integration_id = ${id}`
    expect(runs).toEqual([
      {
        status: 'success',
        metadata: expect.objectContaining({
          listed: ISSUES,
          success_count: ISSUES,
          failure_count: 0,
          cursor_before: null,
          cursor_after: newest?.checkpoint,
        }),
      },
    ])
    expect(await count(`from integration_sync_items where integration_id = ${id} and claim is null`)).toBe(ISSUES)
    const [integration] = await stack.sql`select * from integrations where id = ${id}`
    expect(integration).toMatchObject({ sync_cursor: newest?.checkpoint, consecutive_sync_failures: 0 })
    expect(integration?.last_synced_at).not.toBeNull()
  }
})
