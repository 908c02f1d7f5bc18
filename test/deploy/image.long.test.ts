/**
 * The image and docker-compose.yml without a container engine: the Dockerfile's own steps in a clean folder, then the commands of
 * docker-compose.yml, with its environment, as a user who may write nothing there, against Postgres and the Temporal server of the
 * versions that it names. What is replaced is what an engine gives: addresses, ports and the places of mounted files.
 */
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { chmodSync, chownSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Sql } from 'postgres'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { LocalPostgres } from '../../dev/postgres.ts'
import { startLocalPostgres } from '../../dev/postgres.ts'
import { startGithubSandbox } from '../../sandbox/github/server.ts'
import type { BuiltImage } from '../../scripts/image/build.ts'
import { buildByHand } from '../../scripts/image/build.ts'
import { steadyPort } from '../chaos/chaos-stack.ts'
import { until } from '../e2e/own-stack.ts'
import type { ComposeFile } from './compose-file.ts'
import { graceSecondsOf, resolveCompose, serviceOf } from './compose-file.ts'
import type { DeployedProcess, Deployment } from './deployed-process.ts'
import { innermost, runDeployed, startDeployed } from './deployed-process.ts'
import { connectSandbox, sendWebhookThrough } from './host-at-work.ts'
import { temporalImages } from './temporal-images.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
/** `node` in the images of Node: https://github.com/nodejs/docker-node/blob/main/docs/BestPractices.md#non-root-user */
const NODE_USER = 1000
const IS_ROOT = process.getuid?.() === 0
const CONTAINER_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/** As a container runs it: the first process of its own, another user, no way to more rights. A user who is not root stays himself. */
const AS_IN_CONTAINER = IS_ROOT
  ? [
      'unshare',
      '--pid',
      '--fork',
      '--kill-child',
      'setpriv',
      `--reuid=${NODE_USER}`,
      `--regid=${NODE_USER}`,
      '--clear-groups',
      '--no-new-privs',
      '--bounding-set=-all',
      '--inh-caps=-all',
    ]
  : []

let folder: string
let image: BuiltImage
let compose: ComposeFile
let database: LocalPostgres
let sql: Sql
let replaced: [string, string][]
const encryptionKeys = `k1:${randomBytes(32).toString('base64')}`
const started: DeployedProcess[] = []
const ends: (() => Promise<unknown>)[] = []

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'image-'))
  chmodSync(folder, 0o755)
  compose = await resolveCompose(readFileSync(join(ROOT, '.env.example'), 'utf8'))
  const built = join(folder, 'image')
  mkdirSync(built)
  image = await buildByHand(ROOT, built, (line) => console.log(line))

  const data = join(folder, 'postgres')
  mkdirSync(data, { mode: 0o711 })
  // Of `postgres -c max_connections=400`.
  const settings = (serviceOf(compose, 'postgres').command ?? []).filter((word) => word.includes('='))
  database = await startLocalPostgres({
    dataFolder: data,
    preferredPort: 0,
    database: 'integrations',
    settings: Object.fromEntries(settings.map((word) => word.split('='))),
  })
  ends.push(() => database.stop())
  sql = postgres(database.url, { max: 2, fetch_types: false, onnotice: () => {} })
  ends.push(() => sql.end({ timeout: 5 }))
  // As the image of Postgres makes it.
  const { POSTGRES_USER = '', POSTGRES_PASSWORD = '' } = serviceOf(compose, 'postgres').environment
  await sql.unsafe(`create role ${POSTGRES_USER} superuser login password '${POSTGRES_PASSWORD}'`)
  await sql.unsafe('grant all on schema public to public')

  const keyFile = join(folder, 'encryption-keys')
  writeFileSync(keyFile, encryptionKeys, { mode: 0o400 })
  if (IS_ROOT) chownSync(keyFile, NODE_USER, NODE_USER)
  replaced = [
    ['postgres:5432', `127.0.0.1:${database.port}`],
    ['temporal:7233', `127.0.0.1:${await ownPort()}`],
    ['127.0.0.1:3000', `127.0.0.1:${await ownPort()}`],
    ['127.0.0.1:9464', `127.0.0.1:${await ownPort()}`],
    ['/run/secrets/encryption-keys', keyFile],
  ]
}, 1_500_000)
afterAll(async () => {
  for (const one of started) await one.kill()
  for (let end = ends.pop(); end !== undefined; end = ends.pop()) await end()
  await rm(folder, { recursive: true, force: true })
})

