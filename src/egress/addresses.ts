/**
 * Which addresses are public: global unicast, by the special-purpose registries of IANA.
 * https://www.iana.org/assignments/iana-ipv4-special-registry, …/iana-ipv6-special-registry
 * Rule: docs/behaviour/egress.md, "Addresses".
 */
import ipaddr from 'ipaddr.js'

export type Address = ipaddr.IPv4 | ipaddr.IPv6

/** First match decides. */
const NOT_PUBLIC_IPV4 = table([
  ['0.0.0.0/8', 'this network'],
  ['10.0.0.0/8', 'private use'],
  ['100.64.0.0/10', 'shared by carriers'],
  ['127.0.0.0/8', 'loopback'],
  ['169.254.0.0/16', 'link-local'],
  ['172.16.0.0/12', 'private use'],
  ['192.0.0.0/24', 'protocol assignments'],
  ['192.0.2.0/24', 'documentation'],
  ['192.88.99.0/24', 'deprecated 6to4 relays'],
  ['192.168.0.0/16', 'private use'],
  ['198.18.0.0/15', 'benchmarking'],
  ['198.51.100.0/24', 'documentation'],
  ['203.0.113.0/24', 'documentation'],
  ['224.0.0.0/4', 'multicast'],
  ['255.255.255.255/32', 'broadcast'],
  ['240.0.0.0/4', 'reserved'],
])

const NOT_PUBLIC_IPV6 = table([
  ['::/128', 'unspecified'],
  ['::1/128', 'loopback'],
  ['64:ff9b:1::/48', 'local translation'],
  ['100::/64', 'discard only'],
  ['fc00::/7', 'unique local'],
  ['fe80::/10', 'link-local'],
  ['fec0::/10', 'deprecated site-local'],
  ['ff00::/8', 'multicast'],
  // Both tunnels reach whatever IPv4 address is written in theirs; no provider lives there.
  ['2001::/32', 'Teredo'],
  ['2002::/16', '6to4'],
  ['2001::/23', 'protocol assignments'],
  ['2001:db8::/32', 'documentation'],
  ['3fff::/20', 'documentation'],
])

const GLOBAL_UNICAST = ipaddr.IPv6.parseCIDR('2000::/3') // RFC 4291, 2.4, with what IANA has given out

/** Prefixes whose last 32 bits are the IPv4 address that is reached: RFC 4291, 2.5.5.2; RFC 6052, 2.1. */
const MAPPED = ipaddr.IPv6.parseCIDR('::ffff:0:0/96')
const TRANSLATED = ipaddr.IPv6.parseCIDR('64:ff9b::/96')
/** Nothing sends to these any more, but a rule that denies the address inside still means them. */
const COMPATIBLE = ipaddr.IPv6.parseCIDR('::/96')
const SIX_TO_FOUR = ipaddr.IPv6.parseCIDR('2002::/16')
const TEREDO = ipaddr.IPv6.parseCIDR('2001::/32')
/** What is sent to them reaches an IPv4 address. */
const LEADING_TO_IPV4 = [MAPPED, TRANSLATED, SIX_TO_FOUR, TEREDO]

/** Null when the text is not an address, such as a host's name. An IPv4 address has four decimal parts. */
export function parseAddress(text: string): Address | null {
  if (ipaddr.IPv4.isValidFourPartDecimal(text)) return ipaddr.IPv4.parse(text)
  return ipaddr.IPv6.isValid(text) ? ipaddr.IPv6.parse(text) : null
}

/** What the address is instead of public, such as `loopback (127.0.0.0/8)`; null when it is public. */
export function whyNotPublic(address: Address): string | null {
  if (isIpv4(address)) return found(NOT_PUBLIC_IPV4, address)
  if (address.match(MAPPED) || address.match(TRANSLATED)) return whyNotPublic(lastBits(address))
  return found(NOT_PUBLIC_IPV6, address) ?? (address.match(GLOBAL_UNICAST) ? null : 'outside 2000::/3')
}

/** The address, and the IPv4 address that is written in it. */
export function formsOf(address: Address): Address[] {
  if (isIpv4(address)) return [address]
  if ([MAPPED, TRANSLATED, COMPATIBLE].some((prefix) => address.match(prefix))) return [address, lastBits(address)]
  const bytes = address.toByteArray()
  if (address.match(SIX_TO_FOUR)) return [address, new ipaddr.IPv4(bytes.slice(2, 6))] // RFC 3056, 2
  if (address.match(TEREDO)) {
    // The server, and the client with its bits turned over: RFC 4380, 4.
    return [address, new ipaddr.IPv4(bytes.slice(4, 8)), new ipaddr.IPv4(bytes.slice(12).map((byte) => byte ^ 0xff))]
  }
  return [address]
}

export interface AddressRange {
  readonly address: string
  readonly prefixBits: number
}

/** Whether the range holds the address in any of its forms. An IPv6 range that is IPv4 in disguise holds the IPv4 addresses. */
export function holds(range: AddressRange, address: Address): boolean {
  const start = parseAddress(range.address)
  if (start === null) return false
  const isMappedRange = !isIpv4(start) && start.match(MAPPED) && range.prefixBits >= 96
  const from = isMappedRange ? lastBits(start) : start
  const bits = isMappedRange ? range.prefixBits - 96 : range.prefixBits
  return formsOf(address).some((form) => {
    if (isIpv4(form)) return isIpv4(from) && form.match(from, bits)
    return !isIpv4(from) && form.match(from, bits)
  })
}

/** The same for a range that is allowed: who allows a wide range of IPv6, such as `::/0`, means no IPv4 address that it leads to. */
export function allows(range: AddressRange, address: Address): boolean {
  const isWider = (prefix: [ipaddr.IPv6, number]) => range.prefixBits < prefix[1]
  const isOfIpv6 = parseAddress(range.address)?.kind() === 'ipv6' && !isIpv4(address)
  if (isOfIpv6 && LEADING_TO_IPV4.some((prefix) => isWider(prefix) && address.match(prefix))) return false
  return holds(range, address)
}

function isIpv4(address: Address): address is ipaddr.IPv4 {
  return address.kind() === 'ipv4'
}

function lastBits(address: ipaddr.IPv6): ipaddr.IPv4 {
  return new ipaddr.IPv4(address.toByteArray().slice(12))
}

type Range = readonly [cidr: string, start: Address, bits: number, name: string]

function table(rows: readonly (readonly [cidr: string, name: string])[]): readonly Range[] {
  return rows.map(([cidr, name]) => [cidr, ...ipaddr.parseCIDR(cidr), name])
}

function found(ranges: readonly Range[], address: Address): string | null {
  const range = ranges.find(([, start, bits]) => address.match(start, bits))
  return range === undefined ? null : `${range[3]} (${range[0]})`
}
