/**
 * The doctor on a whole stack of real processes: faults are planted one by one, the doctor must find that one alone, and what it
 * prints as the remedy is run, as printed. Then the doctor finds nothing.
 *
 * Where a test has an environment of its own, the doctor is a process; elsewhere its command runs in this one, on an object that
 * has the stack's environment: a start takes longer than all that the doctor looks at.
 */
import type { ChildProcess } from 'node:child_process'
import { spawn } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { chmod, cp, mkdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Client, Connection } from '@temporalio/client'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { findTemporalBinary } from '../../../dev/temporal-server-binary.ts'
import { SCHEMA } from '../../../examples/host/tables.ts'
import { partsOf } from '../../../src/create-integrations.ts'
import { scheduleId, workflowId } from '../../../src/workflows/ids.ts'
import type { OwnStack } from '../../e2e/own-stack.ts'
import { startOwnStack, until } from '../../e2e/own-stack.ts'
import { outputOf } from '../../support/output.ts'
import { runCommand } from './run.ts'

const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
const INSTALLED = inject('installed')
/** The stack's host, for whom the package is installed. */
const HOST = join(INSTALLED, 'doctor')
const PREFIX = 'integrations'
/** A look costs a second of a core, which what is waited for needs, too. */
const BETWEEN_LOOKS_MS = 2_000
const TOKEN = { name: 'test', sha256: createHash('sha256').update('of the tests').digest('hex'), scopes: ['read'] }

interface Finding {
  readonly check: string
  readonly status: 'ok' | 'warning' | 'fault' | 'skipped'
  readonly message: string
  readonly remedy: string | null
}
type Environment = Readonly<Record<string, string>>

let stack: OwnStack
let client: Client
/** First on PATH: `integrations` as npm links it, `temporal` as this machine has it. */
let path: string
/** A folder with the `integrations` of the clone in it. */
let clone: string
/** What no command may print. */
let key: string

beforeAll(async () => {
  stack = await startOwnStack({ sandboxEntries: 3, env: { INTEGRATIONS__OPERATOR__TOKENS: JSON.stringify([TOKEN]) } })
  client = new Client({ connection: await Connection.connect({ address: stack.temporalAddress }) })
  await cp(join(ROOT, 'examples/host'), HOST, { recursive: true })
  const bin = join(stack.folder, 'bin')
  await mkdir(bin)
  await symlink(await findTemporalBinary(), join(bin, 'temporal'))
  key = (await readFile(join(stack.folder, 'encryption-keys'), 'utf8')).split(':')[1]?.trim() as string
  path = [join(INSTALLED, 'node_modules/.bin'), bin, process.env.PATH].join(delimiter)
  clone = join(stack.folder, 'clone')
  await mkdir(clone)
  const command = `exec "${process.execPath}" --conditions=durable-source --import tsx src/bin/integrations.ts "$@"\n`
  await writeFile(join(clone, 'integrations'), `#!/bin/sh\n${command}`)
  await chmod(join(clone, 'integrations'), 0o755)
  // Else the Schedule starts it, up to a minute later.
  await stack.integrations.syncs.start(stack.integrationId)
  await until('the first run has ended', async () => {
    const [row] = await stack.sql`select last_synced_at from integrations`
    return row?.last_synced_at !== null
  })
})
afterAll(async () => {
  await client?.connection.close()
  await stack?.stop()
})

