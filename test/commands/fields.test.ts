/** What a field of a command takes. */
import { expect, it } from 'vitest'
import { z } from 'zod'
import { owner, readValues, text } from '../../src/commands/fields.ts'

const EMOJI = '😀' // two UTF-16 units, one character of Postgres

it.each([
  ['a text of 255 letters', text('a name'), 'a'.repeat(255), true],
  ['one more', text('a name'), 'a'.repeat(256), false],
  ['255 characters beyond U+FFFF', text('a name'), EMOJI.repeat(255), true],
  ['one more', text('a name'), EMOJI.repeat(256), false],
  ['a bound of its own', text('a key', 'key', 2), EMOJI.repeat(2), true],
  ['one more', text('a key', 'key', 2), EMOJI.repeat(3), false],
  ['none', text('a name'), '', false],
  ['U+0000', text('a name'), 'a\u0000', false],
  ['an owner whose type has 255 characters', owner('whose'), `${EMOJI.repeat(255)}:7`, true],
  ['one more', owner('whose'), `${EMOJI.repeat(256)}:7`, false],
])('counts characters as the database does: %s', (_, field, given, isTaken) => {
  expect('values' in readValues({ field }, { field: given })).toBe(isTaken)
})

it('says its bound in the schema of the API', () => {
  expect(z.toJSONSchema(text('a name').schema)).toMatchObject({ minLength: 1, maxLength: 255 })
})
