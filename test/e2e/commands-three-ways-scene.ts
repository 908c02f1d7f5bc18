/**
 * What commands-three-ways.e2e.test.ts runs on: a worker's process, another one that has lost its database, a dev server, and the
 * three ways to run a command there.
 */
import type { ChildProcess } from 'node:child_process'
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { copyFile, mkdtemp, rm } from 'node:fs/promises'
import type { AddressInfo, Socket } from 'node:net'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { ApplicationFailure } from '@temporalio/client'
import { Client, Connection, WorkflowFailedError } from '@temporalio/client'
import { getTableName } from 'drizzle-orm'
import { inject } from 'vitest'
import type { ManagedProcess, ProcessOptions } from '../../dev/processes.ts'
import { startProcess } from '../../dev/processes.ts'
import { findTemporalBinary } from '../../dev/temporal-server-binary.ts'
import type { Integrations, IntegrationsOptions } from '../../src/create-integrations.ts'
import { runCommand } from '../commands/cli/run.ts'
import { createTestDatabase } from '../support/database.ts'
import { shareDevServer } from '../support/dev-server.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { encryptionKey, testIntegrations } from '../support/integrations.ts'
import type { Output } from '../support/output.ts'
import { outputOf } from '../support/output.ts'
import { sharePostgres } from '../support/postgres-setup.ts'
import { syncProvider } from '../support/providers.ts'

export const WRAPPERS = fileURLToPath(new URL('../../scripts/temporal/', import.meta.url))

type Environment = Readonly<Record<string, string | undefined>>

/** The end of a workflow. */
export interface Ended {
  readonly code: number | null
  /** What it completed with; of one that failed as a part did, what it has as a detail. */
  readonly result: unknown
  readonly failure: { readonly type: string | undefined; readonly message: string | undefined }
  /** What the process said. */
  readonly said: string
}

export interface Scene {
  readonly prefix: string
  readonly test: TestIntegrations
  /** `integrations <word>...`, a process. */
  cli(words: readonly string[], env?: Environment): Promise<Output>
  /** The same program with the same host in this process, which is a small part of the time. @param place another backend */
  inProcess(words: readonly string[], place?: IntegrationsOptions): Promise<Output>
  /** `temporal workflow execute --type integrations:<command>`, a process. */
  typed(command: string, id: string, input: unknown, env?: Environment): Promise<Ended>
  /** The same workflow, started and awaited by Temporal's client in this process. */
  workflow(command: string, id: string, input: unknown, env?: Environment): Promise<Ended>
  /** `scripts/temporal/<command> <word>...`. @param onStart its process */
  wrapper(
    command: string,
    words: readonly string[],
    env?: Environment,
    onStart?: (child: ChildProcess) => void,
  ): Promise<Output>
  /** `temporal <word>...`. */
  temporal(words: readonly string[], env?: Environment): Promise<Output>
  /** Names a deployment whose worker has lost its database. */
  readonly withoutDatabase: Environment
  close(): Promise<void>
}

