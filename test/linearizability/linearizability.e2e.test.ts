/**
 * Histories of three processes, one killed, judged by Porcupine against the models in test/model/porcupine/: the code as it
 * is is legal, and one planted bug of each kind is not. All bugs and longer histories: linearizability.long.test.ts.
 */
import { afterAll, beforeAll, describe, it } from 'vitest'
import { seedOfRun } from '../chaos/seeded-kills.ts'
import { sharePostgres } from '../support/postgres-setup.ts'
import { BUGS } from './bugs.ts'
import { Campaign } from './campaign.ts'
import { findPorcupine } from './porcupine.ts'
import { expectFound, expectLegal } from './verdicts.ts'

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
  it.each(BUGS.filter(({ isInShortRun }) => isInShortRun === true))('has no order once $name', async (bug) => {
    await expectFound(campaign, program, bug, seed)
  })

  it('has an order in which the models allow it, also when a process is killed', async () => {
    await expectLegal(campaign, program, { seed, seconds: 5, kills: 1 })
  })
})
