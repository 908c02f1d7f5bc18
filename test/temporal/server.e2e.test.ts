import { readFileSync, writeFileSync } from 'node:fs'
import { mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { get } from 'node:http'
import type { Server } from 'node:net'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { Connection } from '@temporalio/client'
import { afterEach, beforeAll, describe, expect, it } from 'vitest'
import { commandLineOf } from '../../dev/processes.ts'
import type { TemporalServer } from '../../dev/temporal-server.ts'
import { findOrStartTemporalServer, startTemporalServer } from '../../dev/temporal-server.ts'
import { findTemporalBinary, presentTemporalBinary } from '../../dev/temporal-server-binary.ts'
import { freePort } from '../../src/bin/free-port.ts'

let binary: string
const cleanups: (() => Promise<unknown>)[] = []

beforeAll(async () => {
  binary = await findTemporalBinary()
}, 600_000)

afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean()
})

function stopLater(server: TemporalServer): TemporalServer {
  cleanups.push(() => server.stop())
  return server
}

async function connect(address: string): Promise<Connection> {
  const connection = await Connection.connect({ address })
  cleanups.push(() => connection.close())
  return connection
}

async function listenSomewhere(): Promise<{ port: number; server: Server }> {
  const server = createServer((socket) => socket.destroy())
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  cleanups.push(() => new Promise((resolve) => server.close(resolve)))
  return { server, port: (server.address() as { port: number }).port }
}

async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'durable-temporal-'))
  cleanups.push(() => rm(folder, { recursive: true, force: true }))
  return folder
}

/** fetch() does not let its caller write the Host. */
async function statusOf(url: string, headers: Record<string, string>): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    get(url, { headers }, (response) => resolve(response.resume().statusCode)).once('error', reject)
  })
}

