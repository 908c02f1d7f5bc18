/** The first message that a client sends to Postgres. https://www.postgresql.org/docs/current/protocol-message-formats.html */

export type Startup =
  | { readonly kind: 'session'; readonly database: string }
  /** It asks whether it may go on encrypted: the first message of a session comes later. */
  | { readonly kind: 'encryption' }
  | { readonly kind: 'cancel' }
  | { readonly kind: 'other' }

const CANCEL = 80_877_102
const SSL = 80_877_103
const GSSENC = 80_877_104
const MAJOR_VERSION = 3

export function startupOf(message: unknown): Startup {
  if (!(message instanceof Uint8Array) || message.length < 8) return { kind: 'other' }
  const bytes = Buffer.from(message.buffer, message.byteOffset, message.byteLength)
  const code = bytes.readUInt32BE(4)
  if (code === SSL || code === GSSENC) return { kind: 'encryption' }
  if (code === CANCEL) return { kind: 'cancel' }
  if (code >>> 16 !== MAJOR_VERSION || bytes.readUInt32BE(0) > bytes.length) return { kind: 'other' }
  const words = bytes.subarray(8, bytes.readUInt32BE(0)).toString().split('\0')
  const parameters = new Map<string, string>()
  for (let at = 0; at + 1 < words.length && words[at] !== ''; at += 2)
    parameters.set(words[at] as string, words[at + 1] as string)
  // Without it the database has the user's name.
  const database = parameters.get('database') || parameters.get('user')
  return database === undefined ? { kind: 'other' } : { kind: 'session', database }
}
