/** Bodies of the worst kinds: what once took seconds to minutes, or a gigabyte. Each holds the token, or nearly. */

export const TOKEN = 'gho_16C7e42F292c6912E7710c838347Ae178B4a'
/** A provider chooses the tokens that it issues, too: most of this one is found wherever there is an `a`. */
export const LONG_TOKEN = `${'a'.repeat(4_000)}X`
export const PATHS = ['*.card.number', 'customer.name', 'items.*.secret']

const escaped = [...TOKEN].map((sign) => `\\u00${sign.charCodeAt(0).toString(16)}`).join('')
const encoded = [...TOKEN].map((sign) => `%${sign.charCodeAt(0).toString(16)}`).join('')
const times = (unit: string, bytes: number): string => unit.repeat(Math.floor(bytes / unit.length))

export const BODIES: Readonly<Record<string, (bytes: number) => string>> = {
  'the token, again and again': (bytes) => `{"a":"${times(TOKEN, bytes)}"}`,
  'the token in escapes of JSON': (bytes) => `{"a":"${times(escaped, bytes)}"}`,
  'the token percent-encoded, beside an escape': (bytes) => `{"a":"\\u0041${times(encoded, bytes)}"}`,
  'nearly a token, everywhere': (bytes) => `{"a":"${times('a', bytes)}"}`,
  'one escape and one find': (bytes) => `{"a":"\\u0041${TOKEN}${times('x', bytes)}"}`,
  'small numbers': (bytes) => `[${times('0,', bytes)}0]`,
  'secret names': (bytes) => `[${times('{"access_token":0},', bytes)}0]`,
  'no JSON': (bytes) => times(`${TOKEN} `, bytes),
}
