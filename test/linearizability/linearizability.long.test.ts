/** The long form of linearizability.e2e.test.ts: five rounds of 10 s under every fault, and every planted bug. */
import { afterAll, beforeAll, describe, it } from 'vitest'
import { seedOfRun } from '../chaos/seeded-kills.ts'
import { sharePostgres } from '../support/postgres-setup.ts'
import { BUGS } from './bugs.ts'
import { Campaign } from './campaign.ts'
import { SUBJECTS } from './lane.ts'
import { findPorcupine } from './porcupine.ts'
import { expectFound, expectLegal, expectLegalAlone } from './verdicts.ts'

const ROUNDS = 5
/** Of each subject alone, as short as those with a bug. */
const QUIET_ROUNDS = 3

let postgres: Awaited<ReturnType<typeof sharePostgres>>
let campaign: Campaign
let program: string
const seed = seedOfRun()

beforeAll(async () => {
  program = await findPorcupine()
  postgres = await sharePostgres()
  campaign = await Campaign.begin(postgres.url)
})
afterAll(async () => {
  await campaign?.end()
  await postgres?.release()
})

describe('what several processes do at once', () => {
  it.each(Array.from({ length: ROUNDS }, (_, at) => seed + at))(
    'has an order in which the models allow it, while processes are killed and stand still, and sessions are cut (seed %i)',
    async (own) => {
      await expectLegal(campaign, program, { seed: own, seconds: 10, kills: 2, stops: 2, cuts: 3 })
    },
  )

  it.each(BUGS)('has no order once $name', async (bug) => {
    await expectFound(campaign, program, bug, seed)
  })

  it.each(SUBJECTS)('has one again without a bug (%s)', async (subject) => {
    for (let round = 0; round < QUIET_ROUNDS; round += 1)
      await expectLegalAlone(campaign, program, subject, seed + round)
  })
})
