/** Rehearsals of a host that has handled items and deliveries of a real server: what is seen, and that nothing goes out. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { differences } from '../../src/rehearsal/difference-rules.ts'
import type { Recording, RehearsalInput } from '../../src/rehearsal/rehearsal-jobs.ts'
import type { TestDatabase } from '../support/database.ts'
import type { DeskWorld, Playground } from './desk-world.ts'
import { deskWorld, playground } from './desk-world.ts'
import { PLANTED } from './planted-changes.ts'

/** Of each kind of handling one at least, before the many. */
const FEW = 24

let world: DeskWorld
let copy: TestDatabase
let ground: Playground
let since: string
let all: RehearsalInput
let few: RehearsalInput
let baseline: Recording

beforeAll(async () => {
  world = await deskWorld(4)
  since = new Date(Date.now() - 60_000).toISOString()
  all = { since, limit: 10_000 }
  few = { since, limit: FEW }
  await world.sync()
  const { tickets } = await world.control<{ tickets: { id: string }[] }>('POST', '/tickets', { count: 4 })
  const [first, second] = tickets.map(({ id }) => id)
  await world.control('PATCH', `/tickets/${first}`, { subject: 'Printer on fire', status: 'pending' })
  await world.control('POST', `/tickets/${second}/comments`, { body: 'Is anybody there?' })
  await world.control('POST', `/tickets/${second}/comments`, { body: 'poison' })
  await world.control('PATCH', `/tickets/${second}`, { subject: 'broken' })
  await world.control('DELETE', '/tickets/tkt_3')
  await world.deliver()
  await world.deliver()
  await world.sync()
  for (let round = 0; round < 2; round += 1) {
    const more = await world.control<{ tickets: { id: string }[] }>('POST', '/tickets', { count: 25 })
    for (const { id } of more.tickets.slice(0, 10)) await world.control('PATCH', `/tickets/${id}`, { status: 'solved' })
    await world.deliver()
  }
  await world.sync()
  await world.deliver()
  await world.control('DELETE', '/requests')
  copy = await world.copy()
  ground = await playground(world, copy.url)
  baseline = await ground.play(few)
}, 120_000)

afterAll(async () => {
  await ground.close()
  await world.close()
})

describe('a rehearsal', () => {
  it('finds no difference for code that has not changed, over hundreds of deliveries and items', async () => {
    const { pieces, more } = await ground.play(all)
    expect(more).toBe(false)
    expect(pieces.filter(({ kind }) => kind === 'webhook').length).toBeGreaterThan(100)
    expect(pieces.filter(({ kind }) => kind === 'item').length).toBeGreaterThan(50)
    expect(pieces.filter(({ cannot }) => cannot.length > 0)).toEqual([])
    expect(differences(pieces, null)).toEqual([])
    expect(await requests()).toEqual([])
  })

  it('has enough planted changes', () => {
    expect(PLANTED.length).toBeGreaterThanOrEqual(50)
    expect(baseline.pieces.map(({ kind, type, happened }) => `${kind} ${type} ${happened.status}`)).toEqual(
      expect.arrayContaining([
        'item desk.ticket succeeded',
        'item desk.ticket failed',
        'webhook ticket.created succeeded',
        'webhook ticket.updated succeeded',
        'webhook ticket.deleted succeeded',
        'webhook ticket.commented succeeded',
        'webhook ticket.commented failed',
      ]),
    )
  })

  it.each(PLANTED)('sees a change: $change', async ({ plant, takesBaseline = false }) => {
    const { pieces } = await ground.play(few, plant)
    expect(differences(pieces, baseline.pieces)).not.toEqual([])
    // What happened alone tells it, too, or does not.
    expect(differences(pieces, null).length > 0).toBe(!takesBaseline)
  })

  it('has asked the provider for nothing', async () => {
    expect(await requests()).toEqual([])
  })
})

const requests = async (): Promise<unknown[]> =>
  (await world.control<{ requests: unknown[] }>('GET', '/requests')).requests