describe('the Temporal dev server', () => {
  it('answers on the loopback interface with its namespace and search attributes once it is started', async () => {
    const server = stopLater(
      await startTemporalServer({ binary, uiPort: null, namespace: 'own', searchAttributes: { IntegrationId: 'Int' } }),
    )
    expect(server.address).toMatch(/^127\.0\.0\.1:\d+$/)
    expect(server.uiUrl).toBeNull()
    const connection = await connect(server.address)
    const { namespaceInfo } = await connection.workflowService.describeNamespace({ namespace: 'own' })
    expect(namespaceInfo?.name).toBe('own')
    const { customAttributes } = await connection.operatorService.listSearchAttributes({ namespace: 'own' })
    expect(Object.keys(customAttributes)).toContain('IntegrationId')
  })

  it('takes free ports when the preferred ones are taken, and serves its UI', async () => {
    const [frontend, ui] = [await listenSomewhere(), await listenSomewhere()]
    const server = stopLater(await startTemporalServer({ binary, port: frontend.port, uiPort: ui.port }))
    expect(server.address).not.toBe(`127.0.0.1:${frontend.port}`)
    expect(server.uiUrl).not.toBe(`http://127.0.0.1:${ui.port}`)
    expect((await fetch(server.uiUrl as string)).status).toBe(200)
  })

  it('is no server for web pages: its HTTP API is closed, its UI answers to this machine and to its own pages only', async () => {
    const httpPort = await freePort()
    const script = join(await temporaryFolder(), 'temporal')
    await writeFile(script, `#!/bin/sh\nexec '${binary}' "$@" --http-port ${httpPort}\n`, { mode: 0o755 })
    const server = stopLater(await startTemporalServer({ binary: script, port: 0, uiPort: 0 }))

    // As a page sends it: a simple request, which no browser asks leave for. Nexus has routes of its own beside it.
    const body = '{"workflowType":{"name":"any"},"taskQueue":{"name":"nobody-polls-it"}}'
    const workflow = `http://127.0.0.1:${httpPort}/api/v1/namespaces/default/workflows/by-a-page`
    expect((await fetch(workflow, { method: 'POST', body })).status).toBe(403)
    const nexus = `http://127.0.0.1:${httpPort}/namespaces/default/task-queues/any/nexus-services/any/any`
    expect((await fetch(nexus, { method: 'POST', body })).status).toBe(404)

    const ui = server.uiUrl as string
    const namespaces = `${ui}/api/v1/namespaces`
    // The UI asks the server, which is up before it.
    await expect.poll(async () => (await fetch(namespaces)).status, { timeout: 20_000 }).toBe(200)
    expect(await statusOf(namespaces, { host: `attacker.example:${new URL(ui).port}` })).toBe(403)
    expect((await fetch(`${ui}/api/v1/namespaces/default/workflows/x`, { method: 'POST', body })).status).toBe(403)
    // What it guards is not to be found beside it.
    const listensAt = / --ui-ip (\S+) /.exec(commandLineOf(server.pid as number))?.[1]
    expect(listensAt).toMatch(/^127\./)
    if (process.platform === 'linux') expect(listensAt).not.toBe('127.0.0.1')
  })

  it('accepts its dynamic configuration: queues are fair', async () => {
    const lines: string[] = []
    stopLater(await startTemporalServer({ binary: await loudBinary(), uiPort: null, log: (line) => lines.push(line) }))
    await expect.poll(() => lines.some((line) => line.includes('backlog=fairness'))).toBe(true)
    expect(lines.filter((line) => /dynamic ?config.*(unregistered|unknown|invalid|fail)/i.test(line))).toEqual([])
  })

  it('finds its workflows again in the data file, which nobody else may read, also after a kill -9', async () => {
    const dataFile = join(await temporaryFolder(), 'temporal.db')
    const first = stopLater(await startTemporalServer({ binary, uiPort: null, dataFile }))
    const before = await connect(first.address)
    await before.workflowService.startWorkflowExecution({
      namespace: 'default',
      workflowId: 'kept',
      workflowType: { name: 'any' },
      taskQueue: { name: 'nobody-polls-it' },
      requestId: 'one',
    })
    const files = (await readdir(dirname(dataFile))).filter(
      // A journal comes and goes with each transaction.
      (name) => name.startsWith('temporal.db') && !name.endsWith('-journal'),
    )
    for (const name of files) {
      const { mode } = await stat(join(dirname(dataFile), name))
      expect(`${name} ${(mode & 0o777).toString(8)}`).toBe(`${name} 600`)
    }
    process.kill(first.pid as number, 'SIGKILL')
    await first.exited

    const second = stopLater(await startTemporalServer({ binary, uiPort: null, dataFile }))
    const after = await connect(second.address)
    const { workflowExecutionInfo } = await after.workflowService.describeWorkflowExecution({
      namespace: 'default',
      execution: { workflowId: 'kept' },
    })
    expect(workflowExecutionInfo?.type?.name).toBe('any')
  })

  it('starts it again when it panics because a port that it chose for itself is gone', async () => {
    const folder = await temporaryFolder()
    const script = join(folder, 'panicking-once')
    const mark = join(folder, 'panicked')
    const panic = 'panic: failed assigning ephemeral port: failed to assign a free port: dial tcp: connection refused'
    const stack = 'for n in $(seq 100); do echo "at $n" >&2; done'
    const once = `[ -e '${mark}' ] || { touch '${mark}'; echo '${panic}' >&2; ${stack}; exit 2; }`
    await writeFile(script, `#!/bin/sh\n${once}\nexec '${binary}' "$@"\n`, { mode: 0o755 })
    stopLater(await startTemporalServer({ binary: script, uiPort: null }))
  })

  it('says what the binary said when it does not come up', async () => {
    const searchAttributes = { IntegrationId: 'Nonsense' }
    await expect(startTemporalServer({ binary, uiPort: null, searchAttributes })).rejects.toMatchObject({
      code: 'backend_unreachable',
      message: expect.stringContaining('invalid search attribute value type'),
    })
  })

  async function loudBinary(): Promise<string> {
    const script = join(await temporaryFolder(), 'temporal')
    await writeFile(script, `#!/bin/sh\nexec '${binary}' "$@" --log-level info\n`, { mode: 0o755 })
    return script
  }
})

