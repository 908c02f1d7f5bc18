/** The example host's own tests, run as that host would run them: a process of its own, no server, quick. */
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, it } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))
const MAX_SECONDS = 3

/** Notes every socket that listens, in whichever thread of whichever process. */
const WATCH = `
import { appendFileSync } from 'node:fs'
import { Server } from 'node:net'
const listen = Server.prototype.listen
Server.prototype.listen = function (...given) {
  appendFileSync(process.env.LISTENED_FILE, JSON.stringify(given[0]) + '\\n')
  return listen.apply(this, given)
}
`

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'host-example-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

it(`are done in less than ${MAX_SECONDS} s with a warm snapshot, and open no listening socket`, async () => {
  await runHostTests() // leaves the snapshot and the compiled sources
  const { seconds, tests } = await runHostTests()
  console.log(`The example host's ${tests} tests took ${seconds} s of the ${MAX_SECONDS} s allowed.`)
  expect(tests).toBeGreaterThan(0)
  expect(await readFile(join(folder, 'listened'), 'utf8')).toBe('')
  expect(seconds).toBeLessThan(MAX_SECONDS)
})

async function runHostTests(): Promise<{ seconds: number; tests: number }> {
  const watch = join(folder, 'watch.mjs')
  const listened = join(folder, 'listened')
  await writeFile(watch, WATCH)
  await writeFile(listened, '')
  const { stdout } = await promisify(execFile)(
    process.execPath,
    // A host imports this package compiled; here its sources are, so what Vite made of them is kept between the two runs.
    [join(root, 'node_modules/vitest/vitest.mjs'), 'run', '--project', 'examples', '--experimental.fsModuleCache'],
    {
      cwd: root,
      env: {
        PATH: process.env.PATH,
        HOME: process.env.HOME,
        NO_COLOR: '1',
        LISTENED_FILE: listened,
        NODE_OPTIONS: `--import=${pathToFileURL(watch).href}`,
      },
    },
  )
  const [, duration] = /Duration\s+([\d.]+m?s)/.exec(stdout) ?? []
  const [, tests] = /Tests\s+(\d+) passed/.exec(stdout) ?? []
  if (duration === undefined || tests === undefined) throw new Error(`not the runner's usual report:\n${stdout}`)
  const amount = Number.parseFloat(duration)
  return { seconds: duration.endsWith('ms') ? amount / 1_000 : amount, tests: Number(tests) }
}
