import { expect, it } from 'vitest'
import { LockTimeoutException } from '../../src/framework/errors.ts'
import { errorKind } from '../../src/framework/thrown.ts'

it.each<[string, unknown, string]>([
  ['its code', new LockTimeoutException('tokens', 15), 'lock_timeout'],
  ["a system error's code", Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' }), 'ECONNREFUSED'],
  ['its class without a code', new TypeError('no token in {"access_token":"s3cret"}'), 'TypeError'],
  ['its class where the code is a text of its own', Object.assign(new RangeError('x'), { code: 'a b' }), 'RangeError'],
  ['its class where the code is a number', Object.assign(new Error('x'), { code: 14 }), 'Error'],
  ['unknown for what is no error', 's3cret', 'unknown'],
  ['unknown for null', null, 'unknown'],
  ['unknown where a name is a text', { name: 's3cret token' }, 'unknown'],
])('an error is told apart by %s', (_, error, kind) => {
  expect(errorKind(error)).toBe(kind)
})
