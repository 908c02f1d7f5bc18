/**
 * The tutorials, done as they stand by a reader who has nothing but a clone: `npm ci && npm start`, the packed package, a project of
 * its own for each page, real processes on the Postgres and the Temporal server of that `npm start`.
 */
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { RunningClone } from '../deploy/clone.ts'
import { installClone, makeClone, startClone } from '../deploy/clone.ts'
import { follow } from './follow.ts'
import { patternOf, settled, stepsOf } from './steps.ts'

const PAGES = fileURLToPath(new URL('../../docs/tutorials/', import.meta.url))
const START = 'npm ci && npm start\n'
const PACK = /^\(cd durable-integrations && npm run build && npm pack /
const PAGE_MS = 900_000

let folder: string
let clone: RunningClone
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tutorials-'))
  const path = String(process.env.PATH)
  const cloned = join(folder, 'durable-integrations')
  makeClone(cloned)
  installClone(cloned, path)
  clone = await startClone(cloned, path)
}, PAGE_MS)
afterAll(async () => {
  await clone?.stop()
  await rm(folder, { recursive: true, force: true })
})

it('shows what npm start prints', async () => {
  const steps = stepsOf(readFileSync(join(PAGES, 'getting-started.md'), 'utf8'))
  const start = steps.find((step) => step.kind === 'commands' && step.text === START)
  const prints = start?.kind === 'commands' ? (start.prints ?? '') : ''
  await clone.said(/run 1 finished/)
  await clone.said(/webhook +#1 processed/)
  // Webhooks and syncs come in any order.
  for (const line of prints.split('\n').filter((line) => line.trim() !== '' && line.trim() !== '…'))
    expect(
      clone.lines.some((printed) => patternOf(line).test(settled(printed))),
      line,
    ).toBe(true)
})

it.each(readdirSync(PAGES).toSorted((a, b) => Number(b === 'getting-started.md') - Number(a === 'getting-started.md')))(
  'does what %s says',
  async (page) => {
    let isPacked = execFileSync('ls', [folder], { encoding: 'utf8' }).includes('.tgz')
    await follow(join(PAGES, page), {
      folder,
      env: { PATH: String(process.env.PATH), HOME: String(process.env.HOME), NO_COLOR: '1' },
      isDone: (commands) => {
        if (commands === START) return true
        if (!PACK.test(commands)) return false
        const wasPacked = isPacked
        isPacked = true
        return wasPacked
      },
    })
  },
  PAGE_MS,
)
