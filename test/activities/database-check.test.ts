import { describe, expect, it } from 'vitest'
import { databaseCheckActivities } from '../../src/activities/database-check.ts'
import { SchemaBehind } from '../../src/framework/errors.ts'
import { runActivity } from '../support/activities.ts'
import { testIntegrations } from '../support/integrations.ts'

describe('the look for Postgres before a command', () => {
  it('fails with the address where nobody answers, is tried again, and writes no line', async () => {
    const test = testIntegrations('postgres://nobody@127.0.0.1:1/nothing')
    const { checkDatabase } = databaseCheckActivities(() => test.integrations.ready())
    await expect(runActivity(checkDatabase, undefined)).rejects.toMatchObject({
      type: 'backend_unreachable',
      nonRetryable: false,
      message: expect.stringMatching(/^Postgres was not reached at 127\.0\.0\.1:1\. /),
    })
    expect(test.lines).toEqual([])
    await test.close()
  })

  it('leaves whatever else is wrong to the work', async () => {
    const { checkDatabase } = databaseCheckActivities(() => Promise.reject(new SchemaBehind(3, 4)))
    await expect(runActivity(checkDatabase, undefined)).resolves.toBeUndefined()
  })
})
