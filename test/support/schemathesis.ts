/** schemathesis (https://schemathesis.readthedocs.io): makes requests of an OpenAPI document, and looks whether the answers are as it says. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { run } from '../../dev/local-process.ts'
import type { PythonPackage } from './python-environment.ts'
import { findPackage } from './python-environment.ts'

export const SCHEMATHESIS: PythonPackage = {
  name: 'schemathesis',
  version: '4.32.5',
  module: 'schemathesis.cli',
  constraints: join(import.meta.dirname, 'schemathesis-constraints.txt'),
}
/** It ends what it has begun, and says what it has found. */
const PATIENCE_SECONDS = 120

/** Runs it for `seconds`. It keeps what it has learned where it runs: in a folder that is removed. */
export async function schemathesis(
  args: readonly string[],
  seconds: number,
): Promise<{ code: number | null; output: string }> {
  const python = await findPackage(SCHEMATHESIS)
  const folder = await mkdtemp(join(tmpdir(), 'durable-integrations-schemathesis-'))
  try {
    const all = ['-m', SCHEMATHESIS.module, ...args, '--max-time', String(seconds)]
    return await run(python, all, { cwd: folder, seconds: seconds + PATIENCE_SECONDS })
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
