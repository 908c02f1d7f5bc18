/** The short form of `npm run chaos`: a minute, fifteen faults. What clocks and disks do needs more than every machine permits. */
import { expect, inject, it } from 'vitest'
import { seedOfRun } from '../seeded-kills.ts'
import { runCampaign } from './campaign.ts'
import { verdictLines } from './report.ts'

it('keeps every promise under a dozen faults', async () => {
  const seed = seedOfRun()
  console.log(`CHAOS_SEED=${seed}`)
  const campaign = await runCampaign({
    seed,
    minutes: 1,
    perMinute: 15,
    kinds: ['kill', 'stop', 'cut', 'slow'],
    machine: {
      installed: inject('installed'),
      faketime: null,
      hasScarceDisk: false,
      hasPooler: false,
      temporalServer: 'dev',
    },
    say: (line) => console.log(line),
  })
  await campaign.stop()
  console.log(verdictLines(campaign.verdicts).join('\n'))
  expect(campaign.verdicts.filter(({ broken }) => broken.length > 0)).toEqual([])
  expect(campaign.story.length).toBeGreaterThanOrEqual(15)
})
