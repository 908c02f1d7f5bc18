/**
 * A whole stack of a test file's own: real processes on free ports, its data in a temp folder.
 *
 * One a file: the host's module and the environment belong to the process, and each file has one.
 */
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Sql } from 'postgres'
import postgres from 'postgres'
import { acquireRunLock } from '../../dev/lock.ts'
import { createSupervisor } from '../../dev/processes.ts'
import type { Restarting, Stack, StackOptions } from '../../dev/stack.ts'
import { startStack } from '../../dev/stack.ts'
import { newDataFolder } from '../support/data-folder.ts'
import { installedBundle, installedStack } from '../support/installed-script.ts'

const POLL_MS = 20
/** Who waits for long asks less often: on a machine of two cores the questions would slow down what they ask for. */
const PATIENT_POLL_MS = 100
const PATIENT_AFTER_SECONDS = 3

export interface OwnStack extends Stack {
  readonly folder: string
  readonly sql: Sql
  /** What the processes said so far, `<process> <line>`. */
  readonly lines: readonly string[]
  stop(): Promise<void>
}

export async function startOwnStack(options: Pick<StackOptions, 'env' | 'sandboxEntries'> = {}): Promise<OwnStack> {
  const folder = await mkdtemp(join(tmpdir(), 'durable-e2e-'))
  // Else the cluster of a root, which runs as another user, lies elsewhere and stays behind.
  await chmod(folder, 0o711)
  const lines: string[] = []
  const supervisor = createSupervisor({ log: (line) => lines.push(`supervisor ${line}`) })
  const cleanUp = async (): Promise<void> => {
    await supervisor.stop()
    await rm(folder, { recursive: true, force: true })
  }
  try {
    await newDataFolder(join(folder, 'postgres'))
    const outcome = await acquireRunLock({ folder })
    if (outcome.kind !== 'acquired') throw new Error(`${folder} is new and yet in use`)
    const stack = await startStack({
      folder,
      supervisor,
      lock: outcome.lock,
      checklist: { step: (_, work) => work(() => {}) },
      onLine: (source, line) => {
        lines.push(`${source} ${line}`)
        if (process.env.TEST_SERVER_LOGS) process.stderr.write(`${source} ${line}\n`)
      },
      anyPorts: true,
      compiled: installedStack(),
      ...options,
      env: { ...installedBundle(), ...options.env },
    })
    const sql = postgres(stack.databaseUrl, { max: 4, fetch_types: false, onnotice: () => {} })
    supervisor.own('the test', () => sql.end({ timeout: 5 }))
    return Object.assign(stack, { folder, sql, lines, stop: cleanUp })
  } catch (error) {
    await cleanUp()
    throw error
  }
}

/** `kill -9`. Ends when the process is gone; `back` ends when its successor is ready. */
export async function killNine(kept: Restarting): Promise<{ back: Promise<void> }> {
  const { pid } = kept
  const back = kept.nextReady()
  process.kill(pid, 'SIGKILL')
  await until(`process ${pid} is gone`, async () => !isThere(pid), 5)
  return { back }
}

/**
 * The same as {@link killNine}, at a moment when this holds: asked while the process stands still, so that a test that was held up
 * itself does not come too late.
 */
export async function killNineInTheAct(
  kept: Restarting,
  what: string,
  isInTheAct: () => Promise<boolean>,
): Promise<{ back: Promise<void> }> {
  const { pid } = kept
  await until(what, async () => {
    process.kill(pid, 'SIGSTOP')
    if (await isInTheAct()) return true
    process.kill(pid, 'SIGCONT')
    return false
  })
  return killNine(kept)
}

export function isThere(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

/** Looks until there is an answer. @returns how many seconds it took */
export async function until(what: string, look: () => Promise<boolean>, seconds = 60): Promise<number> {
  const startedAt = performance.now()
  const passed = (): number => (performance.now() - startedAt) / 1_000
  while (!(await look())) {
    if (passed() > seconds) throw new Error(`Within ${seconds} s it did not come to pass that ${what}.`)
    await sleep(passed() < PATIENT_AFTER_SECONDS ? POLL_MS : PATIENT_POLL_MS)
  }
  return Math.round(passed() * 10) / 10
}

/** Takes locks until they are released: what needs them stops at a known line, and a kill meets it there. */
export async function holdLocks(databaseUrl: string, statement: string): Promise<{ release(): Promise<void> }> {
  const sql = postgres(databaseUrl, { max: 1, fetch_types: false, onnotice: () => {} })
  await sql.unsafe(`begin; ${statement}`)
  return {
    async release() {
      await sql.unsafe('rollback')
      await sql.end({ timeout: 5 })
    },
  }
}
