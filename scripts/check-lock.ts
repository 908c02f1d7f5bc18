/**
 * A step of `npm run check`: package-lock.json installs with npm 10, which comes with Node 20 and 22, and with npm 11.
 *
 * Each of them plans a clean install in a folder of its own. A lock that has passed is not planned again until it,
 * package.json or the list below changes.
 */
import { createHash } from 'node:crypto'
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { run } from '../dev/local-process.ts'

/** 10.8.2 comes with Node 20.20, the oldest Node that package.json allows. */
const NPM_VERSIONS = ['10.8.2', '10', '11']
const FILES = ['package.json', 'package-lock.json', '.npmrc']
const SECONDS = 120
const LINES_SHOWN = 12

const root = fileURLToPath(new URL('..', import.meta.url))
const passed = join(root, 'node_modules', '.cache', 'durable-integrations', 'lock-passed')

const hash = createHash('sha256').update(NPM_VERSIONS.join())
for (const file of FILES) hash.update(readFileSync(join(root, file)))
const digest = hash.digest('hex')

if (!existsSync(passed) || readFileSync(passed, 'utf8') !== digest) {
  const refusals = (await Promise.all(NPM_VERSIONS.map(refusalOf))).filter((refusal) => refusal !== null)
  for (const refusal of refusals) console.error(refusal)
  if (refusals.length > 0) {
    console.error('How to get a lock that each of them accepts: CONTRIBUTING.md, "Dependencies".')
    process.exit(1)
  }
  mkdirSync(join(passed, '..'), { recursive: true })
  writeFileSync(passed, digest)
}

/** What this npm says against the lock; null when it would install from it. */
async function refusalOf(version: string): Promise<string | null> {
  const folder = mkdtempSync(join(tmpdir(), 'durable-integrations-lock-'))
  try {
    for (const file of FILES) copyFileSync(join(root, file), join(folder, file))
    const args = ['--yes', `npm@${version}`, 'ci', '--dry-run', '--ignore-scripts', '--loglevel=error']
    const { code, output } = await run('npx', args, { cwd: folder, seconds: SECONDS })
    if (code === 0) return null
    const lines = output.split('\n').filter((line) => line.startsWith('npm error'))
    return [`npm ${version} refuses the lock:`, ...lines.slice(0, LINES_SHOWN), ''].join('\n')
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
