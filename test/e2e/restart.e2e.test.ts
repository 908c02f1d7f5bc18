import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import postgres from 'postgres'
import type { TestContext } from 'vitest'
import { describe, expect, it } from 'vitest'
import type { RunningState } from '../../dev/lock.ts'
import { isRunning } from '../../dev/processes.ts'
import { newDataFolder } from '../support/data-folder.ts'
import { installedBundle } from '../support/installed-script.ts'
import type { DevCommand } from './dev-command.ts'
import { runningState, runScript } from './dev-command.ts'
import { until } from './own-stack.ts'

const IS_UP = /Ctrl-C stops it/
const MINUTE = 60
const QUIET = { encoding: 'utf8' as const, stdio: 'pipe' as const }
/** tsx's own command kills what does not take up a signal within 60 ms: `npm start` does without it. */
const HELD_UP_MS = 1_000
/** Five are kept: Postgres, Temporal, the sandbox, the API, the worker. */
const CHILDREN = ['Postgres', 'Temporal', 'sandbox', 'api', 'worker']

/** A data folder of a test's own, and what is started on it. */
interface Place {
  readonly folder: string
  start(env?: Record<string, string>): DevCommand
}

async function newPlace({ onTestFinished }: Pick<TestContext, 'onTestFinished'>): Promise<Place> {
  const folder = await mkdtemp(join(tmpdir(), 'durable-restart-'))
  // Else the cluster of a root, which runs as another user, lies elsewhere and stays behind.
  await chmod(folder, 0o711)
  await newDataFolder(join(folder, 'postgres'))
  const started: DevCommand[] = []
  onTestFinished(async () => {
    for (const command of started) await interrupt(command)
    await rm(folder, { recursive: true, force: true })
  })
  return {
    folder,
    start(env = {}) {
      // That it makes the bundle itself is seen in demo.e2e.test.ts; here it would be made at each start.
      const command = runScript('start', ['--data', folder, '--steady'], { ...installedBundle(), ...env })
      started.push(command)
      return command
    },
  }
}

/** Ctrl-C in the terminal: a SIGINT to the whole group. */
async function interrupt({ child, exited }: DevCommand): Promise<{ code: number | null }> {
  if (child.exitCode === null && child.signalCode === null) process.kill(-(child.pid as number), 'SIGINT')
  return exited
}

async function expectNobodyLeft(state: RunningState): Promise<void> {
  await until(
    'all processes are gone',
    async () => [state.supervisor, ...state.children].every((one) => !isRunning(one)),
    30,
  )
}

/** The database of the stack that runs on the folder now. */
async function query<Row extends Record<string, unknown>>(folder: string, text: string): Promise<Row[]> {
  const url = new URL(/postgres:\/\/\S+/.exec(runningState(folder).urls.Postgres ?? '')?.[0] ?? '')
  url.password = readFileSync(join(folder, 'postgres', 'password'), 'utf8').trim()
  const sql = postgres(url.href, { max: 1, fetch_types: false, onnotice: () => {} })
  try {
    return (await sql.unsafe(text)) as unknown as Row[]
  } finally {
    await sql.end({ timeout: 5 })
  }
}

async function numberOf(folder: string, text: string): Promise<number> {
  const [row] = await query<{ count: number }>(folder, `select count(*)::int as count ${text}`)
  return row?.count ?? 0
}

async function allSettled(folder: string): Promise<boolean> {
  return (
    (await numberOf(folder, `from integration_webhooks where status <> 'processed'`)) === 0 &&
    (await numberOf(folder, `from integration_sync_items where status <> 'success'`)) === 0 &&
    (await numberOf(folder, `from integration_logs where operation = 'sync' and status <> 'success'`)) === 0
  )
}

