import fc from 'fast-check'
import ipaddr from 'ipaddr.js'
import { describe, expect, it } from 'vitest'
import { allows, holds, parseAddress, whyNotPublic } from '../../src/egress/addresses.ts'

const reasonOf = (text: string) => {
  const address = parseAddress(text)
  if (address === null) throw new Error(`${text} is no address`)
  return whyNotPublic(address)
}

/** First and last of every range that the registries call not globally reachable, and multicast. */
const REFUSED_IPV4 = [
  ['0.0.0.0', '0.255.255.255'],
  ['10.0.0.0', '10.255.255.255'],
  ['100.64.0.0', '100.127.255.255'],
  ['127.0.0.0', '127.255.255.255'],
  ['169.254.0.0', '169.254.255.255'],
  ['172.16.0.0', '172.31.255.255'],
  ['192.0.0.0', '192.0.0.255'],
  ['192.0.2.0', '192.0.2.255'],
  ['192.88.99.0', '192.88.99.255'],
  ['192.168.0.0', '192.168.255.255'],
  ['198.18.0.0', '198.19.255.255'],
  ['198.51.100.0', '198.51.100.255'],
  ['203.0.113.0', '203.0.113.255'],
  ['224.0.0.0', '239.255.255.255'],
  ['240.0.0.0', '255.255.255.254'],
  ['255.255.255.255', '255.255.255.255'],
] as const