/** A command line, by a shell, in this folder. */
function start(line: string, env: Environment = {}, folder = ROOT): ChildProcess {
  return spawn('sh', ['-c', line], {
    cwd: folder,
    env: { ...process.env, PATH: path, INTEGRATIONS_CONFIG: join(HOST, 'integrations.config.ts'), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
}

/** Ends when the process has said this; fails when it ends without it. */
async function said(child: ChildProcess, text: string): Promise<void> {
  let heard = ''
  await new Promise<void>((resolve, reject) => {
    const hear = (chunk: unknown): void => {
      heard += chunk
      if (heard.includes(text)) resolve()
    }
    child.stdout?.on('data', hear)
    child.stderr?.on('data', hear)
    child.once('close', () => reject(new Error(`It ended without saying ${text}:\n${heard}`)))
  })
}

async function run(
  line: string,
  env: Environment = {},
): Promise<{ exitCode: number | null; out: string; err: string }> {
  const { code, out, err } = await outputOf(start(line, env))
  expect(out + err).not.toContain(key)
  return { exitCode: code, out, err }
}

/** @param env of a process of its own; left out: in this process */
async function doctor(
  env?: Environment,
  options: readonly string[] = [],
): Promise<{ exitCode: number | null; findings: Finding[] }> {
  const words = ['doctor', '--json', ...options]
  const { exitCode, out, err } = await (env === undefined
    ? runCommand(stack.integrations, words)
    : run(`integrations ${words.join(' ')}`, env))
  try {
    return { exitCode, findings: (JSON.parse(out) as { findings: Finding[] }).findings }
  } catch (cause) {
    throw new Error(`no document: ${out}\n${err}`, { cause })
  }
}

const wrong = (findings: readonly Finding[]): Finding[] =>
  findings.filter(({ status }) => status === 'fault' || status === 'warning')

/** The doctor finds this alone. @returns the finding */
async function findsAlone(check: string, status: 'fault' | 'warning', env?: Environment): Promise<Finding> {
  const { exitCode, findings } = await doctor(env)
  const found = wrong(findings)
  expect(
    found.map((finding) => [finding.check, finding.status]),
    JSON.stringify(found),
  ).toEqual([[check, status]])
  expect(exitCode).toBe(status === 'fault' ? 1 : 0)
  return found[0] as Finding
}

/** Runs what the doctor printed, as it was printed: by a shell where it is more than a command of ours and its plain words. */
async function mend({ remedy }: Finding, env?: Environment): Promise<string> {
  const line = remedy as string
  const isPlain = env === undefined && /^integrations [\w -]+$/.test(line)
  const { exitCode, out, err } = await (isPlain
    ? runCommand(stack.integrations, line.split(' ').slice(1))
    : run(line, env))
  expect({ remedy, exitCode, err: exitCode === 0 ? '' : err }).toEqual({ remedy, exitCode: 0, err: '' })
  return out
}

async function findsNothing(env?: Environment): Promise<void> {
  const { exitCode, findings } = await doctor(env, ['--fail-on', 'warning'])
  expect(wrong(findings)).toEqual([])
  expect(findings.filter(({ status }) => status === 'skipped')).toEqual([])
  expect(exitCode).toBe(0)
}

/** An integration that no Schedule starts, so that a planted row stays as it was planted. */
async function quietIntegration(name: string): Promise<number> {
  const created = await stack.integrations.create({
    provider: 'github',
    name,
    credentials: { token: 'sandbox-token', webhook_secret: 'of the tests' },
    metadata: { owner: 'octo-sandbox', repo: 'widgets', base_url: stack.sandboxUrl, hook_id: 1 },
    isActive: false,
  })
  return created.id
}

/** One that takes webhooks, and that is not due. */
async function listeningIntegration(name: string): Promise<number> {
  const id = await quietIntegration(name)
  await stack.sql`update integrations set is_active = true, switched_off_at = null,
                  next_sync_at = now() + interval '1 day' where id = ${id}`
  return id
}

/** A database of its own beside the stack's: with other keys and tables, the same Temporal. */
async function otherDatabase(name: string): Promise<Environment> {
  await stack.sql.unsafe(`create database ${name}`)
  const url = new URL(stack.databaseUrl)
  url.pathname = `/${name}`
  // The host's own tables, which are none of ours to make.
  const sql = postgres(url.href, { max: 1, onnotice: () => {} })
  await sql.unsafe(SCHEMA).finally(() => sql.end())
  return { DATABASE_URL: url.href }
}

/** A migrated database becomes one of the stack's deployment: else the doctor names its Schedules as those of another one. */
async function joinDeployment({ DATABASE_URL: url = '' }: Environment): Promise<void> {
  const sql = postgres(url, { max: 1, onnotice: () => {} })
  const rows = await stack.sql`select key, value from integration_cache where key like '%:deployment'`
  for (const { key: id, value } of rows)
    await sql`insert into integration_cache (key, value) values (${id}, ${sql.json(value)})`
  await sql.end()
  expect(rows).toHaveLength(1)
}

/** The processes that sweep and recover by themselves stand still meanwhile. */
async function unswept<T>(look: () => Promise<T>): Promise<T> {
  const pids = [stack.api.pid, stack.worker.pid]
  for (const pid of pids) process.kill(pid, 'SIGSTOP')
  try {
    return await look()
  } finally {
    for (const pid of pids) process.kill(pid, 'SIGCONT')
  }
}

describe('a healthy stack', () => {
  it('has neither fault nor warning, and each check was looked at', async () => {
    await findsNothing({})
  })

  it('is told in one line', async () => {
    const { exitCode, out } = await run('integrations doctor')
    expect(out).toContain('Nothing to do: 40 checks without a finding.')
    expect(exitCode).toBe(0)
  })
})

describe('the database', () => {
  it('that does not answer is told, what needs it is skipped, the rest is looked at', async () => {
    const env = { DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none' }
    const { findings } = await doctor(env)
    expect(wrong(findings)).toEqual([expect.objectContaining({ check: 'database.reachable' })])
    expect(findings.find(({ check }) => check === 'webhooks.pending')).toMatchObject({
      status: 'skipped',
      message: 'Not looked at: see database.reachable.',
    })
    expect(findings.find(({ check }) => check === 'temporal.workers')?.status).toBe('ok')
    const { exitCode, out } = await run('integrations doctor', env)
    expect(exitCode).toBe(1)
    expect(out).toMatch(/^1 fault, 0 warnings, \d+ skipped, \d+ ok\.\n\nFAULT +database\.reachable .*\n {2}psql /)
    const psql = await run(wrong(findings)[0]?.remedy as string, env)
    expect(psql.err).toContain('Connection refused')
  })

  it('whose tables are behind', async () => {
    const env = await otherDatabase('behind')
    await mend(await findsAlone('database.migrations', 'fault', env), env)
    await joinDeployment(env)
    await findsNothing(env)
  })
})

describe('the keys', () => {
  it('that are others under the same id', async () => {
    const other = randomBytes(32).toString('base64')
    const env = { INTEGRATIONS_ENCRYPTION_KEYS_FILE: '', INTEGRATIONS_ENCRYPTION_KEYS: `dev:${other}` }
    const found = await findsAlone('keys.match', 'fault', env)
    expect(found.message).toContain('dev')
    expect(found.message).not.toContain(other)
    await mend(found, env)
  })

  it('of which an older one wrote rows', async () => {
    const database = await otherDatabase('rotated')
    const older = `a:${randomBytes(32).toString('base64')}`
    const newer = `b:${randomBytes(32).toString('base64')}`
    const with_ = (keys: string): Environment => ({
      ...database,
      INTEGRATIONS_ENCRYPTION_KEYS_FILE: '',
      INTEGRATIONS_ENCRYPTION_KEYS: keys,
    })
    await run('integrations migrate', with_(older))
    await joinDeployment(database)
    const installed = await run(
      'integrations install github --skip-check --name x --credential token=t --credential webhook_secret=w --metadata owner=o --metadata repo=r',
      with_(older),
    )
    expect(installed).toMatchObject({ exitCode: 0 })
    await run(`psql "$DATABASE_URL" -c 'update integrations set is_active = false'`, with_(older))
    const env = with_(`${newer},${older}`)
    const found = await findsAlone('keys.rotation', 'warning', env)
    expect(found.message).toContain('1 integration with "a"')
    await mend(found, env)
    await findsNothing(env)
  })
})

describe('Temporal', () => {
  it('that has no such namespace', async () => {
    const env = { TEMPORAL_NAMESPACE: 'forgotten' }
    await mend(await findsAlone('temporal.reachable', 'fault', env), env)
    // A server knows a new namespace after some seconds.
    const { connection } = client
    await until('the namespace is known', () =>
      new Client({ connection, namespace: env.TEMPORAL_NAMESPACE }).workflow.count().then(
        () => true,
        () => false,
      ),
    )
    const { findings } = await doctor(env)
    expect(wrong(findings).map(({ check }) => check)).not.toContain('temporal.reachable')
  })

  it('that lost a Schedule', async () => {
    await client.schedule.getHandle(scheduleId(PREFIX, 'dispatch-syncs')).delete()
    await mend(await findsAlone('temporal.schedules', 'fault'))
    await findsNothing()
  })

  it('with a Schedule that an operator paused', async () => {
    await client.schedule.getHandle(scheduleId(PREFIX, 'dispatch-syncs')).pause("until Anna's deploy")
    const found = await findsAlone('temporal.schedules', 'warning')
    expect(found.message).toContain("until Anna's deploy")
    await mend(found)
    await findsNothing()
  })

  it('with a Schedule that somebody changed', async () => {
    const handle = client.schedule.getHandle(scheduleId(PREFIX, 'dispatch-syncs'))
    await handle.update((previous) => ({ ...previous, spec: { intervals: [{ every: '2 minutes' }] } }))
    const found = await findsAlone('temporal.schedules', 'warning')
    expect(found.message).toContain('interval 120 s instead of 60 s')
    await mend(found)
    await findsNothing()
  })

  it('whose worker stands still while the server still counts it', async () => {
    const { pid } = stack.worker
    process.kill(pid, 'SIGSTOP')
    try {
      await stack.integrations.syncs.start(stack.integrationId)
      let found: Finding | undefined
      await until(
        'the doctor sees that tasks wait',
        async () => {
          await sleep(BETWEEN_LOOKS_MS)
          found = (await doctor()).findings.find(({ check }) => check === 'temporal.workers')
          return found?.status === 'warning'
        },
        90,
      )
      expect(found?.message).toMatch(new RegExp(`the last poll for them was by ${pid}@\\S+ at`))
      expect(found?.message).toContain(`kill -CONT ${pid}, or kill -9 ${pid}`)
      expect(await mend(found as Finding)).toMatch(new RegExp(`${pid} +T`))
    } finally {
      process.kill(pid, 'SIGCONT')
    }
    const isWell = async (): Promise<boolean> => {
      await sleep(BETWEEN_LOOKS_MS)
      return wrong((await doctor()).findings).length === 0
    }
    await until('it goes on', isWell, 90)
  })

  it('whose task queue nobody polls', async () => {
    const env = {
      INTEGRATIONS__SYNC__ITEM_QUEUE: 'slow',
      // The remedy of a clone is the longer one: a loader has to read TypeScript.
      PATH: [clone, path].join(delimiter),
      INTEGRATIONS_CONFIG: join(ROOT, 'examples/host/integrations.config.ts'),
    }
    const found = await findsAlone('temporal.workers', 'fault', env)
    expect(found.message).toContain('integrations-slow')
    expect(found.remedy).toContain('tsx')
    const worker = start(`exec ${found.remedy}`, env)
    const ended = new Promise((resolve) => worker.once('close', resolve))
    try {
      // Before it is ready no doctor is started: the two would wait for each other's share of the machine.
      await said(worker, '"worker.ready"')
      await until('a worker polls', async () => wrong((await doctor(env)).findings).length === 0, 90)
    } finally {
      worker.kill('SIGTERM')
      await ended
    }
  })
})

describe('integrations', () => {
  it('of a provider that is not registered', async () => {
    const id = await quietIntegration('of a provider that is gone')
    await stack.sql`update integrations set provider = 'gone' where id = ${id}`
    const found = await findsAlone('providers.registered', 'fault')
    expect(await mend(found)).toContain('of a provider that is gone')
    await mend({ ...found, remedy: `integrations delete ${id} --yes` })
    await findsNothing()
  })

  it('that their health switched off', async () => {
    const id = await listeningIntegration('disabled')
    await stack.sql`update integrations set health_status = 'disabled', consecutive_failures = 50 where id = ${id}`
    const found = await findsAlone('integrations.disabled', 'fault')
    expect(found.remedy).toBe(`integrations enable ${id}`)
    await mend(found)
    await stack.sql`update integrations set is_active = false where id = ${id}`
    await findsNothing()
  })

  it('whose credentials were damaged', async () => {
    const id = await quietIntegration('damaged')
    await stack.sql`update integrations set credentials = overlay(credentials placing 'AAAA' from 60) where id = ${id}`
    await mend(await findsAlone('keys.readable', 'fault'))
    const { encryption } = partsOf(stack.integrations).framework
    await stack.sql`update integrations set credentials = ${encryption.encrypt(id, { token: 't', webhook_secret: 'w' })}
                    where id = ${id}`
    await findsNothing()
  })
})

describe('webhooks', () => {
  const plant = async (integrationId: number, status: string, age: string): Promise<number> => {
    const [row] = await stack.sql<{ id: string }[]>`
      insert into integration_webhooks
        (integration_id, delivery_id, event_type, payload, headers, status, attempts, claim, error, updated_at,
         processed_at)
      values (${integrationId}, ${`planted-${integrationId}`}, 'ping', '{"zen":"Keep it logically awesome."}',
              '{"x-github-event":["ping"],"content-type":["application/json"]}', ${status},
              ${status === 'pending' ? 0 : 1}, ${status === 'processing' ? 'a-run-that-is-gone:1' : null},
              ${status === 'failed' ? 'the listener threw' : null}, now() - ${age}::interval,
              case when ${status} = 'failed' then now() - ${age}::interval end)
      returning id`
    return Number(row?.id)
  }
  const isProcessed = async (id: number): Promise<boolean> => {
    const [row] = await stack.sql`select status from integration_webhooks where id = ${id}`
    return row?.status === 'processed'
  }

  /** A pump looks for two seconds more after its last row. */
  const inboxEnds = () =>
    until('the inbox has ended', async () => {
      const inbox = client.workflow.getHandle(workflowId.webhookInbox(PREFIX))
      return (await inbox.describe().catch(() => null))?.status.name !== 'RUNNING'
    })

  it('that wait without an inbox', async () => {
    await inboxEnds()
    const { webhook, found } = await unswept(async () => ({
      webhook: await plant(await listeningIntegration('unwoken'), 'pending', '10 minutes'),
      found: await findsAlone('webhooks.pending', 'fault'),
    }))
    expect(found.message).toContain('1 webhook of integration')
    await mend(found)
    await until('it is processed', () => isProcessed(webhook))
    await findsNothing()
  })

  it('that no living worker holds', async () => {
    await inboxEnds()
    const { webhook, found } = await unswept(async () => ({
      webhook: await plant(await listeningIntegration('stranded'), 'processing', '2 hours'),
      found: await findsAlone('webhooks.processing', 'fault'),
    }))
    expect(found.remedy).toBe('integrations recover-webhooks')
    await mend(found)
    await until('it is processed', () => isProcessed(webhook))
    await findsNothing()
  })

  it('that failed', async () => {
    const webhook = await plant(await listeningIntegration('failed'), 'failed', '1 hour')
    expect(await mend(await findsAlone('webhooks.failed', 'warning'))).toContain('the listener threw')
    await stack.sql`delete from integration_webhooks where id = ${webhook}`
    await findsNothing()
  })
})

describe('syncs', () => {
  it('whose workflow is gone', async () => {
    // The Schedule's own run would close the log before anybody looks, and doctor says nothing while a run lives.
    await stack.sql`update integrations set next_sync_at = now() + interval '1 hour' where id = ${stack.integrationId}`
    await until('no run lives', async () => {
      const run = client.workflow.getHandle(workflowId.syncIntegration(PREFIX, { integrationId: stack.integrationId }))
      const described = await run.describe().catch(() => null)
      return described?.status.name !== 'RUNNING'
    })
    const [log] = await stack.sql<{ id: string }[]>`
      insert into integration_logs (integration_id, operation, direction, status, metadata, created_at)
      values (${stack.integrationId}, 'sync', 'inbound', 'processing',
              '{"run_id":"gone","incremental":true,"cursor_before":null,"enumerated":false}', now() - interval '1 hour')
      returning id`
    await mend(await findsAlone('sync.stuck', 'fault'))
    await until('the next run has closed it', async () => {
      const [closed] = await stack.sql`select status from integration_logs where id = ${log?.id as string}`
      return closed?.status === 'failed'
    })
    await findsNothing()
  })

  it('that are overdue since the Schedule does not come round', async () => {
    const handle = client.schedule.getHandle(scheduleId(PREFIX, 'dispatch-syncs'))
    await handle.pause('by the test')
    await until('nothing runs', async () => {
      const [row] = await stack.sql`select count(*)::int as runs from integration_logs where status = 'processing'`
      return row?.runs === 0
    })
    await stack.sql`update integrations set next_sync_at = now() - interval '1 hour' where id = ${stack.integrationId}`
    const found = wrong((await doctor()).findings)
    expect(
      found.map(({ check, status }) => [check, status]),
      JSON.stringify(found),
    ).toEqual([
      ['temporal.schedules', 'warning'],
      ['sync.overdue', 'fault'],
    ])
    await mend(found[1] as Finding)
    await until('it has synced', async () => {
      const [row] =
        await stack.sql`select next_sync_at > now() as planned from integrations where id = ${stack.integrationId}`
      return row?.planned === true
    })
    await mend(found[0] as Finding)
    await findsNothing()
  })

  it('with failed items that no later run can make up for', async () => {
    const id = await listeningIntegration('held')
    await stack.sql`insert into integration_sync_items (integration_id, event_class, status, error)
                    values (${id}, 'test.thing', 'failed', 'the listener threw')`
    await mend(await findsAlone('sync.failed_items', 'warning'))
    await findsNothing()
  })
})

describe('incidents, events and retention', () => {
  it('an open incident, until a person acknowledges it', async () => {
    const id = await quietIntegration('in trouble')
    const [incident] = await stack.sql<{ id: string }[]>`
      insert into integration_incidents (integration_id, status, source, reason, peak_severity, opened_at)
      values (${id}, 'open', 'sync', 'sync_stale', 'failing', now()) returning id`
    expect(await mend(await findsAlone('incidents.open', 'warning'))).toContain('sync_stale')
    await runCommand(stack.integrations, ['acknowledge-incident', String(incident?.id)])
    await findsNothing()
    await stack.sql`delete from integration_incidents where id = ${String(incident?.id)}`
  })

  it('that nobody has looked at, taken up or pruned', async () => {
    const id = await quietIntegration('forgotten')
    const found = await unswept(async () => {
      await stack.sql`
        insert into integration_incidents
          (integration_id, status, source, reason, peak_severity, opened_at, closed_at, updated_at)
        values (${id}, 'closed', 'sync', 'sync_stale', 'failing', now() - interval '1 hour',
                now() - interval '10 minutes', now() - interval '10 minutes')`
      await stack.sql`
        insert into integration_events (integration_id, name, payload, due_at)
        values (${id}, 'IntegrationDisabled', '{}', now() - interval '10 minutes')`
      await stack.sql`
        insert into integration_requests (integration_id, endpoint, method, created_at)
        values (${id}, '/things', 'GET', now() - interval '100 days')`
      return wrong((await doctor()).findings)
    })
    expect(
      found.map(({ check, status }) => [check, status]),
      JSON.stringify(found),
    ).toEqual([
      ['incidents.unseen', 'warning'],
      ['events.waiting', 'fault'],
      ['pruning.overdue', 'warning'],
    ])
    for (const finding of found) await mend(finding)
    await until('the workflow has seen the incident and the outbox has taken the event', async () => {
      const [row] = await stack.sql`
        select (select followed_at from integration_incidents where integration_id = ${id}) is not null as seen,
               (select delivered_at from integration_events where integration_id = ${id}) is not null as taken`
      return row?.seen === true && row.taken === true
    })
    expect(await stack.sql`select id from integration_requests where integration_id = ${id}`).toEqual([])
    await findsNothing()
  })
})

describe('access', () => {
  it('without an operator’s token', async () => {
    const env = { INTEGRATIONS__OPERATOR__TOKENS: '', INTEGRATIONS_DEV: '' }
    const printed = await mend(await findsAlone('access.tokens', 'warning', env), env)
    const token = /# token: (\S+)/.exec(printed)?.[1] as string
    const shown = await run(`${/^export .*$/m.exec(printed)?.[0]}; printf %s "$INTEGRATIONS__OPERATOR__TOKENS"`)
    expect(JSON.parse(shown.out)).toMatchObject([{ sha256: createHash('sha256').update(token).digest('hex') }])
    await findsNothing({ INTEGRATIONS__OPERATOR__TOKENS: shown.out })
  })
})

describe('integrations schedules', () => {
  it('shows them, removes those that are left over, and creates what is missing', async () => {
    await client.schedule.create({
      scheduleId: scheduleId(PREFIX, 'of-an-older-release'),
      spec: { intervals: [{ every: '1 day' }] },
      action: { type: 'startWorkflow', workflowType: 'none', taskQueue: 'none', args: [] },
    })
    const standings = async (...options: string[]): Promise<unknown> => {
      const { schedules, search_attributes: attributes } = JSON.parse(
        (await runCommand(stack.integrations, ['schedules', '--json', ...options])).out,
      ) as Record<'schedules' | 'search_attributes', { name: string; standing: string }[]>
      expect(attributes.map(({ name, standing }) => [name, standing])).toEqual([
        ['IntegrationProvider', 'registered'],
        ['IntegrationId', 'registered'],
      ])
      return schedules.map(({ name, standing }) => [name, standing])
    }
    const ours = [
      ['dispatch-syncs', 'in step'],
      ['evaluate-failures', 'in step'],
      ['recover-webhooks', 'in step'],
      // GitHub can list what it has delivered.
      ['reconcile', 'in step'],
      ['prune', 'in step'],
    ]
    const all = [...ours, ['of-an-older-release', 'left over']]
    // A Schedule is in the server's list a moment after it was made.
    await until('it is listed', async () => JSON.stringify(await standings()) === JSON.stringify(all))
    expect(await standings('--apply')).toEqual(ours)
    const { out } = await run('integrations schedules')
    expect(out).toContain('integrations:schedule:dispatch-syncs')
    expect(out).toMatch(/IntegrationId\s.*Int\s.*registered/)
  })

  it('ends with 2 when Temporal is not reached', async () => {
    const { exitCode, err } = await run('integrations schedules', { TEMPORAL_ADDRESS: '127.0.0.1:1' })
    expect(err).toContain('Temporal was not reached at 127.0.0.1:1')
    expect(exitCode).toBe(2)
  })
})

it('never shows a key', async () => {
  expect(key).toHaveLength(44)
  expect(JSON.stringify(await doctor())).not.toContain(key)
})