// They wait more than they work, and all begin at once: what those of the second group have to start ends early.
describe.concurrent('npm start', () => {
  it('says that it runs, comes back with its data after a kill -9 of everything, or of the supervisor, and goes on', async (context) => {
    const { folder, start } = await newPlace(context)
    const first = start({ A_SECRET_OF_THE_SHELL: 'for nobody else' })
    await first.said(IS_UP)
    const { urls } = runningState(folder)
    if (process.platform === 'linux')
      for (const { name, pid } of runningState(folder).children.filter(({ name }) =>
        ['api', 'worker', 'sandbox'].includes(name),
      ))
        expect(readFileSync(`/proc/${pid}/environ`, 'utf8'), name).not.toContain('A_SECRET_OF_THE_SHELL')

    const second = start()
    expect(await second.exited).toEqual({ code: 0, signal: null })
    const said = second.lines.join('\n')
    expect(said).toContain('running already')
    for (const url of [urls.API, urls['Temporal UI'], urls.Webhooks]) expect(said).toContain(url)

    // Its own traffic begins at once: a first sync and webhooks.
    await until('webhooks and items are under way', async () => {
      return (
        (await numberOf(folder, 'from integration_webhooks')) > 0 &&
        (await numberOf(folder, `from integration_logs where operation = 'sync' and status = 'processing'`)) > 0
      )
    })
    const state = runningState(folder)
    expect(state.children.map((child) => child.name)).toEqual(expect.arrayContaining(CHILDREN))
    const [before] = await query<{ id: string; last: string }>(
      folder,
      `select (select min(id) from integrations) as id, (select max(id) from integration_webhooks) as last`,
    )
    for (const { pid } of [state.supervisor, ...state.children]) process.kill(pid, 'SIGKILL')
    await expectNobodyLeft(state)

    const again = start()
    await again.said(IS_UP)
    expect(await query(folder, `select id from integrations`)).toEqual([{ id: before?.id }])
    expect(await numberOf(folder, `from integration_webhooks where id <= ${before?.last}`)).toBeGreaterThan(0)
    const settledAfter = await until('all that was begun is settled', () => allSettled(folder), MINUTE)
    console.log(`kill -9 of everything: settled ${settledAfter} s after it was up again`)
    // Its traffic goes on: what came since is still on its way.
    expect(
      await query(
        folder,
        `select w.id, w.status, count(l.id)::int as logs from integration_webhooks w left join integration_logs l
      on l.operation = 'webhook' and l.external_id = w.delivery_id
      where w.id <= ${before?.last} group by w.id having count(l.id) <> 1`,
      ),
    ).toEqual([])

    expect(
      await numberOf(folder, `from integration_logs where operation = 'sync' and status = 'success'`),
    ).toBeGreaterThan(0)
    await until('a new webhook is processed', async () => {
      return (
        (await numberOf(folder, `from integration_webhooks where id > ${before?.last} and status = 'processed'`)) > 0
      )
    })

    // As printed, with the address and the key of this start; the `temporal` that runs is named, to be asked by hand.
    const { urls: shown } = runningState(folder)
    expect(shown.Commands).toBe(`npm run cli -- --data ${folder} --help`)
    const listed = JSON.parse(
      execFileSync('npm', ['run', '--silent', 'cli', '--', '--data', folder, 'list', '--json'], QUIET),
    )
    expect(JSON.stringify(listed)).toContain('Sandbox repository')
    const [temporal = '', ...address] = (shown['Temporal CLI'] ?? '').split(' ')
    expect(execFileSync(temporal, ['operator', 'cluster', 'health', ...address], QUIET)).toContain('SERVING')
    // A page or proxy of this machine is nobody to it; the printed address lets its reader in.
    expect((await fetch(`${shown.API}/operator`)).status).toBe(401)
    expect((await fetch(shown.Dashboard ?? '', { redirect: 'manual' })).status).toBe(303)

    // A killed supervisor leaves its children behind: the next start ends them, and stops everything at Ctrl-C.
    const left = runningState(folder)
    process.kill(left.supervisor.pid, 'SIGKILL')
    const third = start()
    await third.said(IS_UP)
    for (const orphan of left.children) expect(isRunning(orphan), orphan.name).toBe(false)
    const last = runningState(folder)
    expect(await interrupt(third)).toEqual({ code: 0, signal: null })
    await expectNobodyLeft(last)
    expect(() => runningState(folder)).toThrow('ENOENT')
  })
})

describe.concurrent('npm start that does not come up', () => {
  it('stops in order at Ctrl-C while it is still starting, also when it stood still for a moment', async (context) => {
    const { folder, start } = await newPlace(context)
    const held = start()
    await held.said(/✓ {2}Postgres/)
    const state = runningState(folder)
    process.kill(state.supervisor.pid, 'SIGSTOP')
    const ending = interrupt(held)
    await sleep(HELD_UP_MS)
    process.kill(state.supervisor.pid, 'SIGCONT')
    expect(await ending).toEqual({ code: 0, signal: null })
    await expectNobodyLeft(state)
  })

  it('stops what it has started when the worker can not come up, and says why in one message', async (context) => {
    const { folder, start } = await newPlace(context)
    const script = `if (process.argv[1]?.endsWith('worker.ts')) { console.error('no worker today'); process.exit(3) }`
    const failing = start({ NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(script)}` })
    await failing.said(/✓ {2}integration/)
    const state = runningState(folder)
    expect(await failing.exited).toEqual({ code: 1, signal: null })
    await expectNobodyLeft(state)
    expect(failing.lines.filter((line) => line.includes('no worker today'))).toHaveLength(1)
    const message = failing.lines.slice(failing.lines.findIndex((line) => line.includes('✗')) + 1)
    expect(message).toEqual(['worker ended before it was ready. Its last lines:', 'no worker today'])
  })

  it.for([
    ['INTEGRATIONS__WEBHOOK__CONCURRENCY', 'abc', /webhook\.concurrency: expected an integer .*received "abc"/],
    ['TEMPORAL_ADDRESS', '127.0.0.1:1', /Temporal .*127\.0\.0\.1:1.*TEMPORAL_ADDRESS/],
  ] as const)('refuses %s=%s with one message and no stack', async ([name, value, message], context) => {
    const { start } = await newPlace(context)
    const failing = start({ [name]: value })
    expect(await failing.exited).toEqual({ code: 1, signal: null })
    const said = failing.lines.join('\n')
    expect(said).toMatch(message)
    expect(said).not.toMatch(/^\s+at /m)
  })
})