const REFUSED_IPV6 = [
  ['::', '::'],
  ['::1', '::1'],
  ['::2', '::ffff:ffff'], // IPv4-compatible, deprecated
  ['::ffff:0:0:0', '::ffff:0:ffff:ffff'], // IPv4-translated, RFC 2765
  ['64:ff9b:1::', '64:ff9b:1:ffff:ffff:ffff:ffff:ffff'],
  ['100::', '100::ffff:ffff:ffff:ffff'],
  ['100:0:0:1::', '100:0:0:1:ffff:ffff:ffff:ffff'],
  ['2001::', '2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff'],
  ['2001:2::', '2001:2:0:ffff:ffff:ffff:ffff:ffff'],
  ['2001:10::', '2001:1f:ffff:ffff:ffff:ffff:ffff:ffff'],
  ['2001:db8::', '2001:db8:ffff:ffff:ffff:ffff:ffff:ffff'],
  ['2002::', '2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
  ['3fff::', '3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff'],
  ['4000::', '5eff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
  ['5f00::', '5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
  ['fc00::', 'fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
  ['fe80::', 'febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
  ['fec0::', 'feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
  ['ff00::', 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
] as const

describe('an address', () => {
  it.each([...REFUSED_IPV4, ...REFUSED_IPV6])('is not public from %s to %s', (first, last) => {
    expect(reasonOf(first)).not.toBeNull()
    expect(reasonOf(last)).not.toBeNull()
  })

  it.each([
    // Both neighbours of each IPv4 range, where they are in no other.
    ...['1.0.0.0', '9.255.255.255', '11.0.0.0', '100.63.255.255', '100.128.0.0', '126.255.255.255', '128.0.0.0'],
    ...['169.253.255.255', '169.255.0.0', '172.15.255.255', '172.32.0.0', '191.255.255.255', '192.0.1.0', '192.0.3.0'],
    ...['192.88.98.255', '192.88.100.0', '192.167.255.255', '192.169.0.0', '198.17.255.255', '198.20.0.0'],
    ...['198.51.99.255', '198.51.101.0', '203.0.112.255', '203.0.114.0', '223.255.255.255', '8.8.8.8'],
    // Special, and globally reachable.
    ...['192.31.196.1', '192.52.193.1', '192.175.48.1', '2620:4f:8000::1'],
    ...['2001:200::', '2001:db7:ffff::', '2001:db9::', '2000::1', '2003::', '2606:4700::1', '3ffe::', '3fff:1000::'],
    ...['::ffff:8.8.8.8', '64:ff9b::8.8.8.8'],
  ])('is public: %s', (text) => {
    expect(reasonOf(text)).toBeNull()
  })

  it.each([
    ['127.0.0.1', 'loopback (127.0.0.0/8)'],
    ['169.254.169.254', 'link-local (169.254.0.0/16)'],
    ['::ffff:169.254.169.254', 'link-local (169.254.0.0/16)'],
    ['64:ff9b::10.0.0.1', 'private use (10.0.0.0/8)'],
    ['255.255.255.255', 'broadcast (255.255.255.255/32)'],
    ['fd00:ec2::254', 'unique local (fc00::/7)'],
    ['fe80::1%eth0', 'link-local (fe80::/10)'],
    ['4000::', 'outside 2000::/3'],
  ])('%s is %s', (text, reason) => {
    expect(reasonOf(text)).toBe(reason)
  })

  it.each(['', 'localhost', '127.1', '0x7f000001', '017700000001', '2130706433', '127.0.0.256', '::1::', '1.2.3.4/8'])(
    'is none: %j',
    (text) => {
      expect(parseAddress(text)).toBeNull()
    },
  )
})

const number = (text: string) =>
  ipaddr.IPv4.parse(text)
    .toByteArray()
    .reduce((sum, byte) => sum * 256 + byte, 0)
const bytesOf = (value: number) => [value >>> 24, (value >>> 16) & 255, (value >>> 8) & 255, value & 255]
const notPublic = fc.oneof(
  ...REFUSED_IPV4.map(([first, last]) => fc.integer({ min: number(first), max: number(last) }).map(bytesOf)),
)
const groups = (bytes: readonly number[]) =>
  [0, 2].map((at) => (((bytes[at] ?? 0) << 8) | (bytes[at + 1] ?? 0)).toString(16)).join(':')
const DISGUISES: [name: string, (bytes: readonly number[]) => string][] = [
  ['mapped', (bytes) => `::ffff:${groups(bytes)}`],
  ['mapped, with dots', (bytes) => `::ffff:${bytes.join('.')}`],
  ['compatible', (bytes) => `::${groups(bytes)}`],
  ['NAT64', (bytes) => `64:ff9b::${groups(bytes)}`],
  ['local NAT64', (bytes) => `64:ff9b:1::${groups(bytes)}`],
  ['6to4', (bytes) => `2002:${groups(bytes)}::1`],
  ['Teredo client', (bytes) => `2001:0:808:808:0:0:${groups(bytes.map((byte) => byte ^ 0xff))}`],
  ['Teredo server', (bytes) => `2001:0:${groups(bytes)}::1`],
]

describe('an IPv4 address in disguise', () => {
  it.each(DISGUISES)('stays refused: %s', (_name, disguise) => {
    fc.assert(fc.property(notPublic, (bytes) => reasonOf(disguise(bytes)) !== null))
  })

  it.each(DISGUISES.filter(([name]) => name !== 'local NAT64'))(
    'is held by the range of its own: %s',
    (_name, disguise) => {
      fc.assert(
        fc.property(fc.ipV4(), fc.integer({ min: 0, max: 32 }), (inside, prefixBits) => {
          const address = parseAddress(disguise(ipaddr.IPv4.parse(inside).toByteArray()))
          return address !== null && holds({ address: inside, prefixBits }, address)
        }),
      )
    },
  )
})

describe('a range', () => {
  it.each<[address: string, bits: number, inside: string[], outside: string[]]>([
    ['10.1.2.3', 8, ['10.0.0.0', '10.255.255.255', '::ffff:10.0.0.1'], ['11.0.0.0', 'fd00::a00:1']],
    ['10.0.0.1', 32, ['10.0.0.1'], ['10.0.0.2', '10.0.0.0']],
    ['::ffff:10.0.0.0', 104, ['10.9.9.9', '::ffff:10.9.9.9'], ['11.0.0.0']],
    ['::', 0, ['::1', '2001:db8::', 'fd00::', '::ffff:10.0.0.1', '64:ff9b::a00:1', '2002:a00:1::1'], ['10.0.0.1']],
    ['64:ff9b::', 64, ['64:ff9b::a00:1'], ['10.0.0.1']],
    ['64:ff9b::', 96, ['64:ff9b::a00:1'], ['10.0.0.1', '::ffff:10.0.0.1']],
    ['0.0.0.0', 0, ['10.0.0.1', '255.255.255.255'], ['fd00::1']],
    ['fd00::', 8, ['fd00::1', 'fdff::'], ['fc00::', 'fe80::']],
  ])('%s/%i', (address, prefixBits, inside, outside) => {
    const isHeld = (text: string) =>
      holds({ address, prefixBits }, parseAddress(text) as NonNullable<ReturnType<typeof parseAddress>>)
    expect(inside.filter((text) => !isHeld(text))).toEqual([])
    expect(outside.filter(isHeld)).toEqual([])
  })
})

describe('a range that is allowed', () => {
  it.each<[address: string, bits: number, inside: string[], outside: string[]]>([
    [
      '::',
      0,
      ['::1', '2001:db8::', 'fd00::'],
      ['10.0.0.1', '::ffff:10.0.0.1', '64:ff9b::a00:1', '2002:a00:1::1', '2001:0:a00:1::1'],
    ],
    ['64:ff9b::', 64, ['64:ff9b::1:0:0'], ['64:ff9b::a00:1']],
    ['64:ff9b::', 96, ['64:ff9b::a00:1'], ['10.0.0.1']],
    ['2002::', 16, ['2002:a00:1::1'], ['10.0.0.1']],
    ['10.1.2.3', 8, ['10.0.0.0', '::ffff:10.0.0.1', '64:ff9b::a00:1', '2002:a00:1::1'], ['11.0.0.0']],
  ])('%s/%i', (address, prefixBits, inside, outside) => {
    const isAllowed = (text: string) =>
      allows({ address, prefixBits }, parseAddress(text) as NonNullable<ReturnType<typeof parseAddress>>)
    expect(inside.filter((text) => !isAllowed(text))).toEqual([])
    expect(outside.filter(isAllowed)).toEqual([])
  })
})
