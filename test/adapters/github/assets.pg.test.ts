/** Downloads of the GitHub adapter over real HTTP: from the sandbox, and from servers that send too much or too little. */
import { gzipSync } from 'node:zlib'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { AppCredentials } from '../../../sandbox/github/installation-tokens.ts'
import type { LoggedRequest } from '../../../sandbox/github/request-log.ts'
import type { RunningSandbox } from '../../../sandbox/github/server.ts'
import { SANDBOX_TOKEN, startGithubSandbox } from '../../../sandbox/github/server.ts'
import { downloadAsset } from '../../../src/adapters/github/assets.ts'
import { GitHubClient, GitHubProvider } from '../../../src/adapters/github/index.ts'
import type { Integration } from '../../../src/providers/integration.ts'
import type { TestDatabase } from '../../support/database.ts'
import { createTestDatabase } from '../../support/database.ts'
import type { HttpServer } from '../../support/http-server.ts'
import { startHttpServer } from '../../support/http-server.ts'
import type { TestIntegrations } from '../../support/integrations.ts'
import { testIntegrations } from '../../support/integrations.ts'

const MIB = 1024 * 1024
const ASSET = '/user-attachments/assets/5a0d80c5-0000-4000-8000-000000000010'
const FILE = '/user-attachments/files/1/a.pdf'

let database: TestDatabase
let test: TestIntegrations
let sandbox: RunningSandbox
let server: HttpServer

beforeAll(async () => {
  database = await createTestDatabase()
  test = testIntegrations(database.url, {
    providers: { github: new GitHubProvider() },
    egress: { allow: ['127.0.0.1'] },
  })
  sandbox = await startGithubSandbox()
  server = await startHttpServer()
})

afterEach(() => {
  server.received.length = 0
})

afterAll(async () => {
  await test.close()
  await sandbox.close()
  await server.close()
  await database.drop()
})

let created = 0
function at(baseUrl: string, credentials: Record<string, unknown> = { token: SANDBOX_TOKEN }): Promise<Integration> {
  created += 1
  return test.integrations.create({
    provider: 'github',
    name: `of test ${created}`,
    credentials,
    metadata: { owner: 'octo-sandbox', repo: 'widgets', base_url: baseUrl },
  })
}

async function rowOf({ id }: Integration) {
  const [row] = await test.sql`
    select endpoint, status_code as status, provider_request_id as "requestId", response_data as body,
           failure_class as class
    from integration_requests where integration_id = ${id} order by id desc limit 1`
  return row
}

describe('an upload', () => {
  it('comes by way of the signed address that GitHub answers, to which the token does not go', async () => {
    const integration = await at(sandbox.url)
    const asset = await new GitHubClient(integration).assets.download(sandbox.url + ASSET)
    expect(asset?.contentType).toBe('image/png')
    expect([...(asset?.bytes.subarray(1, 4) ?? [])]).toEqual([...Buffer.from('PNG')])

    const { requests } = (await (await fetch(`${sandbox.url}/_sandbox/requests`)).json()) as {
      requests: LoggedRequest[]
    }
    // The store answers 400 to a token beside the signature.
    expect(requests.map(({ path, status }) => [path.replace(/[^/]+$/, ''), status])).toEqual([
      ['/user-attachments/assets/', 302],
      ['/_store/', 200],
    ])
    expect(await rowOf(integration)).toMatchObject({
      endpoint: sandbox.url + ASSET,
      status: 200,
      requestId: requests[1]?.requestId,
      body: expect.stringMatching(new RegExp(`^\\[binary, ${asset?.bytes.length} bytes, sha256 [0-9a-f]{64}\\]$`)),
    })
  })

  it('comes with the token of an App’s installation, too', async () => {
    const app = (await (await fetch(`${sandbox.url}/_sandbox/app`)).json()) as AppCredentials
    const integration = await at(sandbox.url, { ...app })
    expect(await downloadAsset(integration, sandbox.url + ASSET)).toMatchObject({ contentType: 'image/png' })
  })

  it('that is not there is null', async () => {
    const integration = await at(sandbox.url)
    expect(await downloadAsset(integration, `${sandbox.url}/user-attachments/assets/none`)).toBeNull()
    expect(await rowOf(integration)).toMatchObject({ status: 404, class: 'client' })
  })
})

describe('a body', () => {
  const zeros = (bytes: number) => gzipSync(Buffer.alloc(bytes), { level: 1 })

  it('of 50 MiB is taken, one byte more is refused, counted after it was unpacked', async () => {
    const integration = await at(server.url)
    const send = (bytes: number): void => {
      const body = zeros(bytes)
      server.answer = (_request, response) => void response.setHeader('content-encoding', 'gzip').end(body)
    }
    send(50 * MIB)
    const asset = await downloadAsset(integration, `${server.url}${FILE}`)
    expect(asset?.bytes).toHaveLength(50 * MIB)
    expect((await rowOf(integration))?.body).toMatch(/^\[binary, 52428800 bytes, /)

    send(50 * MIB + 1)
    await expect(downloadAsset(integration, `${server.url}${FILE}`)).rejects.toMatchObject({
      code: 'response_too_large',
      maxBytes: 50 * MIB,
    })
    expect(server.received).toHaveLength(2)
  })

  it('that breaks off is the tracker’s failure, and nothing half is given', async () => {
    const integration = await at(server.url)
    server.answer = (_request, response) => {
      response.writeHead(200, { 'content-length': '1000' }).write('half')
      setImmediate(() => response.destroy())
    }
    await expect(downloadAsset(integration, `${server.url}${FILE}`, { attempts: 1 })).rejects.toThrow(TypeError)
    expect(await rowOf(integration)).toMatchObject({ class: 'upstream', body: null })
  })
})

describe('the port beside the tracker’s', () => {
  it('is not asked: the server at the origin of base_url redirects to another on the same host', async () => {
    const integration = await at(sandbox.url)
    await expect(downloadAsset(integration, `${server.url}${FILE}`)).rejects.toMatchObject({ code: 'egress_refused' })
    const redirecting = await at(server.url)
    server.answer = (_request, response) => void response.writeHead(302, { location: sandbox.url + ASSET }).end()
    await expect(downloadAsset(redirecting, `${server.url}${FILE}`)).rejects.toMatchObject({ code: 'egress_refused' })
    expect(server.received.map(({ headers }) => headers.authorization)).toEqual([`Bearer ${SANDBOX_TOKEN}`])
  })
})
