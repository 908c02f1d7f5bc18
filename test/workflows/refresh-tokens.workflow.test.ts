import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Activities } from '../../src/activities/index.ts'
import { createActivities } from '../../src/activities/index.ts'
import type { RefreshTokensInput } from '../../src/oauth/oauth-jobs.ts'
import { WORKFLOW } from '../../src/workflows/ids.ts'
import { scriptedOAuth } from '../oauth/scripted-oauth.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import { testIntegrations } from '../support/integrations.ts'
import { makeIntegration } from '../support/rows.ts'
import type { Stage } from './stage.ts'
import { countEvents, openStage } from './stage.ts'

const HOUR_MS = 3_600_000
/**
 * The Schedule comes each ten minutes, and the time-skipping server knows no Schedules: test/activities/token-activities.pg.test.ts has
 * passes of ten minutes.
 */
const HOURLY = '0 * * * *'

let stage: Stage
let database: TestDatabase
beforeAll(async () => {
  ;[stage, database] = await Promise.all([openStage(), createTestDatabase()])
})
afterAll(async () => {
  await stage?.close()
  await database?.drop()
})

describe('refreshing tokens', () => {
  it.each<[string, [RefreshTokensInput?]]>([
    [WORKFLOW.refreshTokens, [{ integrationId: 7 }]],
    ['integrations:refresh-tokens', []],
  ])('as %s of %j is one activity, whose counts it gives back', async (workflow, args) => {
    const counts = { checked: 3, refreshed: 1, failed: 2, reauthRequired: 1 }
    const calls: RefreshTokensInput[] = []
    const refreshTokensNow: Activities['refreshTokensNow'] = async (input) => {
      calls.push(input)
      return counts
    }
    await stage.play({ refreshTokensNow }, async ({ client, ...options }) => {
      const run = await client.start(workflow, { ...options, args })
      expect(await run.result()).toEqual(counts)
      // By the command's name it first looks for Postgres.
      const steps = workflow === WORKFLOW.refreshTokens ? 1 : 2
      expect(await countEvents(run, 'activityTaskScheduledEventAttributes')).toBe(steps)
    })
    expect(calls).toEqual([args[0] ?? {}])
  })

  it('goes on when the database comes back', async () => {
    let tries = 0
    const refreshTokensNow: Activities['refreshTokensNow'] = async () => {
      tries += 1
      if (tries < 4) throw new Error('the connection was refused')
      return { checked: 0, refreshed: 0, failed: 0, reauthRequired: 0 }
    }
    await stage.play({ refreshTokensNow }, async ({ client, ...options }) => {
      await client.execute(WORKFLOW.refreshTokens, { ...options, args: [{}] })
    })
    expect(tries).toBe(4)
  })

  it('over days refreshes what is due, goes on after an outage, and gives up what no try mends', async () => {
    let nowMs = 0
    let beganMs = 0
    const hours = (): number => (nowMs - beganMs) / HOUR_MS
    /** Hours since the first pass at which the provider was asked for each. */
    const asked: Record<string, number[]> = { short: [], idle: [], dead: [] }
    const test = testIntegrations(database.url, {
      clock: { now: () => new Date(nowMs) },
      providers: {
        oauth: scriptedOAuth(({ name }) => {
          asked[name]?.push(hours())
          if (name === 'dead' || (hours() > 20 && hours() < 26)) throw new RangeError('the token endpoint is away')
          const lifeMs = name === 'short' ? HOUR_MS : 90 * 24 * HOUR_MS
          return { access_token: `access-${nowMs}`, token_expires_at: new Date(nowMs + lifeMs).toISOString() }
        }),
      },
    })
    const real = createActivities(test.framework)
    const refreshTokensNow: Activities['refreshTokensNow'] = async (input) => {
      // To the hour at which the pass was due: how late it came is the machine's affair.
      nowMs = Math.floor((await stage.env.currentTimeMs()) / HOUR_MS) * HOUR_MS
      beganMs ||= nowMs
      return real.refreshTokensNow(input)
    }
    try {
      for (const name of Object.keys(asked))
        await makeIntegration(test, 'oauth', { name, credentials: { access_token: 'old', refresh_token: 'seed' } })
      await stage.play({ refreshTokensNow }, async ({ client, ...options }) => {
        const kept = await client.start(WORKFLOW.refreshTokens, { ...options, args: [{}], cronSchedule: HOURLY })
        await stage.env.sleep(108 * HOUR_MS)
        await kept.terminate()
      })
      const upTo = (end: number, from = 0): number[] => Array.from({ length: end - from + 1 }, (_, n) => from + n)
      const seen = (name: string) => asked[name]?.filter((hour) => hour <= 106)
      // Tries after ten minutes, an hour, six hours.
      expect(seen('short')).toEqual([...upTo(20), 21, 22, 23, ...upTo(106, 29)])
      // Once a day; the outage costs two hours.
      expect(seen('idle')).toEqual([0, 24, 25, 26, 50, 74, 98])
      expect(seen('dead')).toEqual([0, 1, 2, 8, 32, 56, 80, 104])
      const summaries = []
      for await (const { name, reauthRequired } of test.integrations.admin.summaries())
        summaries.push([name, reauthRequired])
      expect(summaries).toEqual([
        ['short', false],
        ['idle', false],
        ['dead', true],
      ])
    } finally {
      await test.close()
    }
  })
})
