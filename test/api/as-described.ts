/**
 * The operator API as it is served against its own OpenAPI document: Spectral reads the document, with the rules of OWASP;
 * schemathesis calls each operation, one after the other, with and without a token. `.spectral.yaml` names each rule that is off.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { serve } from '@hono/node-server'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createApi } from '../../src/api/app.ts'
import { BackendUnreachable } from '../../src/framework/errors.ts'
import type { HasOAuth2 } from '../../src/provider.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import { makeFullIntegration } from '../support/full-integration.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { OPERATE_TOKEN, TOKENS } from '../support/operators.ts'
import { syncProvider, webhookProvider } from '../support/providers.ts'
import { makeIncident, makeIntegration, makeItem, makeRun, makeWebhook } from '../support/rows.ts'
import { schemathesis } from '../support/schemathesis.ts'
import { brokenRules } from './spectral.ts'

// Temporal is not here, and 503 says so.
const CONFIG = '[checks.not_a_server_error]\nexpected-statuses = ["2xx", "3xx", "4xx", "503"]\n'
const CHECKS = [
  'not_a_server_error',
  'status_code_conformance',
  'content_type_conformance',
  'response_schema_conformance',
]
const OAUTH: HasOAuth2 = {
  authorizationUrl: (_, redirectUri, state) =>
    `https://example.com/authorize?${new URLSearchParams({ redirectUri, state })}`,
  exchangeCode: async () => ({ access_token: 'a' }),
  refreshToken: async () => ({ access_token: 'b' }),
  revokeToken: async () => {},
  refreshThreshold: () => 60,
}
/** A machine that is busy needs longer until each operation has been called: twice the time, and twice again. */
const MOST_TRIES = 3
const AUTHORIZATION = `Authorization: Bearer ${OPERATE_TOKEN}`

/** What is only started is recorded; whatever waits for a worker finds no Temporal. */
const away = async (): Promise<never> => {
  throw new BackendUnreachable('Temporal', '127.0.0.1:1', { remedy: 'It is not here.' })
}

/** @param seconds of calls: most with a token, since without one each answer is the same */
export function isServedAsDescribed({ seconds }: { seconds: number }): void {
  let database: TestDatabase
  let test: TestIntegrations
  let server: ReturnType<typeof serve>
  let folder: string
  let url: string
  let document: string
  /** How many it has. */
  let operations: string

  beforeAll(async () => {
    database = await createTestDatabase()
    test = testIntegrations(database.url, {
      providers: { acme: webhookProvider(), listed: syncProvider(() => {}), plain: {}, oauth: OAUTH },
      baseUrl: 'http://127.0.0.1',
      config: { operator: { tokens: TOKENS } },
    })
    const { workflows } = test.framework
    Object.assign(workflows, { runTokenRefresh: away, runReconciliation: away, runProcessWebhook: away })
    for (const provider of ['acme', 'listed', 'oauth'])
      for (let n = 0; n < 5; n += 1) {
        const { id } = await makeIntegration(test, provider, { owner: { type: 'team', id: 7 } })
        const sync = await makeRun(test, id, { status: 'success' })
        await makeItem(test, sync, { status: 'failed' })
        await makeWebhook(test, id, { status: 'failed', processedAt: new Date() })
        await makeIncident(test, id)
      }
    for (let n = 0; n < 3; n += 1) await makeFullIntegration(test)
    await new Promise<void>((resolve) => {
      server = serve({ fetch: createApi(test.integrations).fetch, hostname: '127.0.0.1', port: 0 }, () => resolve())
    })
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/operator/api/v1`
    folder = await mkdtemp(join(tmpdir(), 'durable-integrations-openapi-'))
    document = await (
      await fetch(`${url}/openapi.json`, { headers: { authorization: `Bearer ${OPERATE_TOKEN}` } })
    ).text()
    const { paths } = JSON.parse(document) as { paths: Record<string, Record<string, { operationId?: string }>> }
    operations = String(
      Object.values(paths).flatMap((path) => Object.values(path).filter(({ operationId }) => operationId)).length,
    )
    await writeFile(join(folder, 'openapi.json'), document)
    await writeFile(join(folder, 'schemathesis.toml'), CONFIG)
  })

  afterAll(async () => {
    server?.close()
    await test?.close()
    await database?.drop()
    await rm(folder, { recursive: true, force: true })
  })

  it("describes itself by Spectral's rules and those of OWASP, but for those that are off", async () => {
    expect(await brokenRules(JSON.parse(document) as Record<string, unknown>)).toEqual([])
  })

  it.each([
    ['with a token', 0.75, ['--header', AUTHORIZATION]],
    ['without one', 0.25, []],
  ] as const)(
    'answers as it is described, and never with a fault of its own, %s',
    async (_, share, headers) => {
      const options = ['--continue-on-failure', '--no-color', '--seed', '22', '--checks', CHECKS.join()]
      const args = [
        ...['--config-file', join(folder, 'schemathesis.toml'), 'run', join(folder, 'openapi.json'), '--url', url],
        ...[...options, ...headers],
      ]
      let tested = {}
      for (let tries = 0; tries < MOST_TRIES; tries += 1) {
        const { code, output } = await schemathesis(args, Math.round(seconds * share * 2 ** tries))
        expect(code, output.slice(-20_000)).toBe(0)
        const [, all] = /Selected: (\d+)\/\1$/m.exec(output) ?? []
        const [, called] = /Tested: (\d+)$/m.exec(output) ?? []
        tested = { all, called }
        if (called === all) break
      }
      expect(tested).toEqual({ all: operations, called: operations })
    },
    (seconds * 2 ** MOST_TRIES + 180) * 1_000,
  )
}
