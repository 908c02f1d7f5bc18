/** A long command whose workflow is cancelled, or whose worker stops: it ends with its activity, and the same command goes on. */
import { once } from 'node:events'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { commandActivities } from '../../src/activities/command-activities.ts'
import type { CommandRunner } from '../../src/commands/command-jobs.ts'
import { COMMAND_EXIT } from '../../src/commands/command-jobs.ts'
import { runActivity } from '../support/activities.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import { countRows, makeFullIntegration } from '../support/full-integration.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { webhookProvider } from '../support/providers.ts'
import { SOON } from '../support/soon.ts'

let database: TestDatabase
let test: TestIntegrations

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, { providers: { plain: webhookProvider() } })
})

afterAll(async () => {
  await test?.close()
  await database?.drop()
})

const INTERRUPTED = {
  exitCode: COMMAND_EXIT.interrupted,
  document: { error: { code: 'interrupted', message: 'Interrupted.' } },
  notes: [],
}

/** As the program has it when a command's time is over: the work goes on behind its answer. */
function givenUpWhenCancelled(begin: () => Promise<unknown>) {
  let work: Promise<unknown> = Promise.resolve()
  const runner: CommandRunner = async ({ signal }) => {
    work = begin()
    work.catch(() => {})
    await once(signal, 'abort')
    return INTERRUPTED
  }
  return { runner, end: () => work }
}

/** Holds a table until it is released: whoever writes to it waits. */
async function hold(table: string) {
  const sql = postgres(database.url, { max: 1, onnotice: () => {} })
  const held = await sql.reserve()
  await held`begin`
  await held`lock table ${held(table)} in access exclusive mode`
  return {
    isWaitedFor: async (): Promise<boolean> => {
      // Clones of one template have the same oids, and pg_locks tells of all databases.
      const [row] = await test.sql`
        select count(*)::int as n from pg_locks where not granted and relation = ${table}::regclass
          and database = (select oid from pg_database where datname = current_database())`
      return row?.n > 0
    },
    async release() {
      await held`rollback`
      held.release()
      await sql.end()
    },
  }
}

describe('a command that is given up', () => {
  it.each([
    ['delete', (id: number) => test.integrations.delete(id)],
    ['erase', (id: number) => test.integrations.admin.erase(id)],
  ] as const)('%s: stops between two of its statements, and the same command goes on', async (command, begin) => {
    const { integration } = await makeFullIntegration(test)
    const { id } = integration
    // Both take the requests before the logs.
    const table = await hold('integration_requests')
    let cancel = (): void => {}
    const { runner, end } = givenUpWhenCancelled(() => begin(id))
    const activity = runActivity(
      commandActivities(runner).runCommand,
      { command, input: { id, yes: true }, workflowId: `${command}:${id}` },
      { onStart: (stop) => (cancel = stop) },
    )
    const ended = expect(activity).rejects.toMatchObject({ name: 'CancelledFailure' })
    try {
      await expect.poll(table.isWaitedFor, SOON).toBe(true)
      cancel()
      await ended
    } finally {
      await table.release()
    }
    await expect(end()).rejects.toMatchObject({ name: 'CancelledFailure' })

    // The statement that was under way is done; what comes behind it is as it was.
    const left = await countRows(test, id)
    expect(left.logs).toBe(5)
    expect(await test.integrations.get(id)).toMatchObject({ isActive: false })
    expect(await erasedLogs(id)).toBe(0)

    await begin(id)
    if (command === 'delete') expect(await test.integrations.find(id)).toBeNull()
    else expect(await erasedLogs(id)).toBeGreaterThan(0)
  })

  it('is not broken off where nobody gave it up', async () => {
    const { integration } = await makeFullIntegration(test)
    const { id } = integration
    const runner: CommandRunner = async () => ({
      exitCode: COMMAND_EXIT.done,
      document: await test.integrations.delete(id),
      notes: [],
    })
    const input = { command: 'delete', input: { id }, workflowId: `delete:${id}` }
    expect(await runActivity(commandActivities(runner).runCommand, input)).toMatchObject({ document: { logs: 5 } })
  })
})

async function erasedLogs(id: number): Promise<number> {
  const [row] = await test.sql`
    select count(*)::int as n from integration_logs where integration_id = ${id} and operation = 'erase'`
  return row?.n ?? 0
}
