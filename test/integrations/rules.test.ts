import { describe, expect, it } from 'vitest'
import type { OnOff, Owner } from '../../src/integrations/rules.ts'
import {
  ALLOWED_PROVIDER_IDENTIFIERS,
  activeText,
  checkOwner,
  checkOwnerFilter,
  isProviderIdentifier,
  isSwitchedOffByPerson,
  percentOf,
  switchedOffBy,
} from '../../src/integrations/rules.ts'

describe('an integration is switched off', () => {
  const on: OnOff = { isActive: true, healthStatus: 'healthy', switchedOffAt: null }
  it.each<[string, Partial<OnOff>, ReturnType<typeof switchedOffBy>, string]>([
    ['not at all', {}, null, 'yes'],
    ['not by a bad health', { healthStatus: 'failing' }, null, 'yes'],
    ['by its health', { isActive: false, healthStatus: 'disabled' }, 'its health', 'no: its health'],
    ['by a person', { isActive: false, switchedOffAt: new Date(0) }, 'an operator', 'no: an operator'],
    ['by a person, while it is still active', { switchedOffAt: '2026-01-01' }, 'an operator', 'no: an operator'],
    ['by a host that has set the column', { isActive: false }, 'an operator', 'no: an operator'],
    [
      'by both',
      { isActive: false, healthStatus: 'disabled', switchedOffAt: new Date(0) },
      'an operator',
      'no: an operator',
    ],
  ])('%s', (_, change, by, text) => {
    const integration = { ...on, ...change }
    expect([switchedOffBy(integration), activeText(integration)]).toEqual([by, text])
    expect(isSwitchedOffByPerson(integration)).toBe(by === 'an operator')
  })
})

describe('an owner', () => {
  it.each([undefined, null])('may be %s', (owner) => {
    expect(checkOwner(owner)).toBe(owner)
  })

  it.each([
    { type: 'User', id: 7 },
    { type: 'u'.repeat(255), id: Number.MAX_SAFE_INTEGER },
    // One character, two units of UTF-16.
    { type: '😀'.repeat(255), id: 1 },
  ])('is $type with the id $id', (owner) => {
    expect(checkOwner({ ...owner, other: 1 } as Owner)).toEqual(owner)
    expect(() => checkOwnerFilter(owner)).not.toThrow()
  })

  it.each([
    { type: 'User' },
    { id: 7 },
    { type: 7, id: 7 },
    { type: '', id: 7 },
    { type: ' ', id: 7 },
    { type: 'u'.repeat(256), id: 7 },
    { type: 'a\u0000b', id: 7 },
    { type: 'User', id: 0 },
    { type: 'User', id: '7' },
  ])('is not %j', (owner) => {
    const refusal = 'both a type of 1 to 255 characters and an id from 1 to 2^53 - 1 are needed'
    const error = expect.objectContaining({
      code: 'invalid_argument',
      argument: 'owner',
      message: expect.stringContaining(refusal),
    })
    expect(() => checkOwner(owner as Owner)).toThrow(error)
    expect(() => checkOwnerFilter(owner as Owner)).toThrow(error)
  })

  it('of a filter is left out, or whole', () => {
    expect(() => checkOwnerFilter(undefined)).not.toThrow()
    expect(() => checkOwnerFilter(null as never)).toThrow(
      expect.objectContaining({ argument: 'owner', message: expect.stringContaining('a type and an id are needed') }),
    )
  })
})

it.each([
  ['github', true],
  ['0x', true],
  ['a_b-c', true],
  ['a'.repeat(64), true],
  ['a'.repeat(65), false],
  ['123', false],
  ['', false],
  ['_a', false],
  ['-a', false],
  ['GitHub', false],
  ['a b', false],
  ['ä', false],
])('%j is an identifier of a provider: %s', (text, is) => {
  expect(isProviderIdentifier(text)).toBe(is)
})

it('a refused identifier is told what is allowed', () => {
  expect(ALLOWED_PROVIDER_IDENTIFIERS).toContain('1 to 64 of a-z, 0-9, "_" and "-", and not all digits')
})

it.each([
  [0, 0, null],
  [5, 0, null],
  [0, 7, 0],
  [1, 3, 33.3],
  [2, 3, 66.7],
  [7, 7, 100],
])('%d of %d are %j percent', (part, whole, percent) => {
  expect(percentOf(part, whole)).toBe(percent)
})
