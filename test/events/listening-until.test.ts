/** Listeners of framework events that are told while their worker ends. */
import { beforeEach, describe, expect, it, vi } from 'vitest'
import { Listeners } from '../../src/events/listeners.ts'
import { listeningBriefly, listeningUntil, tellingAgain } from '../../src/events/listening-until.ts'
import type { Logger } from '../../src/framework/logger.ts'
import type { Integration } from '../../src/providers/integration.ts'

const STOPS = new Error('the worker stops')
const created = { integration: { id: 7, provider: 'github', name: 'ours' } as Integration }

let lines: Record<string, unknown>[]
let listeners: Listeners
let heard: string[]
let worker: AbortController

beforeEach(() => {
  const noted: Logger['warn'] = (fields) => void lines.push(fields as Record<string, unknown>)
  lines = []
  heard = []
  listeners = new Listeners({ debug: noted, info: noted, warn: noted, error: noted })
  worker = new AbortController()
})

const hears = (name: string) => {
  listeners.on('IntegrationCreated', () => void heard.push(name))
}
/** And never ends. */
function hangs(): Promise<unknown> {
  heard.push('hangs')
  return new Promise(() => {})
}
const tell = () => listeners.emit('IntegrationCreated', created)
const turn = () => new Promise((resolve) => setImmediate(resolve))
const givenUp = (listener: string, told_again = false) => ({
  event: 'listener.given_up',
  integration: 7,
  provider: 'github',
  name: 'IntegrationCreated',
  listener,
  told_again,
})

describe('a listener that does not end', () => {
  beforeEach(() => {
    hears('first')
    listeners.on('IntegrationCreated', hangs)
    hears('last')
  })

  it('is waited for until time is up; then the next one of the same event is called', async () => {
    const told = listeningUntil(worker.signal, tell)
    await turn()
    expect(heard).toEqual(['first', 'hangs'])
    expect(lines).toEqual([])
    worker.abort(STOPS)
    await told
    expect(heard).toEqual(['first', 'hangs', 'last'])
    expect(lines).toEqual([givenUp('hangs')])
  })

  it('is called when time is up already, as is the next one', async () => {
    worker.abort(STOPS)
    await listeningUntil(worker.signal, tell)
    expect(heard).toEqual(['first', 'hangs', 'last'])
    expect(lines).toEqual([givenUp('hangs')])
  })

  it('is waited for without an end elsewhere, as in an API', async () => {
    worker.abort(STOPS)
    void tell()
    await turn()
    await turn()
    expect(heard).toEqual(['first', 'hangs'])
    expect(lines).toEqual([])
  })

  it('is waited for 30 s in a dispatch, or until its worker has to end', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    try {
      const told = listeningUntil(worker.signal, () => listeningBriefly(tell))
      vi.advanceTimersByTime(29_999)
      await turn()
      expect(heard).toEqual(['first', 'hangs'])
      vi.advanceTimersByTime(1)
      await told
      expect(heard).toEqual(['first', 'hangs', 'last'])
      const again = listeningUntil(worker.signal, () => listeningBriefly(tell))
      await turn()
      worker.abort(STOPS)
      await again
      expect(lines).toEqual([givenUp('hangs'), givenUp('hangs')])
    } finally {
      vi.useRealTimers()
    }
  })

  it('is known to who tells again, and only to that work', async () => {
    const [again, other] = [new AbortController(), new AbortController()]
    worker.abort(STOPS)
    await listeningUntil(worker.signal, async () => {
      await tellingAgain(other, async () => {})
      await tellingAgain(again, tell)
      await tell()
    })
    expect(again.signal.reason).toBe(STOPS)
    expect(other.signal.aborted).toBe(false)
    expect(lines).toEqual([givenUp('hangs', true), givenUp('hangs')])
  })
})

it('who answers at once when time is up is heard out, and a fault of it is logged as ever', async () => {
  const again = new AbortController()
  listeners.on('IntegrationCreated', async () => {
    await Promise.resolve()
    throw new Error('of the listener')
  })
  worker.abort(STOPS)
  await listeningUntil(worker.signal, () => tellingAgain(again, tell))
  expect(again.signal.aborted).toBe(false)
  expect(lines).toEqual([expect.objectContaining({ event: 'IntegrationCreated', error: 'Error: of the listener' })])
})

it('a fault after it was given up is logged, and rejects nothing', async () => {
  let fail = (_: Error): void => {}
  listeners.on(
    'IntegrationCreated',
    () =>
      new Promise((_, reject) => {
        fail = reject
      }),
  )
  worker.abort(STOPS)
  await listeningUntil(worker.signal, tell)
  fail(new Error('too late'))
  await turn()
  expect(lines.map(({ event }) => event)).toEqual(['listener.given_up', 'IntegrationCreated'])
})
