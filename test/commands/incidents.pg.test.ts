/** incidents on real rows. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { webhookProvider } from '../support/providers.ts'
import { makeIncident, makeIntegration } from '../support/rows.ts'
import type { Ran } from './cli/run.ts'
import { runCommand } from './cli/run.ts'

const AT = new Date('2031-06-01T12:00:00.000Z')
const BEFORE = new Date('2031-06-01T11:59:59.999Z')
const NEVER = 999_999_999

let database: TestDatabase
let test: TestIntegrations
let id: number

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, { providers: { acme: webhookProvider() } })
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

beforeEach(async () => {
  await test.sql`delete from integrations`
  id = (await makeIntegration(test, 'acme', { name: 'ours \u001b[31mred', owner: { type: 'team', id: 7 } })).id
})

const run = (...words: (string | number)[]): Promise<Ran> => runCommand(test.integrations, words.map(String))
const idsOf = (ran: Ran): number[] => (ran.json() as { id: number }[]).map((row) => row.id)
const errorOf = (ran: Ran): { code: string; message: string } => (ran.json() as { error: never }).error
const closed = { status: 'closed', closedAt: AT } as const

describe('the list', () => {
  it('has a row for each, the newest first, and warns when there are more', async () => {
    const older = await makeIncident(test, id, { ...closed, openedAt: BEFORE, lastErrorAt: BEFORE })
    const newer = await makeIncident(test, id, { source: 'circuit', reason: 'threshold_reached', openedAt: AT })
    const all = await run('incidents', '--json')
    expect(all).toMatchObject({ exitCode: 0, err: '' })
    expect(idsOf(all)).toEqual([newer.id, older.id])
    const first = await run('incidents', '--limit', 1, '--json')
    expect(first.err).toBe(`There are more than 1; --limit shows more, --after ${newer.id} the next ones.\n`)
    expect(idsOf(first)).toEqual([newer.id])
    expect((await run('incidents', '--after', newer.id, '--json')).json()).toEqual([
      {
        id: older.id,
        integration_id: id,
        provider: 'acme',
        integration_name: 'ours \u001b[31mred',
        status: 'closed',
        source: 'health',
        reason: 'health_degraded',
        peak_severity: 'degraded',
        opened_at: BEFORE.toISOString(),
        last_error_at: BEFORE.toISOString(),
        closed_at: AT.toISOString(),
        acknowledged_at: null,
        acknowledged_by: null,
        snoozed_until: null,
        snoozed_by: null,
        annotations: [],
      },
    ])
  })

  it('is a table without control characters otherwise', async () => {
    const { id: incident } = await makeIncident(test, id, { openedAt: AT })
    const { out } = await run('incidents')
    const [head, row] = out.split('\n')
    expect(head).toMatch(/^ *ID +Integration +Name +Provider +Status +Peak +Source +Reason +Opened +Closed$/)
    expect(row?.trim().split(/ {2,}/)).toEqual([
      String(incident),
      String(id),
      'ours [31mred',
      'acme',
      'open',
      'degraded',
      'health',
      'health_degraded',
      AT.toISOString(),
      '-',
    ])
  })

  it.each<[readonly string[], readonly number[]]>([
    [['--status', 'open'], [1]],
    [['--source', 'circuit'], [0]],
    [['--since', '2031-06-01T12:00:00Z'], [1]],
    [['--until', '2031-06-01T14:00:00+02:00'], [0]],
    [
      ['--owner', 'team:7'],
      [1, 0],
    ],
    [['--owner', 'team:8'], []],
  ])('%j', async (filter, expected) => {
    const rows = [
      await makeIncident(test, id, { ...closed, source: 'circuit', openedAt: BEFORE }),
      await makeIncident(test, id, { openedAt: AT }),
    ]
    expect(idsOf(await run('incidents', ...filter, '--json'))).toEqual(expected.map((index) => rows[index]?.id))
  })

  it('of an integration says that there are none, and that there is no such integration', async () => {
    await makeIncident(test, (await makeIntegration(test, 'acme')).id)
    expect(await run('incidents', '--integration', id)).toMatchObject({ exitCode: 0, out: 'No incidents.\n' })
    const ran = await run('incidents', '--integration', NEVER, '--json')
    expect([ran.exitCode, errorOf(ran).code]).toEqual([1, 'integration_not_found'])
  })
})

describe('one incident', () => {
  it('is shown field by field', async () => {
    const { id: incident } = await makeIncident(test, id, { openedAt: AT })
    expect((await run('incidents', incident, '--json')).json()).toMatchObject({ id: incident, status: 'open' })
    const { out } = await run('incidents', incident)
    expect(out).toMatch(/^peak_severity +degraded$/m)
    expect(out).toMatch(/^closed_at +-$/m)
  })

  it('that is not there ends with 1', async () => {
    const ran = await run('incidents', NEVER, '--json')
    expect([ran.exitCode, errorOf(ran).code]).toEqual([1, 'incident_not_found'])
  })

  it('goes without options that choose', async () => {
    const ran = await run('incidents', 1, '--status', 'open', '--json')
    expect([ran.exitCode, errorOf(ran)]).toMatchObject([
      1,
      { code: 'usage', message: 'Give an id or options that choose, not both: 1 and --status were given.' },
    ])
  })
})
