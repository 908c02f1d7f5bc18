/** `npm run chaos`: one campaign over the whole system, by a seed. What it does: docs/reliability.md. */
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { installPackage } from '../../support/installed-package.ts'
import { findPgbouncer } from '../../support/pgbouncer.ts'
import type { CampaignArguments } from './arguments.ts'
import { readArguments, USAGE } from './arguments.ts'
import { runCampaign } from './campaign.ts'
import { findFaketime } from './clocks.ts'
import { mountScarceDisk } from './disk.ts'
import type { FaultKind } from './faults.ts'
import { FAULT_KINDS } from './faults.ts'
import { takeCampaignPictures } from './pictures.ts'
import { faultsByKind, machineLine, verdictLines, writeStory } from './report.ts'

const EXIT_BROKEN = 1
const EXIT_USAGE = 2
/** Stories of campaigns: git does not know the folder. */
const STORIES = fileURLToPath(new URL('../../../.data/chaos/', import.meta.url))

process.exit(await main(process.argv.slice(2)))

async function main(words: readonly string[]): Promise<number> {
  let asked: CampaignArguments | null
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
  const { seed, minutes, perMinute, hasPooler, temporalServer } = asked
  if (hasPooler) findPgbouncer()
  const missing = await whatIsMissing()
  const refused = asked.kinds?.filter((kind) => missing.has(kind)) ?? []
  if (refused.length > 0) {
    for (const kind of refused) console.error(`--faults ${kind}: ${missing.get(kind)}`)
    return EXIT_USAGE
  }
  const kinds = asked.kinds ?? FAULT_KINDS.filter((kind) => !missing.has(kind))
  const command = [
    `npm run chaos -- --seed ${seed} --minutes ${minutes} --per-minute ${perMinute} --faults ${kinds.join(',')}`,
    ...(hasPooler ? ['--pooler'] : []),
    ...(temporalServer === 'full' ? ['--full-server'] : []),
  ].join(' ')
  const head = [`seed ${seed}: ${command}`, `${new Date().toISOString()}, ${machineLine()}`]
  for (const line of head) console.log(line)
  for (const [kind, why] of missing) if (!kinds.includes(kind)) console.log(`without ${kind}: ${why}`)

  const installed = installPackage()
  try {
    const startedAt = performance.now()
    const say = (line: string): void => console.log(`${Math.round((performance.now() - startedAt) / 1_000)} s  ${line}`)
    const campaign = await runCampaign({
      seed,
      minutes,
      perMinute,
      kinds,
      machine: {
        installed,
        faketime: kinds.includes('clock') ? findFaketime() : null,
        hasScarceDisk: kinds.includes('disk'),
        hasPooler,
        temporalServer,
      },
      say,
    })
    const { verdicts, story } = campaign
    await mkdir(STORIES, { recursive: true })
    const path = await writeStory(STORIES, `${seed}-${new Date().toISOString().replace(/[:.]/g, '-')}`, campaign, head)
    if (asked.pictures !== null) await takeCampaignPictures(campaign.stack, asked.pictures)
    await campaign.stop()
    console.log(
      ['', ...verdictLines(verdicts), '', `faults and restarts: ${story.length}`, ...faultsByKind(story)].join('\n'),
    )
    const broken = verdicts.filter((verdict) => verdict.broken.length > 0).length
    console.log(`\n${verdicts.length - broken} promises kept, ${broken} broken. The story: ${path}\nAgain: ${command}`)
    return broken === 0 ? 0 : EXIT_BROKEN
  } finally {
    await rm(installed, { recursive: true, force: true })
  }
}

/** Faults that can't be brought about here, each with why and what would help. */
async function whatIsMissing(): Promise<Map<FaultKind, string>> {
  const missing = new Map<FaultKind, string>()
  if (findFaketime() === null) missing.set('clock', 'libfaketime is not there: `apt-get install libfaketime`')
  const folder = await mkdtemp(join(tmpdir(), 'durable-disk-'))
  const disk = mountScarceDisk(folder)
  if (typeof disk === 'string') missing.set('disk', disk)
  else await disk.unmount()
  await rm(folder, { recursive: true, force: true })
  return missing
}
