import { expect, it, vi } from 'vitest'
import { ManualClock } from '../../../src/testing/manual-clock.ts'
import { startPostgres } from '../../../src/testing/postgres/wire-postgres.ts'

vi.mock('@electric-sql/pglite', () => {
  throw Object.assign(new Error("Cannot find package '@electric-sql/pglite'"), { code: 'ERR_MODULE_NOT_FOUND' })
})

it('says what to install when the optional package is missing', async () => {
  const started = startPostgres({ clock: new ManualClock(), prefix: 'integration', schema: 'public' }, async () => {})
  await expect(started).rejects.toMatchObject({
    code: 'embedded_database_missing',
    message: expect.stringContaining('npm install --save-dev @electric-sql/pglite@0.5'),
  })
})