export async function openScene(): Promise<Scene> {
  const prefix = `three-ways-${randomBytes(4).toString('hex')}`
  const [postgres, temporal, binary] = await Promise.all([sharePostgres(), shareDevServer(), findTemporalBinary()])
  const [database, lost] = await Promise.all([
    createTestDatabase({ adminUrl: postgres.url }),
    createTestDatabase({ adminUrl: postgres.url }),
  ])
  const door = await openDoor(new URL(lost.url))
  const root = await mkdtemp(join(inject('installed'), 'three-ways-'))
  await copyFile(new URL('./commands-three-ways-host.ts', import.meta.url), join(root, 'integrations.config.ts'))
  const keys = encryptionKey('k1')
  const env: Environment = {
    DATABASE_URL: database.url,
    TEMPORAL_ADDRESS: temporal.address,
    TEMPORAL_CLI: binary,
    INTEGRATIONS_PREFIX: prefix,
    INTEGRATIONS__CACHE_PREFIX: prefix,
    INTEGRATIONS__SCHEDULES__ENABLED: 'false',
    INTEGRATIONS_ENCRYPTION_KEYS: keys,
    INTEGRATIONS_ENCRYPTION_KEYS_FILE: undefined,
    INTEGRATIONS_CONFIG: undefined,
    DEMO_TOKEN: 'token-of-the-tests',
    INTEGRATIONS__WORKER__COMMAND_ENVIRONMENT: 'DEMO_TOKEN',
    NODE_OPTIONS: undefined,
    CI: undefined,
  }
  const children = new Set<ChildProcess>()
  const run = async (
    command: string,
    args: readonly string[],
    own: Environment = {},
    onStart: (child: ChildProcess) => void = () => {},
  ): Promise<Output> => {
    const child = spawn(command, args, {
      cwd: root,
      env: { ...process.env, ...env, ...own },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    children.add(child)
    onStart(child)
    const output = await outputOf(child)
    children.delete(child)
    return output
  }
  const program = join(inject('installed'), 'node_modules/durable-integrations/dist/bin')
  const withoutDatabase = { INTEGRATIONS_PREFIX: `${prefix}-lost`, INTEGRATIONS__CACHE_PREFIX: `${prefix}-lost` }
  const command = { command: process.execPath, args: [join(program, 'worker.js')], cwd: root }
  const workers = await Promise.all([
    startWorker({ ...command, env }),
    startWorker({ ...command, env: { ...env, ...withoutDatabase, DATABASE_URL: door.url } }),
  ])
  await door.shut()

  const connection = await Connection.connect({ address: temporal.address })
  const client = new Client({ connection })
  /** Of a workflow, for the deployment that the environment names. */
  const optionsOf = (command: string, id: string, { INTEGRATIONS_PREFIX = prefix }: Environment) => ({
    type: `integrations:${command}`,
    workflowId: `${INTEGRATIONS_PREFIX}:${id}:typed`,
    taskQueue: `${INTEGRATIONS_PREFIX}-default`,
  })

  const hostAt = await loadHost(env)
  // What makes rows: it asks no provider.
  // Beside the start of so many processes a connection may take long.
  const test = testIntegrations(`${database.url}?connect_timeout=60`, {
    recordStarts: false,
    encryptionKeys: keys,
    temporal: { address: temporal.address },
    providers: { demo: syncProvider(() => {}, { defaultSyncInterval: () => null }), oauth: {}, quiet: {} },
    config: { cache_prefix: prefix },
  })
  // No id is a count of something.
  const { integrations, logs, webhooks, syncItems, incidents, requests } = test.framework.tables
  for (const table of [integrations, logs, webhooks, syncItems, incidents, requests])
    await test.sql`select setval(pg_get_serial_sequence(${getTableName(table)}, 'id'), 100000)`
  await test.sql`create table notes (id text primary key, created_at timestamp)`
  await test.sql`insert into notes values ('a', '2031-06-01'), ('b', null)`

  return {
    prefix,
    test,
    cli: (words, own) => run(process.execPath, [join(program, 'integrations.js'), ...words], own),
    async inProcess(words, place = {}) {
      // Closed by the command, as in a process.
      const { exitCode, out, err } = await runCommand(async () => hostAt(place), words)
      return { code: exitCode, out, err }
    },
    async typed(command, id, input, own = {}) {
      const { type, workflowId, taskQueue } = optionsOf(command, id, own)
      const words = ['--type', type, '--workflow-id', workflowId, '--task-queue', taskQueue]
      const shape = ['--output', 'json', '--no-json-shorthand-payloads']
      const output = await run(
        binary,
        ['workflow', 'execute', ...words, '--input', JSON.stringify(input), ...shape],
        own,
      )
      return endedOf(output)
    },
    async workflow(command, id, input, own = {}) {
      const { type, ...options } = optionsOf(command, id, own)
      try {
        const result: unknown = await client.workflow.execute(type, { ...options, args: [input] })
        return { code: 0, result, failure: { type: undefined, message: undefined }, said: '' }
      } catch (error) {
        if (!(error instanceof WorkflowFailedError)) throw error
        const failure = error.cause as ApplicationFailure
        const { type, message } = failure
        return { code: 1, result: failure.details?.[0], failure: { type: type ?? undefined, message }, said: message }
      }
    },
    wrapper: (command, words, own, onStart) => run(join(WRAPPERS, command), words, own, onStart),
    temporal: (words, own) => run(binary, words, own),
    withoutDatabase,
    async close() {
      for (const child of children) child.kill('SIGKILL')
      await Promise.all([...workers.map((worker) => worker.stop()), test.close(), connection.close()])
      await rm(root, { recursive: true, force: true })
      await Promise.all([database.drop(), lost.drop()])
      await temporal.release()
      await postgres.release()
    },
  }
}

interface Payload {
  readonly data: string
}

/** What `temporal workflow execute --output json` prints. */
interface Execution {
  readonly result?: Payload
  readonly closeEvent: {
    readonly workflowExecutionFailedEventAttributes?: {
      readonly failure: {
        readonly message: string
        readonly applicationFailureInfo?: {
          readonly type: string
          readonly details?: { readonly payloads: readonly Payload[] }
        }
      }
    }
  }
}

function endedOf({ code, out, err }: Output): Ended {
  const { result, closeEvent } = (out === '' ? { closeEvent: {} } : JSON.parse(out)) as Execution
  const failure = closeEvent.workflowExecutionFailedEventAttributes?.failure
  const payload = result ?? failure?.applicationFailureInfo?.details?.payloads[0]
  return {
    code,
    result: payload && JSON.parse(Buffer.from(payload.data, 'base64').toString()),
    failure: { type: failure?.applicationFailureInfo?.type, message: failure?.message },
    said: out + err,
  }
}

/** As the worker has it: its environment becomes this process's, for a command reads it, too. */
async function loadHost(env: Environment): Promise<(place: IntegrationsOptions) => Integrations> {
  for (const [name, value] of Object.entries(env)) {
    if (value === undefined) delete process.env[name]
    else process.env[name] = value
  }
  process.env.LOG_LEVEL = 'error'
  const { default: host, hostAt } = await import('./commands-three-ways-host.ts')
  await host.close()
  return hostAt
}

/** Once it is ready. */
async function startWorker(options: Omit<ProcessOptions, 'name' | 'onLine'>): Promise<ManagedProcess> {
  const lines: string[] = []
  let tellReady = (): void => {}
  const ready = new Promise<'ready'>((resolve) => {
    tellReady = () => resolve('ready')
  })
  const worker = await startProcess({
    ...options,
    name: 'worker',
    onLine(line) {
      lines.push(line)
      if (line.includes('"worker.ready"')) tellReady()
    },
  })
  if ((await Promise.race([ready, worker.exited])) !== 'ready')
    throw new Error(`The worker ended:\n${lines.join('\n')}`)
  return worker
}

interface Door {
  /** The database's, by way of the door. */
  readonly url: string
  /** Ends what goes through it, and lets nobody in any more. */
  shut(): Promise<void>
}

async function openDoor(database: URL): Promise<Door> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    const inner = connect(Number(database.port), database.hostname)
    for (const each of [socket, inner]) {
      sockets.add(each)
      // One side's end is the other one's, whichever way it came.
      each.on('error', () => {})
      each.on('close', () => {
        socket.destroy()
        inner.destroy()
        sockets.delete(each)
      })
    }
    socket.pipe(inner).pipe(socket)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = new URL(database)
  url.port = String((server.address() as AddressInfo).port)
  return {
    url: url.href,
    async shut() {
      if (!server.listening) return
      const closed = once(server, 'close')
      server.close()
      for (const socket of sockets) socket.destroy()
      await closed
    },
  }
}
