/** examples/two-way as it stands: a repository and a help desk mirror each other. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { closeEndedLoops } from '../../src/echoes/loops.ts'
import { editAtRandom } from './random-edits.ts'
import type { World } from './two-way-world.ts'
import { startWorld } from './two-way-world.ts'

let world: World

beforeAll(async () => {
  world = await startWorld()
})

afterAll(() => world.close())

describe('an issue and a ticket', () => {
  it('mirror each other, and their comments', async () => {
    const issue = await world.openIssue('The door squeaks')
    const ticket = await world.openTicket('The printer is on fire')
    await world.settle(5)
    expect(await world.mirrors()).toHaveLength(2)
    await world.editIssue(issue, { title: 'The door squeaks again', comment: 'Oil is on its way' })
    await world.editTicket(ticket, { status: 'solved' })
    await world.comment(ticket, 'It was the toaster')
    await world.settle(5)
    await world.compare()
    expect(await world.mirrors()).toHaveLength(2)
  })

  it('settle after random edits on both sides, and no foreign change is suppressed', async () => {
    const seen = await editAtRandom(world, { edits: 200, records: 6, burst: 40, seed: 7 })
    expect(seen.recognised.github).toBeGreaterThan(0)
    expect(seen.recognised.deskline).toBeGreaterThan(0)
    expect(seen.rewritten).toBeGreaterThan(0)
  }, 120_000)
})

describe('two automations that undo each other', () => {
  const incidents = () => world.test.sql`
    select reason, status, opened_at from integration_incidents order by opened_at`
  /** As if the window were over. */
  const passWindow = async () => {
    await world.test
      .sql`update integration_written_records set answers = array(select a - interval '61 s' from unnest(answers) a)`
    await closeEndedLoops(world.test.framework)
  }

  it('are a loop, which opens an incident within a minute; it closes once they have stopped', async () => {
    // Random edits may have been one.
    await passWindow()
    await world.test.sql`delete from integration_incidents`
    const issue = await world.openIssue('hello')
    await world.settle(5)
    const [mirror] = (await world.mirrors()).filter((each) => each.issue === issue)
    const ticket = mirror?.ticket ?? ''
    const began = Date.now()
    await world.editIssue(issue, { title: 'HELLO' })
    for (let round = 0; round < 20 && (await incidents()).length === 0; round += 1) {
      await world.send()
      await world.work()
      // Deskline's automation wants small letters, GitHub's capital ones.
      const changes = await world.ledger()
      const wasWritten = (record: string) => changes.findLast((change) => change.record === record)?.by === 'api'
      if (wasWritten(`ticket:${ticket}`)) await world.editTicket(ticket, { subject: 'hello' })
      if (wasWritten(`issue:${issue}`)) await world.editIssue(issue, { title: 'HELLO' })
    }
    const [opened, ...more] = await incidents()
    expect(opened).toMatchObject({ reason: 'echo_loop', status: 'open' })
    expect(more).toEqual([])
    expect(Number(opened?.opened_at) - began).toBeLessThan(60_000)

    await world.settle(10)
    await world.compare()
    await passWindow()
    expect((await incidents()).map(({ status }) => status)).not.toContain('open')
  })
})

describe('a ticket that was deleted', () => {
  it('leaves its issue alone, whose later changes and comments do no harm', async () => {
    const ticket = await world.openTicket('The lift is stuck')
    await world.settle(5)
    const [mirror] = (await world.mirrors()).filter((each) => each.ticket === ticket)
    await world.deleteTicket(ticket)
    await world.settle(5)
    await world.editIssue(mirror?.issue ?? 0, { title: 'The lift is stuck again', comment: 'Take the stairs' })
    await world.settle(5)
    const failed = await world.test.sql`select event_type, error from integration_webhooks where status = 'failed'`
    expect(failed).toEqual([])
  })
})
