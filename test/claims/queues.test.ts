/** Which rows a pump may claim, and which of those it holds may start. */
import { beforeEach, describe, expect, it, vi } from 'vitest'
import type { Queued } from '../../src/claims/queues.ts'
import { Queues } from '../../src/claims/queues.ts'
import type { QueuedValues, Row } from '../support/pumped-rows.ts'
import { queuedRow } from '../support/pumped-rows.ts'

const CONCURRENCY = 4
let queues: Queues<Row>
let nowMs = 0

beforeEach(() => {
  nowMs = 1_000_000
  vi.spyOn(performance, 'now').mockImplementation(() => nowMs)
  queues = new Queues(CONCURRENCY)
})

function add(queue: number, count = 1, values: QueuedValues = {}): Queued<Row>[] {
  const rows = Array.from({ length: count }, () => queuedRow(queue, values))
  queues.add(rows)
  return rows
}

function take(queue: number): Queued<Row> {
  const taken = queues.take(queue)
  if (taken === null) throw new Error('nothing may start')
  return taken
}

/** Runs one row of it, for so long. It is not settled. */
function run(queue: number, ms: number): void {
  add(queue)
  const taken = take(queue)
  nowMs += ms
  queues.done(taken, true)
}

describe('the room', () => {
  it('of an integration that it does not know is what can run at once, less what it holds', () => {
    expect(queues.room()).toEqual({ integrations: 300, rows: 64, room: 4, rooms: {}, isPartial: false })
    add(1, 3)
    expect(queues.room()).toMatchObject({ room: 4, rooms: { 1: 1 }, isPartial: false })
    add(1)
    expect(queues.room()).toMatchObject({ rooms: { 1: 0 }, isPartial: true })
  })

  it.each([
    [1, 200],
    [20, 200],
    [40, 100],
    [100, 40],
    [200, 20],
    [1_000, 20],
  ])('of a fast one is a second’s work, within bounds: handlers of %i ms, %i rows', (ms, rows) => {
    run(1, ms)
    expect(queues.room().rooms).toEqual({ 1: rows - 1 })
  })

  it('of a fast one is nothing while more than half of it is here, so that no claim is for a few rows', () => {
    run(1, 100)
    add(1, 19)
    expect(queues.room().rooms).toEqual({ 1: 20 })
    add(1)
    expect(queues.room()).toMatchObject({ rooms: { 1: 0 }, isPartial: true })
  })

  it.each([
    ['whose handlers take more than a second', () => run(1, 1_001), 3],
    [
      'whose oldest handler runs for more than a second',
      () => {
        run(1, 1)
        add(1)
        take(1)
        nowMs += 1_001
      },
      2,
    ],
  ])('of one %s is what can start', (_, slow, room) => {
    slow()
    expect(queues.room().rooms).toEqual({ 1: room })
  })

  it('of one that was slow is so the next time, too; a fast one is forgotten a second after its last row', () => {
    run(1, 5_000)
    queues.settled(1)
    run(2, 5)
    queues.settled(2)
    // A backlog is behind its last row: the next claim may take a second's work.
    expect(queues.room().rooms).toEqual({ 1: 4, 2: 200 })
    nowMs += 1_001
    expect(queues.room().rooms).toEqual({})
    expect(queues.queues).toBe(0)
    add(1)
    add(2)
    add(1, 3)
    expect(queues.room().rooms).toEqual({ 1: 0, 2: 3 })
  })

  it('of slow ones is nothing once they hold half of all together; that of fast ones stays', () => {
    for (let id = 1; id <= 600; id += 1) run(id, 0)
    for (let id = 1; id <= 500; id += 1) {
      add(id, 3)
      for (let n = 0; n < 3; n += 1) take(id)
    }
    nowMs += 1_001
    const { rooms, rows } = queues.room()
    expect(queues.held).toBe(2_100)
    expect([rooms[1], rooms[500], rooms[501]]).toEqual([0, 0, 199])
    expect(rows).toBe(400)
  })

  it('of all is 4,000 rows and 64 MiB', () => {
    for (let id = 1; id <= 39; id += 1) add(id, 100)
    expect(queues.room().rows).toBe(100)
    add(40, 100)
    expect(queues.room()).toMatchObject({ rows: 0, isPartial: true })
    const large = new Queues<Row>(CONCURRENCY)
    const mib = 1_024 * 1_024
    large.add(Array.from({ length: 60 }, (_, id) => queuedRow(id, { bytes: mib })))
    expect(large.room().rows).toBe(4)
    large.add(Array.from({ length: 4 }, (_, id) => queuedRow(id, { bytes: mib })))
    expect(large.room()).toMatchObject({ rows: 0, isPartial: true })
  })

  it('is not taken by rows that wait for another one of their key', () => {
    add(1, 4, { key: 'hot' })
    take(1)
    expect(queues.take(1)).toBeNull()
    expect(queues.room()).toMatchObject({ rooms: { 1: 3 } })
    // For all that, no integration holds more than the largest room.
    add(1, 196, { key: 'hot' })
    expect(queues.room()).toMatchObject({ rooms: { 1: 0 }, isPartial: true })
  })
})

