import { describe, expect, it } from 'vitest'
import { candidateOf } from '../../scripts/debian-packages.ts'
import { isAtLeast } from '../../scripts/versions.ts'

const policy = (candidate: string): string => `golang-go:
  Installed: (none)
  Candidate: ${candidate}
  Version table:
     2:1.99~1 100
`

describe('the version that Debian would install', () => {
  it.each([
    ['2:1.24~2', [1, 24]],
    ['2:1.22~2build1', [1, 22]],
    ['1.22.1-1', [1, 22, 1]],
    ['3.11.2-1+b1', [3, 11, 2]],
    ['(none)', null],
  ])('of the candidate %s is %j', (candidate, version) => {
    expect(candidateOf(policy(candidate))).toEqual(version)
  })

  it('is none of a package that is not known', () => {
    expect(candidateOf('')).toBeNull()
    expect(candidateOf('N: Unable to locate package golang-go')).toBeNull()
  })
})

describe('a version', () => {
  it.each([
    [[1, 22, 1], [1, 22, 1], true],
    [[1, 22], [1, 22, 1], false],
    [[1, 22, 0], [1, 22], true],
    [[1, 21, 9], [1, 22], false],
    [[1, 100], [1, 22, 1], true],
    [[2], [1, 22, 1], true],
    [[1, 19], [1, 22], false],
    [[], [1], false],
  ])('%j is at least %j: %s', (version, oldest, expected) => {
    expect(isAtLeast(version, oldest)).toBe(expected)
  })
})
