/**
 * As much of Postgres' wire protocol as it takes to hand whole exchanges on and to answer for the server.
 *
 * Source: https://www.postgresql.org/docs/current/protocol-message-formats.html
 */

/** Messages after which a client waits for an answer: Query, Sync, Flush, CopyDone, CopyFail, CopyData. */
const ASKS = 'QSHcfd'

/** Whole messages up to one that asks for an answer, with that one's type. */
export interface Exchange {
  readonly bytes: Buffer
  readonly asks: string
}

/** Cuts what came in into whole exchanges, and what is left. */
export function exchangesIn(bytes: Buffer): { exchanges: Exchange[]; rest: Buffer } {
  const exchanges: Exchange[] = []
  let from = 0
  for (let at = 0; at + 5 <= bytes.length; ) {
    const end = at + 1 + bytes.readInt32BE(at + 1)
    if (end > bytes.length) break
    const type = String.fromCharCode(bytes[at] as number)
    at = end
    if (!ASKS.includes(type) && type !== 'X') continue
    exchanges.push({ bytes: bytes.subarray(from, end), asks: type })
    from = end
  }
  return { exchanges, rest: bytes.subarray(from) }
}

/** The session's state after an answer: idle, in a transaction, in a failed one; null while the exchange goes on. */
export function stateAfter(answer: Uint8Array): 'I' | 'T' | 'E' | null {
  const bytes = Buffer.from(answer.buffer, answer.byteOffset, answer.byteLength)
  let state: 'I' | 'T' | 'E' | null = null
  for (let at = 0; at + 5 <= bytes.length; ) {
    const length = 1 + bytes.readInt32BE(at + 1)
    state = bytes[at] === 0x5a ? (String.fromCharCode(bytes[at + 5] as number) as 'I' | 'T' | 'E') : null
    at += length
  }
  return state
}

export function query(text: string): Buffer {
  return message('Q', Buffer.from(`${text}\0`))
}

export const SYNC = message('S', Buffer.alloc(0))
export const READY = message('Z', Buffer.from('I'))

/** The start of a session as this user of this database. */
export function startup(user: string, database: string): Buffer {
  const settings = Buffer.from(`user\0${user}\0database\0${database}\0\0`)
  const head = Buffer.alloc(8)
  head.writeInt32BE(8 + settings.length, 0)
  head.writeInt32BE(3 << 16, 4) // protocol 3.0
  return Buffer.concat([head, settings])
}

export function errorResponse(code: string, text: string): Buffer {
  return message('E', Buffer.from(`SERROR\0VERROR\0C${code}\0M${text}\0\0`))
}

function message(type: string, body: Buffer): Buffer {
  const head = Buffer.alloc(5)
  head.write(type)
  head.writeInt32BE(4 + body.length, 1)
  return Buffer.concat([head, body])
}