describe('finding a Temporal server', () => {
  it('starts nothing when TEMPORAL_ADDRESS answers', async () => {
    const { port } = await listenSomewhere()
    const found = await findOrStartTemporalServer({ env: { TEMPORAL_ADDRESS: `127.0.0.1:${port}` } })
    expect(found).toMatchObject({ address: `127.0.0.1:${port}`, pid: null, uiUrl: null })
  })

  it('starts nothing when TEMPORAL_ADDRESS does not answer: it names the address and the remedy', async () => {
    const { server, port } = await listenSomewhere()
    await new Promise((resolve) => server.close(resolve))
    await expect(findOrStartTemporalServer({ env: { TEMPORAL_ADDRESS: `127.0.0.1:${port}` } })).rejects.toMatchObject({
      code: 'backend_unreachable',
      message: expect.stringContaining('TEMPORAL_ADDRESS'),
    })
  })

  it('passes over a binary whose server is older than fair queues, or that is another program', async () => {
    const [old, other] = [await temporaryFolder(), await temporaryFolder()]
    const version = 'temporal version 1.2.0 (Server 1.26.2, UI 2.34.0)'
    await writeFile(join(old, 'temporal'), `#!/bin/sh\necho '${version}'\n`, { mode: 0o755 })
    await writeFile(join(other, 'temporal'), '#!/bin/sh\necho hello\n', { mode: 0o755 })
    const lines: string[] = []
    const env = { PATH: `${old}:${other}`, XDG_CACHE_HOME: await temporaryFolder() }
    expect(await presentTemporalBinary({ env, log: (line) => lines.push(line) })).toBeNull()
    expect(lines).toEqual([
      expect.stringContaining('server 1.26, older than 1.29'),
      expect.stringContaining('is not a Temporal CLI'),
    ])
  })

  it('says what to install when there is none and none can be fetched', async () => {
    // An address that no one answers stands for a machine without a way out.
    const env = {
      PATH: await temporaryFolder(),
      XDG_CACHE_HOME: await temporaryFolder(),
      HTTPS_PROXY: 'http://127.0.0.1:9',
    }
    const lines: string[] = []
    const failure = await findTemporalBinary({ env, log: (line) => lines.push(line) }).catch((error: Error) => error)
    expect(failure).toBeInstanceOf(Error)
    expect((failure as Error).message).toMatch(
      /^There is no Temporal server .*install .*Go 1\.21.*TEMPORAL_ADDRESS[^.]*\.$/,
    )
    // One sentence.
    expect((failure as Error).message).not.toMatch(/[.!?] |\n/)
    expect(lines.at(-1)).toMatch(/^the Temporal server was not downloaded: .*temporal\.download/s)
  })

  it('lets Go fetch a newer Go, and keep what it fetches where a user without a home may write', async () => {
    const [path, cache] = [await temporaryFolder(), await temporaryFolder()]
    const script = `#!/bin/sh
      if [ "$1" = version ]; then echo go version go1.21.0 test/test; exit; fi
      if [ "$1" = env ]; then exit 1; fi
      echo "$GOTOOLCHAIN $GOPATH $GOCACHE" > ${path}/said
      echo '#!/bin/sh' > "$GOBIN/temporal"
    `
    await writeFile(join(path, 'go'), script, { mode: 0o755 })
    const env = { PATH: path, XDG_CACHE_HOME: cache, HTTPS_PROXY: 'http://127.0.0.1:9', GOTOOLCHAIN: 'local' }
    await findTemporalBinary({ env })
    const kept = join(cache, 'durable-integrations')
    expect(readFileSync(join(path, 'said'), 'utf8')).toBe(`auto ${kept}/go ${kept}/go-build\n`)
  })

  it('says how long a build takes, and how far it is', async () => {
    const [path, cache] = [await temporaryFolder(), await temporaryFolder()]
    // In place of three minutes of a compiler: it ends when the test has seen how far it is.
    const script = `#!/bin/sh
      if [ "$1" = version ]; then echo go version go1.99 test/test; exit; fi
      if [ "$1" = env ]; then exit 1; fi
      echo go: downloading example.com/module v1.0.0 >&2
      echo example.com/one >&2; echo example.com/two >&2
      until [ -e ${path}/seen ]; do /bin/sleep 0.05; done
      echo '#!/bin/sh' > "$GOBIN/temporal"
    `
    await writeFile(join(path, 'go'), script, { mode: 0o755 })
    const lines: string[] = []
    const env = { PATH: path, XDG_CACHE_HOME: cache, HTTPS_PROXY: 'http://127.0.0.1:9' }
    const log = (line: string): void => {
      lines.push(line)
      if (line.includes(' 2 of up to ')) writeFileSync(join(path, 'seen'), '')
    }
    expect(await findTemporalBinary({ env, log, progressMs: 20 })).toMatch(cache)
    expect(lines).toContain(
      'building the Temporal server by go version go1.99 test/test, once: it takes 3 minutes on two cores',
    )
    expect(lines.at(-1)).toMatch(/^built the Temporal server in \d+ s; .* 3 GB .*`go clean -cache -modcache`/)
  })

  it.each(['README.md', 'docs/trying-it.md', 'docs/decisions/0006-embedded-servers.md'])(
    'takes to build what %s says',
    (page) => {
      expect(readFileSync(new URL(`../../${page}`, import.meta.url), 'utf8')).toMatch(/some\s+three\s+minutes/)
    },
  )

  it('says why a build failed', async () => {
    const path = await temporaryFolder()
    const script = `#!/bin/sh
      if [ "$1" = version ]; then echo go version go1.99 test/test; exit; fi
      echo example.com/one >&2; echo 'go: example.com/two: no space left on device' >&2; exit 1
    `
    await writeFile(join(path, 'go'), script, { mode: 0o755 })
    const env = { PATH: path, XDG_CACHE_HOME: await temporaryFolder(), HTTPS_PROXY: 'http://127.0.0.1:9' }
    await expect(findTemporalBinary({ env })).rejects.toThrow(
      /could not be built: go install .*: go: example.com\/two: no space left on device\. Install the Temporal CLI/,
    )
  })
})