/** Taken by nobody else of this test: most of them are used later. Of 15 bits, as Temporal's tables keep them. */
const taken = new Set<number>()
async function ownPort(): Promise<number> {
  for (;;) {
    const port = await steadyPort()
    if (taken.has(port)) continue
    taken.add(port)
    return port
  }
}

const placeOf = (text: string): string => replaced.reduce((whole, [from, to]) => whole.replaceAll(from, to), text)
const portOf = (name: string): string => placeOf(name).split(':')[1] ?? ''

/** How docker-compose.yml runs a service of ours. */
function deploymentOf(name: string): Deployment {
  const given = Object.entries(serviceOf(compose, name).environment).map(([key, value]) => [key, placeOf(value ?? '')])
  return {
    cwd: image.workingFolder,
    env: {
      ...image.environment,
      ...Object.fromEntries(given),
      HOST: '127.0.0.1',
      PORT: portOf('127.0.0.1:3000'),
      INTEGRATIONS__METRICS__PORT: portOf('127.0.0.1:9464'),
      // Nothing may be written but to /tmp.
      HOME: '/nonexistent',
    },
    prefix: AS_IN_CONTAINER,
  }
}

const commandOf = (name: string): string[] =>
  (serviceOf(compose, name).command ?? []).map((word) =>
    word.replaceAll('file:///app/', `file://${image.workingFolder}/`),
  )

function start(command: readonly string[], deployment: Deployment): DeployedProcess {
  const one = startDeployed(command, deployment)
  started.push(one)
  return one
}

/** As `nc -z` finds out. */
async function isOpen(address: string): Promise<boolean> {
  const [host, port] = address.split(':')
  const socket = connect(Number(port), host)
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}

/** As an engine runs it inside the container. */
async function isHealthy(
  name: string,
  command: readonly string[] = serviceOf(compose, name).healthcheck?.test.slice(1) ?? [],
): Promise<boolean> {
  const check = startDeployed(command.map(placeOf), deploymentOf(name))
  return (await check.exited) === 0
}

