/** Commands that change an integration, or open it to somebody, write down who asked. */
import { hostname, userInfo } from 'node:os'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { HasOAuth2 } from '../../src/providers/contracts.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { logsOf, makeIntegration } from '../support/rows.ts'
import { runCommand } from './cli/run.ts'

const by = `cli:${userInfo().username}`
const GOOD = 'good-token-of-the-tests'

let database: TestDatabase
let test: TestIntegrations

const consented: HasOAuth2 = {
  authorizationUrl: () => 'https://acme.example/authorize',
  exchangeCode: async () => ({ access_token: 'access' }),
  refreshToken: async () => ({ access_token: 'access' }),
  revokeToken: async () => {},
  refreshThreshold: () => 60,
}
const keyed = {
  label: 'Keyed',
  healthCheck: (integration: { credentialsArray(): Record<string, unknown> }) =>
    integration.credentialsArray().token === GOOD,
}

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, { providers: { consented, keyed }, baseUrl: 'https://api.example.com' })
})

afterAll(async () => {
  await test.close()
  await database.drop()
})

async function run<Document>(...words: (string | number)[]): Promise<Document> {
  const ran = await runCommand(test.integrations, [...words.map(String), '--json'])
  expect(ran.exitCode).toBe(0)
  return ran.json()
}

async function expectNoted(id: number, ...actions: string[]): Promise<void> {
  const logs = await logsOf(test, id, 'operator')
  expect(logs.map(({ metadata }) => metadata)).toEqual(
    actions.map((action) => ({ token: by, action, target: `integration:${id}`, from: hostname() })),
  )
  expect(logs.map(({ summary }) => summary)).toEqual(actions.map((action) => `${action} by ${by}`))
}

describe('written down with who asked is', () => {
  it.each<[words: [string, ...string[]], action: string]>([
    [['enable'], 'enable'],
    [['disable'], 'disable'],
    [['health', 'enable'], 'enable'],
    [['health', 'disable'], 'disable'],
    [['oauth-link'], 'oauth-link connect'],
  ])('%j, as the operator API does it', async ([command, ...rest], action) => {
    const { id } = await makeIntegration(test, 'consented')
    await run(command, id, ...rest)
    await expectNoted(id, action)
  })

  it('no link: whoever reads the row could open it', async () => {
    const { id } = await makeIntegration(test, 'consented')
    const { connect_url: url } = await run<{ connect_url: string }>('oauth-link', id)
    expect(JSON.stringify(await logsOf(test, id, 'operator'))).not.toContain(new URL(url).searchParams.get('signature'))
  })

  it('install, and its update', async () => {
    const words = ['install', 'keyed', '--name', 'Ours', '--credential', `token=${GOOD}`]
    const { id } = await run<{ id: number }>(...words)
    await expectNoted(id, 'create')
    await run(...words, '--force')
    await expectNoted(id, 'create', 'update')
  })

  it('the link that install prints', async () => {
    const { id } = await run<{ id: number }>('install', 'consented', '--name', 'Theirs')
    await expectNoted(id, 'create', 'oauth-link connect')
  })

  it('nothing of what failed', async () => {
    const ran = await runCommand(test.integrations, ['install', 'keyed', '--name', 'Bad', '--credential', 'token=bad'])
    expect(ran.exitCode).toBe(1)
    expect((await runCommand(test.integrations, ['enable', '999999999'])).exitCode).toBe(1)
    const rows = await test.sql`
      select l.id from integration_logs l left join integrations i on i.id = l.integration_id
      where l.operation = 'operator' and (i.id is null or i.name = 'Bad')`
    expect(rows).toEqual([])
  })
})
