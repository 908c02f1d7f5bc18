/**
 * schemathesis (https://schemathesis.readthedocs.io) against the operator API as it is served, with and without a token: every operation of
 * the OpenAPI document, stateful. SCHEMATHESIS_SECONDS of each; default 300. It is installed from PyPI into the repository's cache.
 */
import { execFile, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { serve } from '@hono/node-server'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createApi } from '../../src/api/app.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { testIntegrations } from '../support/integrations.ts'
import { OPERATE_TOKEN, TOKENS } from '../support/operators.ts'
import { syncProvider, webhookProvider } from '../support/providers.ts'
import { makeIncident, makeIntegration, makeItem, makeRun, makeWebhook } from '../support/rows.ts'

const VERSION = '4.32.5'
const CACHE = fileURLToPath(new URL('../../node_modules/.cache/durable-integrations/schemathesis', import.meta.url))
const PROGRAM = `${CACHE}/bin/schemathesis`
const SECONDS = Number(process.env.SCHEMATHESIS_SECONDS ?? '300')

let database: TestDatabase
let test: TestIntegrations
let server: ReturnType<typeof serve>
let url: string

beforeAll(async () => {
  const run = promisify(execFile)
  if (!existsSync(PROGRAM)) {
    await run('python3', ['-m', 'venv', CACHE])
    await run(`${CACHE}/bin/pip`, ['install', '--quiet', `schemathesis==${VERSION}`])
  }
  database = await createTestDatabase()
  test = testIntegrations(database.url, {
    providers: { acme: webhookProvider(), listed: syncProvider(() => {}) },
    temporal: { address: '127.0.0.1:1' },
    config: { operator: { tokens: TOKENS } },
  })
  for (const provider of ['acme', 'listed'])
    for (let n = 0; n < 5; n += 1) {
      const { id } = await makeIntegration(test, provider, { owner: { type: 'team', id: 7 } })
      const sync = await makeRun(test, id, { status: 'success' })
      await makeItem(test, sync, { status: 'failed' })
      await makeWebhook(test, id, { status: 'failed', processedAt: new Date() })
      await makeIncident(test, id)
    }
  await new Promise<void>((resolve) => {
    server = serve({ fetch: createApi(test.integrations).fetch, hostname: '127.0.0.1', port: 0 }, () => resolve())
  })
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/operator/api/v1`
}, 600_000)

afterAll(async () => {
  server?.close()
  await test?.close()
  await database?.drop()
})

it.each<[string, readonly string[]]>([
  ['with a token', ['--header', `Authorization: Bearer ${OPERATE_TOKEN}`]],
  ['without one', []],
])(
  'answers as it is described, and never with a fault of its own, %s',
  async (_, headers) => {
    const schema = `${CACHE}/openapi.json`
    const config = `${CACHE}/schemathesis.toml`
    // Temporal is not here, and 503 says so.
    await writeFile(config, '[checks.not_a_server_error]\nexpected-statuses = ["2xx", "3xx", "4xx", "503"]\n')
    const asked = await fetch(`${url}/openapi.json`, { headers: { authorization: `Bearer ${OPERATE_TOKEN}` } })
    await writeFile(schema, await asked.text())
    const { code, said } = await schemathesis([
      ...['--config-file', config, 'run', schema, '--url', url, '--continue-on-failure', '--no-color', '--seed', '22'],
      ...['--max-time', String(SECONDS), ...headers],
      ...[
        '--checks',
        'not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance',
      ],
    ])
    expect(code, said.slice(-20_000)).toBe(0)
  },
  (SECONDS + 120) * 1_000,
)

async function schemathesis(words: readonly string[]): Promise<{ code: number | null; said: string }> {
  // It keeps what it found where it runs.
  const child = spawn(PROGRAM, words, { cwd: CACHE, stdio: ['ignore', 'pipe', 'pipe'] })
  let said = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (said += chunk.toString()))
  return new Promise((resolve) => child.on('close', (code) => resolve({ code, said })))
}
