/** `npm run soak`: the whole system at a third of its capacity, and the slope of all that may leak. What it says: docs/soak.md. */
import { appendFileSync } from 'node:fs'
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { machineLine } from '../chaos/campaign/report.ts'
import { installPackage } from '../support/installed-package.ts'
import type { SoakArguments } from './arguments.ts'
import { readArguments, USAGE } from './arguments.ts'
import { isFlat, soakLines } from './report.ts'
import { runSoak } from './soak.ts'

const EXIT_NOT_FLAT = 1
const EXIT_USAGE = 2
/** Samples of soaks, a line each, and what came of them in the last: git does not know the folder. */
const SAMPLES = fileURLToPath(new URL('../../.data/soak/', import.meta.url))

process.exit(await main(process.argv.slice(2)))

async function main(words: readonly string[]): Promise<number> {
  let asked: SoakArguments | null
  try {
    asked = readArguments(words)
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${USAGE}`)
    return EXIT_USAGE
  }
  if (asked === null) {
    console.log(USAGE)
    return 0
  }
  const began = new Date().toISOString()
  const machine = machineLine()
  console.log(`${began}, ${machine}`)
  const installed = installPackage()
  try {
    const startedAt = performance.now()
    const say = (line: string): void => console.log(`${Math.round((performance.now() - startedAt) / 1_000)} s  ${line}`)
    await mkdir(SAMPLES, { recursive: true })
    const path = join(SAMPLES, `${began.replace(/[:.]/g, '-')}.jsonl`)
    const write = (line: object): void => appendFileSync(path, `${JSON.stringify(line)}\n`)
    const soak = await runSoak({ ...asked, installed, say, keep: write })
    const { samples: _, ...outcome } = soak
    write({ began, machine, minutes: asked.minutes, ...outcome })
    const flat = soak.judged.filter(({ verdict }) => verdict === 'flat').length
    console.log(['', ...soakLines(soak), '', `${flat} of ${soak.judged.length} flat. The samples: ${path}`].join('\n'))
    return isFlat(soak) ? 0 : EXIT_NOT_FLAT
  } finally {
    await rm(installed, { recursive: true, force: true })
  }
}
