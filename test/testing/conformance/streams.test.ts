/** The conformance suite on a provider with several streams: each is put through the checks of a listing, by its name. */
import { integer, pgTable } from 'drizzle-orm/pg-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { mappedTable } from '../../../src/index.ts'
import type { Integration, SyncSession } from '../../../src/provider.ts'
import type { HasStreams, SyncStream } from '../../../src/providers/contracts.ts'
import { describeProvider } from '../../../src/testing/index.ts'
import type { Suite } from './recorded-suite.ts'
import { recordedSuite } from './recorded-suite.ts'
import { SOUND_FIXTURES, SoundProvider } from './sound-provider.ts'

/** Without a model no listing of a stream is a full one. */
class OneStream extends SoundProvider {
  override sync(integration: Integration, session: SyncSession): Promise<void> {
    return this.list(integration, session, {})
  }
}

/** Two streams, each lists what the sound provider does. */
function helpDesk(archive: Partial<SyncStream> = {}): HasStreams {
  const sound = new OneStream()
  const stream: SyncStream = {
    sync: sound.sync.bind(sound),
    syncIncremental: sound.syncIncremental.bind(sound),
    syncWindow: sound.syncWindow.bind(sound),
    reduceCheckpoints: sound.reduceCheckpoints.bind(sound),
    events: sound.syncItemEvents(),
  }
  return { defaultRateLimit: () => null, streams: { tickets: stream, archive: { ...stream, ...archive } } }
}

const { checkpoints = [], cursor = null, window, ...rest } = SOUND_FIXTURES
const listing = { checkpoints, cursor, ...(window && { window }) }
const FIXTURES = { ...rest, streams: { tickets: listing, archive: listing } }

describeProvider('tickets', helpDesk, FIXTURES, { describe, it, afterAll })

/** Declares its model, and calls `fullListing()` without naming it, as in a run. */
function modelled(): HasStreams {
  const { tickets, archive } = helpDesk().streams as { tickets: SyncStream; archive: SyncStream }
  const sound = new SoundProvider()
  return { ...helpDesk(), streams: { tickets: { ...tickets, sync: sound.sync.bind(sound), model: 'ticket' }, archive } }
}

const ticket = mappedTable(pgTable('tickets', { id: integer().primaryKey() }), { type: 'ticket' })
describeProvider('modelled', modelled, { ...FIXTURES, kit: { models: { ticket } } }, { describe, it, afterAll })

describe('a provider with streams', () => {
  let suite: Suite
  beforeAll(async () => {
    suite = await recordedSuite()
  }, 60_000)
  afterAll(() => suite.close())

  it('is told of which stream a rule does not hold', async () => {
    const last: Partial<SyncStream> = { reduceCheckpoints: (all) => all.at(-1) ?? null }
    const results = await suite.of(
      () => helpDesk(last),
      FIXTURES,
      (contract) => contract.endsWith('reduceCheckpoints()'),
    )
    const contracts = (isBroken: boolean) => [
      ...new Set(results.filter(({ error }) => (error !== null) === isBroken).map(({ contract }) => contract)),
    ]
    expect(contracts(true)).toEqual(['the stream archive: reduceCheckpoints()'])
    expect(contracts(false)).toContain('the stream tickets: reduceCheckpoints()')
  }, 60_000)

  it('is told which stream lacks its fixtures', async () => {
    const without = { ...rest, streams: { tickets: listing } }
    const [, fixtures] = await suite.of(helpDesk, without, (contract) => contract === 'what it declares')
    expect(String(fixtures?.error)).toContain('`streams.archive.checkpoints`, 3 or more: it syncs')
    expect(String(fixtures?.error)).not.toContain('streams.tickets')
  }, 60_000)
})
