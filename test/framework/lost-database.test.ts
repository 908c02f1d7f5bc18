import { describe, expect, it } from 'vitest'
import { lostDatabase } from '../../src/framework/lost-database.ts'

const coded = (code: string, fields: object = {}): Error => Object.assign(new Error('away'), { code, ...fields })
const fromServer = (code: string): Error => coded(code, { name: 'PostgresError', severity: 'FATAL' })
/** As postgres.js marks what broke a statement. */
const underStatement = (code: string): Error => coded(code, { query: 'select 1', parameters: [] })

describe('a Postgres that went away', () => {
  it.each(['CONNECTION_CLOSED', 'CONNECTION_DESTROYED', 'CONNECTION_ENDED', 'CONNECT_TIMEOUT'])(
    'is known by the driver: %s',
    (code) => expect(lostDatabase(coded(code))).toBe(code),
  )

  it.each(['08000', '08006', '08P01', '25P03', '53300', '57P01', '57P02', '57P03', '57P05'])(
    'is known by its own word: %s',
    (code) => expect(lostDatabase(fromServer(code))).toBe(code),
  )

  it.each(['ECONNRESET', 'ECONNREFUSED', 'EPIPE', 'ETIMEDOUT', 'ENOTFOUND'])(
    'is known by a statement whose socket broke: %s',
    (code) => expect(lostDatabase(underStatement(code))).toBe(code),
  )

  it('is known as the cause of another error', () => {
    expect(lostDatabase(new Error('not stored', { cause: fromServer('57P01') }))).toBe('57P01')
  })

  it.each([
    ['a broken rule', fromServer('23505')],
    ['a statement that was cancelled', fromServer('57014')],
    ['a database that was dropped', fromServer('57P04')],
    ["a provider's connection", new TypeError('fetch failed', { cause: coded('ECONNRESET') })],
    ['a file', coded('ENOENT')],
    ['no error', '57P01'],
    ['nothing', null],
  ])('is not %s', (_, error) => expect(lostDatabase(error)).toBeNull())
})
