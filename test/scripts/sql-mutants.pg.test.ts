import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { putFunction } from '../../scripts/mutation/sql.ts'
import { sqlMutantsOf } from '../../scripts/mutation/sql-mutants.ts'
import { functionFiles } from '../../scripts/mutation/sql-tests.ts'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
})
afterAll(() => database?.drop())

it.each(functionFiles())('Postgres takes %s as it is', async (file) => {
  expect(await putFunction(database.url, readFileSync(file, 'utf8'))).toBe(true)
})

it('Postgres refuses a mutant that is no SQL, and takes one that is', async () => {
  const mutants = sqlMutantsOf(readFileSync('drizzle/functions/close_incident.sql', 'utf8'))
  const verdictOf = async (change: string) =>
    putFunction(database.url, mutants.find((mutant) => mutant.change === change)?.text ?? '')
  expect([await verdictOf("status = 'open' → true"), await verdictOf('= → <>')]).toEqual([true, false])
})
