import { describe, expect, it } from 'vitest'
import { FailedSignIns } from '../../src/operations/sign-in-limit.ts'

const WINDOW_MS = 60_000

function failing(times: number, address: string | null = '203.0.113.7', failed = new FailedSignIns()): FailedSignIns {
  for (let n = 0; n < times; n += 1) failed.note(address, n)
  return failed
}

describe('a source that fails to sign in', () => {
  it.each([
    [0, null],
    [9, null],
    [10, 60],
    [25, 60],
  ])('%i times waits %s seconds', (times, wait) => {
    expect(failing(times).waitSeconds('203.0.113.7', 25)).toBe(wait)
  })

  it('may try again a minute after its first failure, inclusive', () => {
    const failed = failing(10)
    expect([WINDOW_MS - 1, WINDOW_MS].map((now) => failed.waitSeconds('203.0.113.7', now))).toEqual([1, null])
  })

  it('begins anew then', () => {
    const failed = failing(10)
    failed.note('203.0.113.7', WINDOW_MS)
    expect(failed.waitSeconds('203.0.113.7', WINDOW_MS)).toBeNull()
  })

  it('holds nobody else up', () => {
    expect(failing(10).waitSeconds('203.0.113.8', 10)).toBeNull()
  })

  it.each([
    ['of the same /64', '2001:db8:1:2::5', '2001:db8:1:2:ffff::1', 60],
    ['of another /64', '2001:db8:1:2::5', '2001:db8:1:3::5', null],
    ['as IPv4 in IPv6', '::ffff:203.0.113.7', '::ffff:203.0.113.7', 60],
    ['as another IPv4 in IPv6', '::ffff:203.0.113.7', '::ffff:203.0.113.8', null],
    ['whose address nobody knows', null, null, 60],
  ])('%s: %s and %s', (_, from, other, wait) => {
    expect(failing(10, from).waitSeconds(other, 10)).toBe(wait)
  })

  it('is forgotten for want of room when ten thousand others have failed since', () => {
    const failed = failing(10)
    for (let n = 0; n < 9_999; n += 1) failed.note(`198.51.${n >> 8}.${n & 255}`, 20)
    expect(failed.waitSeconds('203.0.113.7', 20)).toBe(60)
    failed.note('192.0.2.1', 20)
    expect(failed.waitSeconds('203.0.113.7', 20)).toBeNull()
  })
})
