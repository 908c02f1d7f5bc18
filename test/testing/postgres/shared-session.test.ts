import { describe, expect, it } from 'vitest'
import type { Backend } from '../../../src/testing/postgres/shared-session.ts'
import { SharedSession } from '../../../src/testing/postgres/shared-session.ts'

const [one, two] = [Symbol('one'), Symbol('two')]

/** Answers `begin` with an open transaction, `parse` with no state, and anything else with an idle session. */
function scripted() {
  const ran: string[] = []
  let isOpen = false
  const backend: Backend = {
    async execProtocolRaw(bytes) {
      const text = Buffer.from(bytes).toString()
      ran.push(text)
      if (text === 'begin') isOpen = true
      if (text === 'commit' || text.includes('rollback')) isOpen = false
      if (text === 'parse') return Buffer.from([0x31, 0, 0, 0, 4])
      return Buffer.from([0x5a, 0, 0, 0, 5, isOpen ? 0x54 : 0x49])
    },
  }
  return { ran, backend }
}

describe('connections that share a session', () => {
  it('take turns; one keeps it from begin to commit, and from parse to sync', async () => {
    const { ran, backend } = scripted()
    const session = new SharedSession(backend, () => null)
    const say = (who: symbol, text: string) => session.exchange(who, Buffer.from(text))
    await Promise.all([
      say(one, 'begin'),
      say(two, 'parse'),
      say(one, 'insert'),
      say(one, 'commit'),
      say(one, 'select'),
      say(two, 'sync'),
    ])
    expect(ran).toEqual(['begin', 'insert', 'commit', 'parse', 'sync', 'select'])
  })

  it('fail when they wait for a transaction that does nothing', async () => {
    const session = new SharedSession(scripted().backend, () => null, 20)
    await session.exchange(one, Buffer.from('begin'))
    await expect(session.exchange(two, Buffer.from('select'))).rejects.toThrow(
      /one session, and another connection has kept a transaction open/,
    )
    await session.exchange(one, Buffer.from('commit'))
    await session.exchange(two, Buffer.from('select'))
  })

  it('get it back when a connection goes away within its transaction', async () => {
    const { ran, backend } = scripted()
    const session = new SharedSession(backend, () => null)
    await session.exchange(one, Buffer.from('begin'))
    const waits = session.exchange(two, Buffer.from('select'))
    session.release(one)
    await waits
    expect(ran[1]).toContain('rollback')
    expect(ran[2]).toBe('select')
  })

  it('run what must come first, but never within a transaction', async () => {
    const { ran, backend } = scripted()
    const session = new SharedSession(backend, () => 'set x')
    for (const text of ['begin', 'insert', 'commit', 'select']) await session.exchange(one, Buffer.from(text))
    expect(ran.map((text) => (text.includes('set x') ? 'set' : text))).toEqual([
      'set',
      'begin',
      'insert',
      'commit',
      'set',
      'select',
    ])
  })
})
