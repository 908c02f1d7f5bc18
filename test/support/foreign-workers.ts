/** Workers of examples/ in other languages: Python with temporalio of PyPI, Go with go.temporal.io/sdk. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { run } from '../../dev/local-process.ts'
import type { ManagedProcess } from '../../dev/processes.ts'
import { startProcess } from '../../dev/processes.ts'
import type { PythonPackage } from './python-environment.ts'
import { findPackage } from './python-environment.ts'

const constraints = join(import.meta.dirname, 'temporalio-constraints.txt')
const TEMPORALIO: PythonPackage = { name: 'temporalio', version: '1.35.0', module: 'temporalio', constraints }
export const STANDARDWEBHOOKS: PythonPackage = {
  ...{ name: 'standardwebhooks', version: '1.1.0', module: 'standardwebhooks', constraints },
}
const EXAMPLES = join(import.meta.dirname, '../../examples')
/** Modules are fetched and compiled once; Go keeps both. */
const GO_SECONDS = 600

export async function startPythonWorker(address: string): Promise<ManagedProcess> {
  const python = await findPackage(TEMPORALIO)
  return startPolling('python', python, [join(EXAMPLES, 'python-handler/worker.py')], address)
}

/** The program is removed with its folder. */
export async function startGoWorker(address: string): Promise<ManagedProcess & { remove(): Promise<void> }> {
  const program = await builtByGo(join(EXAMPLES, 'go-handler'))
  const started = await startPolling('go', program.path, [], address)
  return Object.assign(started, { remove: program.remove })
}

export async function builtByGo(folder: string): Promise<{ path: string; remove(): Promise<void> }> {
  const place = await mkdtemp(join(tmpdir(), 'durable-integrations-go-'))
  const path = join(place, 'program')
  const { code, output } = await run('go', ['build', '-o', path, '.'], { cwd: folder, seconds: GO_SECONDS })
  if (code !== 0) throw new Error(`go build in ${folder}: ${output.trim().slice(-1_000)}`)
  return { path, remove: () => rm(place, { recursive: true, force: true }) }
}

async function startPolling(
  name: string,
  command: string,
  args: readonly string[],
  address: string,
): Promise<ManagedProcess> {
  const lines: string[] = []
  let polling: () => void = () => {}
  const polls = new Promise<void>((resolve) => {
    polling = resolve
  })
  const child = await startProcess({
    ...{ name, command, args },
    env: { TEMPORAL_ADDRESS: address },
    onLine: (line) => {
      lines.push(line)
      if (line === 'polling') polling()
    },
  })
  const ended = child.exited.then((exit) => {
    throw new Error(`${name} ended with ${JSON.stringify(exit)}: ${lines.join('\n')}`)
  })
  ended.catch(() => {})
  await Promise.race([polls, ended])
  return child
}
