import { expect, it } from 'vitest'
import { startupOf } from '../../src/db/startup-message-rules.ts'

const VERSION = 3 << 16

/** Length, code, and texts that end with a zero each. */
function message(code: number, texts: readonly string[] = [], length?: number): Buffer {
  const body = Buffer.from(texts.map((text) => `${text}\0`).join(''))
  const head = Buffer.alloc(8)
  head.writeUInt32BE(length ?? 8 + body.length, 0)
  head.writeUInt32BE(code, 4)
  return Buffer.concat([head, body])
}

/** The same without the last zero. */
function endless(texts: readonly string[]): Buffer {
  const bytes = message(VERSION, texts).subarray(0, -1)
  bytes.writeUInt32BE(bytes.length, 0)
  return bytes
}

it.each([
  ['a question for TLS', message(80_877_103), { kind: 'encryption' }],
  ['a question for GSS', message(80_877_104), { kind: 'encryption' }],
  ['a cancel', message(80_877_102), { kind: 'cancel' }],
  ['a session', message(VERSION, ['user', 'ada', 'database', 'app', '']), { kind: 'session', database: 'app' }],
  ['a later minor version', message(VERSION + 2, ['database', 'app', '']), { kind: 'session', database: 'app' }],
  ['a session without a database', message(VERSION, ['user', 'ada', '']), { kind: 'session', database: 'ada' }],
  ['an empty database', message(VERSION, ['database', '', 'user', 'ada', '']), { kind: 'session', database: 'ada' }],
  ['no one', message(VERSION, ['application_name', 'x', '']), { kind: 'other' }],
  [
    'what comes after the end',
    message(VERSION, ['user', 'ada', '', 'database', 'app', '']),
    { kind: 'session', database: 'ada' },
  ],
  [
    'a name without a value',
    Buffer.from(message(VERSION, ['user', 'ada', 'database']).subarray(0, -1)),
    { kind: 'other' },
  ],
  [
    'a pair after the end',
    message(VERSION, ['user', 'ada', '', 'x', 'database', 'app', '']),
    { kind: 'session', database: 'ada' },
  ],
  ['a name that ends with the message', endless(['user', 'ada', 'database']), { kind: 'session', database: 'ada' }],
  ['a length beyond the bytes', message(VERSION, ['user', 'ada', ''], 1_000), { kind: 'other' }],
  [
    'a length before the bytes’ end',
    Buffer.concat([message(VERSION, ['user', 'ada', '']), Buffer.from('database\0app\0\0')]),
    { kind: 'session', database: 'ada' },
  ],
  ['another major version', message(2 << 16, ['user', 'ada', '']), { kind: 'other' }],
  ['seven bytes', message(80_877_103).subarray(0, 7), { kind: 'other' }],
  ['no bytes', Buffer.alloc(0), { kind: 'other' }],
  ['a text', 'a text of some length', { kind: 'other' }],
])('%s', (_, bytes, startup) => {
  expect(startupOf(bytes)).toEqual(startup)
})

it('reads bytes that lie in the middle of a larger buffer', () => {
  const bytes = message(VERSION, ['user', 'ada', ''])
  const inside = new Uint8Array(Buffer.concat([Buffer.alloc(16, 7), bytes, Buffer.alloc(16, 7)]).buffer.slice(0))
  const at = Buffer.from(inside.buffer).indexOf(bytes)
  expect(startupOf(new Uint8Array(inside.buffer, at, bytes.length))).toEqual({ kind: 'session', database: 'ada' })
})
