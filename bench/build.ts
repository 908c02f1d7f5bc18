/** What is measured is what a host runs: the package as `npm run build` makes it. Method: docs/performance.md, "Method". */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('../', import.meta.url))

/** Builds the package, unless this process reads its sources anyway (`--conditions=durable-source`), as the tests of the benches do. */
export async function builtFirst(): Promise<void> {
  if (import.meta.resolve('durable-integrations').endsWith('/src/index.ts')) return
  // What it says goes to stderr: a pipe gets the figures only.
  const build = spawn('npm', ['run', 'build', '--silent'], { cwd: ROOT, stdio: ['ignore', process.stderr, 'inherit'] })
  const [code] = (await once(build, 'close')) as [number | null]
  if (code !== 0) throw new Error(`\`npm run build\` ended with ${code}.`)
}
