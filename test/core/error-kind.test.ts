import { expect, it } from 'vitest'
import { LockTimeoutException } from '../../src/framework/errors.ts'
import { errorKind } from '../../src/framework/thrown.ts'

it.each<[string, unknown, string]>([
  ['its code', new LockTimeoutException('tokens', 15), 'lock_timeout'],
  ["a system error's code", Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' }), 'ECONNREFUSED'],
  ['its class without a code', new TypeError('no token in {"access_token":"s3cret"}'), 'TypeError'],
  ['its class where the code is a text of its own', Object.assign(new RangeError('x'), { code: 'a b' }), 'RangeError'],
  ['its class where the code is a number', Object.assign(new Error('x'), { code: 14 }), 'Error'],
  ['its class where its code can not be read', withBrokenGetter('code'), 'Error'],
  ['unknown where its name can not be read', withBrokenGetter('name'), 'unknown'],
  ['unknown for what is no error', 's3cret', 'unknown'],
  ['unknown for null', null, 'unknown'],
  ['unknown where a name is a text', { name: 's3cret token' }, 'unknown'],
])('an error is told apart by %s', (_, error, kind) => {
  expect(errorKind(error)).toBe(kind)
})

/** As an SDK's error that reads a field of an answer which did not come. */
function withBrokenGetter(field: string): Error {
  return Object.defineProperty(new Error('x'), field, {
    get() {
      throw new TypeError('no answer')
    },
  })
}
