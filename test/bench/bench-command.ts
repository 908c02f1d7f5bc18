/** Runs a bench as `npm run bench` does, on the sources as they are. */
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
/** docs/performance.md promises 50 s of a machine that does nothing else; ten more for the start under the test. */
export const QUICK_SECONDS = 60

export function bench(...words: string[]): Promise<{ code: number; stdout: string; stderr: string; seconds: number }> {
  const startedAt = performance.now()
  const script = ['--import', 'tsx', '--conditions=durable-source', 'bench/main.ts', ...words]
  return new Promise((resolve) => {
    execFile(process.execPath, script, { cwd: ROOT, timeout: 170_000 }, (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === 'number' ? error.code : -1
      resolve({ code, stdout, stderr, seconds: (performance.now() - startedAt) / 1_000 })
    })
  })
}