describe('the image', () => {
  it('runs as a user who owns nothing in it', () => {
    expect(image.user).toBe('node')
    expect(image.exposes).toEqual([3000])
  })

  it('has the command line on its PATH', async () => {
    const said = await runDeployed(['integrations', '--version'], { ...deploymentOf('api'), prefix: [] })
    expect(said).toContain(JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')).version)
  })
})

describe('docker-compose.yml', () => {
  it("makes Temporal's databases, also when they are there already", async () => {
    const { programs, schemas } = await temporalImages(serviceOf(compose, 'temporal-schema').image)
    const { entrypoint, command, environment } = serviceOf(compose, 'temporal-schema')
    const deployment = {
      cwd: folder,
      env: {
        ...Object.fromEntries(Object.entries(environment).map(([key, value]) => [key, value ?? ''])),
        PATH: `${programs}:${CONTAINER_PATH}`,
        SQL_HOST: '127.0.0.1',
        SQL_PORT: String(database.port),
      },
    }
    const words = [
      ...(entrypoint ?? []),
      ...(command ?? []).map((word) => word.replaceAll('/etc/temporal/schema', schemas)),
    ]
    await runDeployed(words, deployment)
    await runDeployed(words, deployment)
  })

  it('starts Temporal with fairness on, and makes the namespace', async () => {
    const { programs } = await temporalImages(serviceOf(compose, 'temporal').image)
    const dynamic = join(folder, 'dynamic.yaml')
    writeFileSync(dynamic, compose.configs['temporal-dynamic-config']?.content ?? '')
    const { environment } = serviceOf(compose, 'temporal')
    const others = await Promise.all(Array.from({ length: 9 }, () => ownPort()))
    const names = [
      'FRONTEND_HTTP_PORT',
      'FRONTEND_MEMBERSHIP_PORT',
      'MATCHING_GRPC_PORT',
      'MATCHING_MEMBERSHIP_PORT',
      'HISTORY_GRPC_PORT',
      'HISTORY_MEMBERSHIP_PORT',
      'WORKER_GRPC_PORT',
      'WORKER_MEMBERSHIP_PORT',
      'INTERNAL_FRONTEND_GRPC_PORT',
    ]
    const server = start([join(programs, 'temporal-server'), 'start'], {
      cwd: folder,
      env: {
        ...Object.fromEntries(Object.entries(environment).map(([key, value]) => [key, value ?? ''])),
        ...Object.fromEntries(names.map((name, at) => [name, String(others[at])])),
        POSTGRES_SEEDS: '127.0.0.1',
        DB_PORT: String(database.port),
        BIND_ON_IP: '127.0.0.1',
        FRONTEND_GRPC_PORT: portOf('temporal:7233'),
        DYNAMIC_CONFIG_FILE_PATH: dynamic,
        PATH: CONTAINER_PATH,
      },
    })
    const namespace = serviceOf(compose, 'temporal-namespace')
    const deployment = {
      cwd: folder,
      env: {
        PATH: `${programs}:${CONTAINER_PATH}`,
        HOME: '/tmp',
        TEMPORAL_NAMESPACE: 'default',
        TEMPORAL_ADDRESS: placeOf('temporal:7233'),
      },
    }
    const words = [...(namespace.entrypoint ?? []), ...(namespace.command ?? [])]
    // The check of docker-compose.yml asks no more of the server than that its port is open. The step itself waits for the rest.
    await Promise.race([
      until('Temporal has opened its port', () => isOpen(placeOf('temporal:7233')), 120),
      server.exited.then((code) => {
        throw new Error(`temporal-server ended with ${code}:\n${server.lines.slice(-20).join('\n')}`)
      }),
    ])
    await runDeployed(words, deployment)
    await runDeployed(words, deployment)
    // It keeps keys in lower case, and warns of those it does not know: client_diff.go and yaml_loader.go of common/dynamicconfig.
    for (const key of ['matching.usenewmatcher', 'matching.enablefairness'])
      expect(await server.said(`dynamic config changed for the key: ${key} `)).toContain('value: true')
    expect(server.lines.filter((line) => /unregistered key/i.test(line))).toEqual([])
  })

  it('makes the tables, and is healthy with API and worker', async () => {
    await runDeployed(commandOf('migrate'), deploymentOf('migrate'))
    await runDeployed(commandOf('host-tables'), deploymentOf('host-tables'))
    expect(await isHealthy('api')).toBe(false)
    expect(await isHealthy('worker')).toBe(false)
    for (const name of ['api', 'worker']) {
      const one = start(commandOf(name), deploymentOf(name))
      await one.said(`"${name}.ready"`)
      await until(`${name} is healthy`, () => isHealthy(name))
      if (!IS_ROOT) continue
      const status = readFileSync(`/proc/${innermost(one.pid)}/status`, 'utf8')
      expect(/^Uid:\s+(.*)$/m.exec(status)?.[1]).toBe(Array(4).fill(NODE_USER).join('\t'))
      expect(/^CapBnd:\s+(.*)$/m.exec(status)?.[1]).toMatch(/^0+$/)
      expect(/^NSpid:\s+(.*)$/m.exec(status)?.[1]).toMatch(/\t1$/)
    }
    expect(await isHealthy('api', image.healthcheck)).toBe(true)
    expect(image.command).toEqual(commandOf('api'))
  })

  it('takes a webhook and handles it', async () => {
    const sandbox = await startGithubSandbox({ port: 0, host: '127.0.0.1', entries: 10 })
    ends.push(() => sandbox.close())
    const databaseUrl = placeOf(serviceOf(compose, 'api').environment.DATABASE_URL ?? '')
    const connected = await connectSandbox({ databaseUrl, encryptionKeys, sandboxUrl: sandbox.url })
    await sendWebhookThrough(`http://${placeOf('127.0.0.1:3000')}`, connected, sql)
  })

  it("queues the worker's tasks fairly", () => {
    const managers = started
      .flatMap(({ lines }) => lines)
      .filter((line) => line.includes('"Started physicalTaskQueueManager"') && line.includes('"integrations-default"'))
    expect(managers.filter((line) => line.includes('"backlog":"fairness"'))).not.toEqual([])
  })

  it.each(['worker', 'api'])('ends the %s by SIGTERM with 0, long before an engine would kill it', async (name) => {
    const one = started.find(({ lines }) => lines.some((line) => line.includes(`"${name}.ready"`)))
    if (one === undefined) throw new Error(`${name} was not started`)
    const { code, seconds } = await one.terminate()
    console.log(`${name} ended after ${seconds.toFixed(1)} s of the ${graceSecondsOf(compose, name)} s allowed.`)
    expect(code).toBe(0)
    expect(seconds).toBeLessThan(graceSecondsOf(compose, name))
  })
})
