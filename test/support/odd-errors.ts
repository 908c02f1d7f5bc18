/** What can be thrown besides honest errors: nobody who handles an error may trust its fields. */

export interface OddError {
  readonly make: () => unknown
  /** What it is as texts. */
  readonly name: string
  readonly message: string
  /** What it is as one line. */
  readonly line: string
}

/** With what each is, for the names of tests. */
export const ODD_ERRORS: readonly (readonly [what: string, OddError])[] = [
  odd('an error whose message is an array', () => withField('message', ['a', 7]), 'Error', 'a,7'),
  odd('an error whose message is an object', () => withField('message', { a: 1 }), 'Error', '[object Object]'),
  odd('an error whose message has no prototype', () => withField('message', Object.create(null)), 'Error', 'object'),
  odd('an error whose message is missing', () => withField('message', undefined), 'Error', ''),
  odd('an error whose name is missing', () => withField('name', undefined), 'Error', 'no luck'),
  odd('an error whose name is a symbol', () => withField('name', Symbol('odd')), 'Symbol(odd)', 'no luck'),
  odd('an error whose message can not be read', () => throwingAt('message'), 'Error', '(unreadable)'),
  odd('an error whose name can not be read', () => throwingAt('name'), '(unreadable)', 'no luck'),
  odd('an error whose code can not be read', () => throwingAt('code'), 'Error', 'no luck'),
  odd('an error whose cause can not be read', () => throwingAt('cause'), 'Error', 'no luck'),
  ['an object that refuses every question', { make: revoked, name: 'Error', message: 'object', line: 'object' }],
]

function odd(what: string, make: () => Error, name: string, message: string): (typeof ODD_ERRORS)[number] {
  return [what, { make, name, message, line: `${name}: ${message}` }]
}

function withField(field: string, value: unknown): Error {
  return Object.defineProperty(new Error('no luck'), field, { value })
}

function throwingAt(field: string): Error {
  return Object.defineProperty(new Error('no luck'), field, {
    get() {
      throw new Error('a getter of the tests')
    },
  })
}

function revoked(): unknown {
  const { proxy, revoke } = Proxy.revocable({}, {})
  revoke()
  return proxy
}
