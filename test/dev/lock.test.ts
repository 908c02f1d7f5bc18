import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { LockOutcome, RunLock, RunningState } from '../../dev/lock.ts'
import { acquireRunLock } from '../../dev/lock.ts'
import type { ManagedProcess, ProcessIdentity } from '../../dev/processes.ts'
import { createSupervisor, identifyProcess, isRunning, startProcess, stopOnSignals } from '../../dev/processes.ts'

let folder: string
const started: ManagedProcess[] = []

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'durable-lock-'))
})

afterEach(async () => {
  for (const child of started.splice(0)) await child.stop()
  await rm(folder, { recursive: true, force: true })
})

async function sleeper(): Promise<ManagedProcess> {
  const child = await startProcess({ name: 'sleeper', command: 'sleep', args: ['600'], onLine: () => {} })
  started.push(child)
  return child
}

async function endedProcess(): Promise<ProcessIdentity> {
  const child = await sleeper()
  await child.stop()
  return child.identity
}

/** Writes `running.json` as a supervisor that is not this process has left it. */
async function leave(state: Partial<RunningState> & { supervisor: ProcessIdentity }): Promise<void> {
  await writeFile(join(folder, 'running.json'), JSON.stringify({ children: [], urls: {}, environment: {}, ...state }))
}

async function readState(): Promise<RunningState> {
  return JSON.parse(await readFile(join(folder, 'running.json'), 'utf8'))
}

function lockOf(outcome: LockOutcome): RunLock {
  if (outcome.kind !== 'acquired') throw new Error(`expected the lock, was told of pid ${outcome.pid}`)
  return outcome.lock
}

describe('one npm start for a data folder', () => {
  it('tells a second start the URLs of the running one', async () => {
    lockOf(await acquireRunLock({ folder })).setUp({ urls: { api: 'http://127.0.0.1:3000' }, environment: {} })
    expect(await acquireRunLock({ folder })).toEqual({
      kind: 'running',
      pid: process.pid,
      urls: { api: 'http://127.0.0.1:3000' },
      ended: [],
    })
  })

  it('tells a second start which processes of the running one have ended', async () => {
    const lock = lockOf(await acquireRunLock({ folder }))
    const [temporal, worker] = [await sleeper(), await sleeper()]
    lock.addChild({ name: 'Temporal', pid: temporal.pid })
    lock.addChild({ name: 'worker', pid: worker.pid })
    await temporal.stop()
    expect(await acquireRunLock({ folder })).toMatchObject({
      kind: 'running',
      ended: [{ name: 'Temporal', pid: temporal.pid }],
    })
  })

  it('gives the folder to one of many that start at the same moment', async () => {
    await leave({ supervisor: await endedProcess() })
    const outcomes = await Promise.all(Array.from({ length: 20 }, () => acquireRunLock({ folder })))
    expect(outcomes.filter(({ kind }) => kind === 'acquired')).toHaveLength(1)
  })

  it('is free again after a release', async () => {
    lockOf(await acquireRunLock({ folder })).release()
    expect((await acquireRunLock({ folder })).kind).toBe('acquired')
  })

  it('keeps the file from other users: the environment holds one', async () => {
    lockOf(await acquireRunLock({ folder })).setUp({
      urls: {},
      environment: { DATABASE_URL: 'postgres://postgres:secret@127.0.0.1/durable' },
    })
    expect((await stat(join(folder, 'running.json'))).mode & 0o777).toBe(0o600)
  })

  it('records children while they run', async () => {
    const lock = lockOf(await acquireRunLock({ folder }))
    const [worker, api] = [await sleeper(), await sleeper()]
    lock.addChild({ name: 'worker', pid: worker.pid })
    lock.addChild({ name: 'api', pid: api.pid, stopSignal: 'SIGINT' })
    lock.removeChild(worker.pid)
    expect((await readState()).children).toEqual([{ name: 'api', stopSignal: 'SIGINT', ...api.identity }])
  })

  it('takes over after a kill -9 of the supervisor and ends the children it left', async () => {
    const orphan = await sleeper()
    await leave({ supervisor: await endedProcess(), children: [{ name: 'worker', ...orphan.identity }] })
    const outcome = await acquireRunLock({ folder })
    expect(outcome).toMatchObject({ kind: 'acquired', ended: ['worker'] })
    expect(isRunning(orphan.identity)).toBe(false)
  })

  it('ends no stranger that has the pid of an orphan', async () => {
    const stranger = await sleeper()
    await leave({
      supervisor: await endedProcess(),
      children: [{ name: 'worker', pid: stranger.pid, startedAt: 'another time' }],
    })
    expect(await acquireRunLock({ folder })).toMatchObject({ kind: 'acquired', ended: [] })
    expect(isRunning(stranger.identity)).toBe(true)
  })

  it('takes no stranger that has the pid of the supervisor for the supervisor', async () => {
    const stranger = await sleeper()
    await leave({ supervisor: { pid: stranger.pid, startedAt: 'another time' } })
    expect((await acquireRunLock({ folder })).kind).toBe('acquired')
  })

  it.each(['', '{', '{"supervisor":{}}'])('takes a damaged file over: %j', async (text) => {
    await writeFile(join(folder, 'running.json'), text)
    expect((await acquireRunLock({ folder })).kind).toBe('acquired')
  })
})

