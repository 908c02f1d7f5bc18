/** The short form of `npm run chaos`: a minute, fifteen faults. What clocks and disks do needs more than every machine permits. */
import { spawnSync } from 'node:child_process'
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

/** With every fault that this machine permits, as `npm run chaos` has them. */
it.each([
  { seed: 3, minutes: 15, broke: 'the time of a handler, the order of its key' },
  { seed: 11, minutes: 3, broke: 'the end of a worker that loses Postgres while it starts' },
])(
  'keeps every promise under the faults of seed $seed, which once broke $broke',
  ({ seed, minutes }) => {
    const campaign = spawnSync('npm', ['run', 'chaos', '--', `--seed=${seed}`, `--minutes=${minutes}`], {
      encoding: 'utf8',
    })
    expect(campaign.status, campaign.stdout + campaign.stderr).toBe(0)
    expect(campaign.stdout).toContain(' promises kept, 0 broken.')
  },
  30 * 60_000,
)
