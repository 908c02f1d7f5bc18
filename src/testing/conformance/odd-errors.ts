/**
 * What can be thrown besides the errors of a provider's own API. Left out is what refuses to be read, such as a getter that
 * throws: the framework takes a judgement that throws for none, and no author should have to guard every field.
 */

const NOW = new Date('2026-01-31T12:00:00Z')

export const ODD_ERRORS: readonly (readonly [what: string, make: () => unknown])[] = [
  ['undefined', () => undefined],
  ['null', () => null],
  ['a text', () => 'no luck'],
  ['a number', () => 429],
  ['an empty object', () => ({})],
  ['an ordinary error', () => new Error('no luck')],
  ['an aborted call', () => new DOMException('This operation was aborted', 'AbortError')],
  ['a connection that broke', () => new TypeError('fetch failed', { cause: withFields({ code: 'ECONNRESET' }) })],
  ['an error whose message is missing', () => withFields({ message: undefined })],
  ['an error whose message is an object', () => withFields({ message: { a: 1 } })],
  ['an error with a status that is a text', () => withFields({ status: '429', response: null })],
  ['an error with an answer without headers', () => withFields({ status: 403, response: {} })],
  ['an error with headers that are none', () => withFields({ status: 429, headers: 7, response: { headers: null } })],
  [
    'an error whose headers hold no numbers',
    () => withFields({ status: 429, response: { headers: { 'retry-after': 'soon', 'x-ratelimit-reset': 'never' } } }),
  ],
  [
    'an error that asks to come back in the past',
    () => withFields({ status: 429, response: { headers: { 'retry-after': '-60', date: NOW.toUTCString() } } }),
  ],
  ['an error that is its own cause', ownCause],
]

function withFields(fields: Record<string, unknown>): Error {
  const error = new Error('no luck')
  for (const [field, value] of Object.entries(fields)) Object.defineProperty(error, field, { value, enumerable: true })
  return error
}

function ownCause(): Error {
  const error = new Error('no luck')
  error.cause = error
  return error
}