describe('the children of a start', () => {
  it('have lines, an exit and, when they are Node, a channel that tells of a dead supervisor', async () => {
    const lines: string[] = []
    const script = `process.on('disconnect', () => { console.log('alone'); process.exit(7) }); console.log('up')`
    const child = await startProcess({
      name: 'node',
      command: process.execPath,
      args: ['-e', script],
      onLine: (l) => lines.push(l),
    })
    started.push(child)
    await expect.poll(() => lines).toEqual(['up'])
    child.child.disconnect()
    expect(await child.exited).toEqual({ code: 7, signal: null })
    await expect.poll(() => lines).toEqual(['up', 'alone'])
  })

  it('are killed with their own children when they ignore SIGTERM for the grace period', async () => {
    const lines: string[] = []
    const child = await startProcess({
      name: 'stubborn',
      command: '/bin/sh',
      args: ['-c', `trap '' TERM; sleep 600 & echo $!; wait; wait`],
      onLine: (line) => lines.push(line),
      graceSeconds: 0.1,
    })
    await expect.poll(() => lines.length).toBe(1)
    const grandchild = identifyProcess(Number(lines[0])) as ProcessIdentity
    await child.stop()
    expect(await child.exited).toEqual({ code: null, signal: 'SIGKILL' })
    await expect.poll(() => isRunning(grandchild)).toBe(false)
  })

  it('are refused with their name when the command is missing', async () => {
    const missing = startProcess({ name: 'worker', command: '/no/such/command', args: [], onLine: () => {} })
    await expect(missing).rejects.toThrow(/worker can't be started.*ENOENT/)
  })

  it('are stopped in the reverse of their starting order, also past one that fails to stop', async () => {
    const [stopped, lines]: [string[], string[]] = [[], []]
    const supervisor = createSupervisor({ log: (line) => lines.push(line) })
    supervisor.own('postgres', async () => void stopped.push('postgres'))
    supervisor.own('temporal', () => Promise.reject(new Error('stuck')))
    const worker = await supervisor.start({ name: 'worker', command: 'sleep', args: ['600'], onLine: () => {} })
    void worker.exited.then(() => stopped.push('worker'))
    await Promise.all([supervisor.stop(), supervisor.stop()])
    expect(stopped).toEqual(['worker', 'postgres'])
    expect(lines).toEqual(['temporal did not stop cleanly: stuck'])
  })

  it('are stopped when they come up after the stop has begun', async () => {
    const supervisor = createSupervisor({ log: () => {} })
    const starting = supervisor.start({ name: 'late', command: 'sleep', args: ['600'], onLine: () => {} })
    await supervisor.stop()
    expect(isRunning((await starting).identity)).toBe(false)
  })

  it('are stopped once by a Ctrl-C that arrives twice', async () => {
    const [exits, lines]: [number[], string[]] = [[], []]
    const supervisor = createSupervisor({ log: () => {} })
    const worker = await supervisor.start({ name: 'worker', command: 'sleep', args: ['600'], onLine: () => {} })
    const undo = stopOnSignals(supervisor, { log: (line) => lines.push(line), exit: (code) => exits.push(code) })
    process.emit('SIGINT', 'SIGINT')
    process.emit('SIGINT', 'SIGINT')
    await expect.poll(() => exits).toEqual([0])
    undo()
    expect(lines).toEqual(['SIGINT: stopping'])
    expect(isRunning(worker.identity)).toBe(false)
  })
})
