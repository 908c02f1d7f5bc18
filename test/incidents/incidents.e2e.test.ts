/** 64 openers in four real processes at once: health, breaker and staleness of one integration make one incident. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { TestDatabase } from '../support/database.ts'
import { createTestDatabase } from '../support/database.ts'
import { installedScript } from '../support/installed-script.ts'
import type { TestIntegrations } from '../support/integrations.ts'
import { encryptionKey, testIntegrations } from '../support/integrations.ts'
import { sharePostgres } from '../support/postgres-setup.ts'
import { syncProvider } from '../support/providers.ts'
import { makeIntegration, setIntegration } from '../support/rows.ts'
import { startTalkingProcess } from '../support/talking-process.ts'
import type { Said } from './incidents-process.ts'

const SCRIPT = installedScript(new URL('incidents-process.ts', import.meta.url))
const PROCESSES = 4
const OPENERS_EACH = 16
/** Health gets worse twice, and the breaker opens, within the failures of the four. None disables: a disabled one would not become stale. */
const CONFIG = {
  health: { degraded_after: 3, failing_after: 8, disabled_after: 1_000 },
  circuit_breaker: { minimum_requests: 5 },
}
const SOURCES = ['health_degraded health', 'threshold_reached circuit', 'sync_stale sync']

const encryptionKeys = encryptionKey('k1')
let postgres: Awaited<ReturnType<typeof sharePostgres>>
let database: TestDatabase
let test: TestIntegrations

beforeAll(async () => {
  postgres = await sharePostgres()
  database = await createTestDatabase({ adminUrl: postgres.url })
  test = testIntegrations(database.url, { encryptionKeys, providers: { acme: syncProvider(() => {}) } })
  await test.integrations.ready()
})
afterAll(async () => {
  await test?.close()
  await database?.drop()
  await postgres?.release()
})

it('one open incident, whose source is the first cause and whose peak is the worst', async () => {
  // Every state of the row that was ever committed, in order.
  await test.sql`create table states (id bigint generated always as identity, op text, incident bigint, reason text, source text, peak text)`
  await test.sql.unsafe(`
    create function keep() returns trigger language plpgsql as $$ begin
      insert into states (op, incident, reason, source, peak) values (tg_op, new.id, new.reason, new.source, new.peak_severity); return null; end $$;
    create trigger keep after insert or update on integration_incidents for each row execute function keep()`)
  const { id } = await makeIntegration(test, 'acme')
  await setIntegration(test, id, { lastSyncedAt: new Date(Date.now() - 1_000_000_000) })

  const openers = await Promise.all(
    Array.from({ length: PROCESSES }, () =>
      startTalkingProcess<Said>(SCRIPT, [String(id), String(OPENERS_EACH)], {
        DATABASE_URL: database.url,
        INTEGRATIONS_ENCRYPTION_KEYS: encryptionKeys,
        CONFIG: JSON.stringify(CONFIG),
      }),
    ),
  )
  try {
    await Promise.all(openers.map(({ next }) => next('ready')))
    const done = openers.map(({ next }) => next('done'))
    for (const { process: child } of openers) child.child.send('go')
    const told = await Promise.all(done)
    await Promise.all(openers.map(({ process: child }) => child.exited))

    const incidents =
      await test.sql`select id, status, source, reason, peak_severity, closed_at from integration_incidents`
    const [row] = await test.sql<{ health_status: string; stale: boolean; state: string }[]>`
      select health_status, sync_stale_alerted_at is not null as stale,
             (select value #>> '{breaker,state}' from integration_cache where key = ${`integrations:integration:${id}:calls`}) as state
      from integrations where id = ${id}`
    // All three kinds of trouble have come, so each has had its say.
    expect(row).toEqual({ health_status: 'failing', stale: true, state: 'open' })

    const states = await test.sql`select op, incident, reason, source, peak from states order by id`
    expect(incidents).toHaveLength(1)
    expect(states.filter(({ op }) => op === 'INSERT')).toHaveLength(1)
    const [incident] = incidents
    expect(incident).toMatchObject({ status: 'open', closed_at: null, peak_severity: 'failing' })
    expect(SOURCES).toContain(`${incident?.reason} ${incident?.source}`)
    const kept = states.map(({ reason, source }) => `${reason} ${source}`)
    expect(new Set(kept)).toEqual(new Set([`${incident?.reason} ${incident?.source}`]))
    const severities = ['healthy', 'degraded', 'failing', 'disabled']
    const peaks = states.map(({ peak }) => severities.indexOf(peak as string))
    expect(peaks).toEqual([...peaks].sort((a, b) => a - b))

    // Told once by whoever opened it, and once for each change.
    const count = (of: 'opened' | 'escalated') => told.reduce((sum, each) => sum + each[of], 0)
    expect([count('opened'), count('escalated')]).toEqual([1, states.length - 1])
  } finally {
    await Promise.all(openers.map(({ process: child }) => child.stop()))
  }
})
