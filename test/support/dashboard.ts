/** The dashboard of a test, on a database of its own, as browsers see it. */
import type { Hono } from 'hono'
import { createApi } from '../../src/api/app.ts'
import type { IntegrationsOptions } from '../../src/create-integrations.ts'
import { createTestDatabase } from './database.ts'
import type { TestIntegrations } from './integrations.ts'
import { encryptionKey, testIntegrations } from './integrations.ts'
import type { SignedIn } from './operators.ts'
import { BASE_URL, OPERATE_TOKEN, READ_TOKEN, signIn, TOKENS } from './operators.ts'
import { reachableTemporal } from './reachable-temporal.ts'

export interface Dashboard {
  readonly test: TestIntegrations
  readonly api: Hono
  readonly reader: SignedIn
  readonly operator: SignedIn
  /** @param path below the dashboard's root */
  get(path: string, who?: SignedIn): Promise<Response>
  /** Its text; the status must be 200. */
  page(path: string, who?: SignedIn): Promise<string>
  close(): Promise<void>
}

export async function openDashboard({ config, ...options }: IntegrationsOptions): Promise<Dashboard> {
  const database = await createTestDatabase()
  const test = testIntegrations(database.url, {
    encryptionKeys: encryptionKey('shared'),
    baseUrl: BASE_URL,
    ...options,
    config: { ...config, operator: { tokens: [...TOKENS], ...config?.operator } },
  })
  Object.assign(test.framework, { temporal: reachableTemporal() })
  const api = createApi(test.integrations)
  const reader = await signIn(test.integrations, READ_TOKEN)
  const operator = await signIn(test.integrations, OPERATE_TOKEN)
  const get = async (path: string, { cookie }: SignedIn = operator): Promise<Response> =>
    api.request(`/operator${path}`, { headers: { accept: 'text/html', cookie } })
  return {
    test,
    api,
    reader,
    operator,
    get,
    async page(path, who) {
      const answer = await get(path, who)
      const text = await answer.text()
      if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${text}`)
      return text
    },
    async close() {
      await test.close()
      await database.drop()
    },
  }
}
