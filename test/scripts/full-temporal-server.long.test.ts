/** The script that runs a command against a whole Temporal server. The first time on a machine it builds that server. */
import { existsSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import type { ManagedProcess } from '../../dev/processes.ts'
import { identifyProcess, startProcess } from '../../dev/processes.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const SCRIPT = ['--conditions=durable-source', '--import', 'tsx', 'scripts/full-temporal-server.ts']
const MINUTE_MS = 60_000

interface Script {
  readonly process: ManagedProcess
  readonly lines: readonly string[]
  /** Resolves with what the script says once its server is up. */
  readonly up: Promise<{ pid: number; folder: string }>
}

async function startScript(...words: readonly string[]): Promise<Script> {
  const lines: string[] = []
  let onUp: (up: { pid: number; folder: string }) => void = () => {}
  const up = new Promise<{ pid: number; folder: string }>((resolve) => {
    onUp = resolve
  })
  const started = await startProcess({
    name: 'full-temporal-server',
    command: process.execPath,
    args: [...SCRIPT, ...words],
    cwd: ROOT,
    onLine: (line) => {
      lines.push(line)
      const [, pid, logFile] = /^Temporal server: .*, pid (\d+), log (.+)$/.exec(line) ?? []
      if (pid !== undefined && logFile !== undefined) onUp({ pid: Number(pid), folder: dirname(logFile) })
    },
  })
  return { process: started, lines, up }
}

/** @throws with what it said, when it ended before its server was up */
async function untilUp({ process: { exited }, lines, up }: Script) {
  const ended = exited.then((): never => {
    throw new Error(lines.join('\n'))
  })
  return Promise.race([up, ended])
}

it(
  'runs the demo, and leaves nothing behind',
  async () => {
    const script = await startScript('--', 'npm', 'run', 'demo')
    const { pid, folder } = await untilUp(script)
    expect(existsSync(folder)).toBe(true)
    const exit = await script.process.exited
    expect(exit.code, script.lines.slice(-40).join('\n')).toBe(0)
    const summary: unknown = JSON.parse(script.lines.find((line) => line.startsWith('{"ok":')) ?? 'null')
    expect(summary).toMatchObject({ ok: true, faults: [], webhooks: { processed: 329, handlerRuns: 329 } })
    expect(identifyProcess(pid)).toBeNull()
    expect(existsSync(folder)).toBe(false)
  },
  10 * MINUTE_MS,
)

it(
  "ends with the command's exit code, which knows where the server is",
  async () => {
    const script = await startScript('--', 'sh', '-c', 'echo "at $TEMPORAL_ADDRESS in $TEMPORAL_NAMESPACE"; exit 7')
    expect(await script.process.exited).toMatchObject({ code: 7 })
    expect(script.lines.join('\n')).toMatch(/^at 127\.0\.0\.1:\d+ in default$/m)
  },
  3 * MINUTE_MS,
)

it.each(['SIGINT', 'SIGTERM'] as const)(
  'without a command it stays until %s, and takes the server along',
  async (signal) => {
    const script = await startScript()
    const { pid, folder } = await untilUp(script)
    script.process.child.kill(signal)
    expect(await script.process.exited).toMatchObject({ code: 130 })
    expect(identifyProcess(pid)).toBeNull()
    expect(existsSync(folder)).toBe(false)
  },
  3 * MINUTE_MS,
)

it('takes a command behind -- only', async () => {
  for (const words of [['npm', 'run', 'demo'], ['--']]) {
    const script = await startScript(...words)
    expect(await script.process.exited).toMatchObject({ code: 2 })
    expect(script.lines.join('\n')).toContain(
      'Usage: npx tsx --conditions=durable-source scripts/full-temporal-server.ts',
    )
  }
})