describe('rows of an integration', () => {
  it('start in order, no more at once than webhook.concurrency, beside those of others', () => {
    const rows = add(1, 6)
    add(2)
    const taken = [take(1), take(1), take(1), take(1)]
    expect(taken).toEqual(rows.slice(0, 4))
    expect(queues.take(1)).toBeNull()
    expect(take(2).queue).toBe(2)
    queues.done(taken[2] as Queued<Row>, true)
    expect(take(1)).toBe(rows[4])
    expect(queues.take(1)).toBeNull()
    expect(queues.waiting()).toEqual([1])
  })

  it('start no more while 200 outcomes are not stored', () => {
    for (let n = 0; n < 200; n += 1) run(1, 1)
    add(1)
    expect(queues.take(1)).toBeNull()
    expect(queues.room().rooms).toEqual({ 1: 0 })
    queues.settled(1)
    expect(queues.take(1)).not.toBeNull()
  })

  it('of one key run one at a time, the newest version first; of equal ones the first; others beside them', () => {
    const versions = [3, 1, 7, 7, 2].map((version) => queuedRow(1, { key: 'a', version }))
    const other = queuedRow(1, { key: 'b' })
    const free = queuedRow(1)
    queues.add([...versions, other, free])
    const [third, , seven, secondSeven] = versions
    const first = take(1)
    expect(first).toBe(seven)
    expect([take(1), take(1)]).toEqual([other, free])
    expect(queues.take(1)).toBeNull()
    queues.done(first, true)
    const next = take(1)
    expect(next).toBe(secondSeven)
    queues.done(next, true)
    expect(take(1)).toBe(third)
  })

  it('that are late are taken out, and no others', () => {
    const [late] = add(1, 1, { startBy: nowMs + 30_000 })
    const [soon] = add(1, 1, { startBy: nowMs + 30_001 })
    const [running] = add(2, 1, { startBy: nowMs })
    take(2)
    expect(queues.takeLate()).toEqual([])
    nowMs += 30_000
    expect(queues.takeLate()).toEqual([late?.row])
    expect(queues.held).toBe(2)
    expect(queues.unstarted()).toEqual([soon?.row])
    expect(queues.takeOut()).toEqual([soon?.row])
    expect(queues.held).toBe(1)
    queues.done(running as Queued<Row>, false)
    expect(queues.held).toBe(0)
  })

  it('rest for two seconds after one that could not run, and then are as new', () => {
    add(1)
    queues.done(take(1), false)
    add(1)
    expect(queues.take(1)).toBeNull()
    expect(queues.room()).toMatchObject({ rooms: { 1: 0 }, isPartial: true })
    nowMs += 2_000
    expect(queues.room()).toMatchObject({ rooms: { 1: 3 }, isPartial: false })
    expect(queues.take(1)).not.toBeNull()
  })

  it('that rest keep no pump from ending for longer, without a row of it', () => {
    add(1)
    queues.done(take(1), false)
    expect(queues.held).toBe(0)
    expect(queues.room()).toMatchObject({ rooms: { 1: 0 }, isPartial: true })
    nowMs += 2_000
    expect(queues.room()).toMatchObject({ rooms: {}, isPartial: false })
  })

  it('have a backlog while more of them wait', () => {
    expect(queues.hasBacklog(1)).toBe(false)
    add(1, 2)
    take(1)
    expect(queues.hasBacklog(1)).toBe(true)
    take(1)
    expect(queues.hasBacklog(1)).toBe(false)
  })
})

describe('a pump is pressed', () => {
  it('while some integration has more to do than its lanes take', () => {
    add(1, CONCURRENCY)
    for (let n = 0; n < CONCURRENCY; n += 1) take(1)
    expect(queues.isPressed).toBe(false)
    add(1)
    expect(queues.isPressed).toBe(true)
  })

  it('while it holds half of what it may', () => {
    for (let id = 1; id <= 1_999; id += 1) add(id)
    expect(queues.isPressed).toBe(false)
    add(2_000)
    expect(queues.isPressed).toBe(true)
  })
})
