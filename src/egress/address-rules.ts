/**
 * An entry of `egress.allow` and `egress.deny`: a host, all hosts below one, an address or a range of addresses.
 * Rule: docs/behaviour/egress.md, "Rules".
 */
export type EgressRule =
  | { readonly kind: 'host'; readonly host: string }
  /** Hosts of any depth below this one, itself not. */
  | { readonly kind: 'below'; readonly host: string }
  /** IPv4 with four decimal parts, or IPv6 without brackets. */
  | { readonly kind: 'range'; readonly address: string; readonly prefixBits: number }

export const EGRESS_RULE =
  'a host such as api.example.com, *.example.com for all below it, an address, or a range such as 10.0.0.0/8'

/** A host that ends with a number is an IPv4 address, or no URL has it (WHATWG URL, "ends in a number checker"). */
const IPV4 = /\.\d+$/

/** Null when the text is not such an entry. */
export function parseEgressRule(text: string): EgressRule | null {
  const [head = '', bits, ...rest] = text.split('/')
  if (rest.length > 0) return null
  if (bits !== undefined) return rangeOf(head, bits)
  if (head.startsWith('*.')) {
    const host = canonicalHost(head.slice(2))
    return host === null || isAddress(host) ? null : { kind: 'below', host }
  }
  const host = canonicalHost(head)
  if (host === null) return null
  return isAddress(host) ? rangeOf(head, String(maxBits(host))) : { kind: 'host', host }
}

/**
 * A host as URLs give it (WHATWG URL, "host parsing": lower case, punycode), without brackets and without the dot of the
 * root. Null when the text is not a host.
 */
export function canonicalHost(text: string): string | null {
  if (text === '' || /[\s/\\?#@%*]/.test(text)) return null
  const isBareIpv6 = text.includes(':') && !text.startsWith('[')
  const url = `http://${isBareIpv6 ? `[${text}]` : text}/`
  if (!URL.canParse(url)) return null
  const { hostname, port } = new URL(url)
  const host = bareHost(hostname)
  // `[::1]:80` names a port; `..` and `.a` name no host.
  if (port !== '' || (text.startsWith('[') && !text.endsWith(']')) || /^\.|\.\.|^$/.test(host)) return null
  return host
}

/** The host name of a `URL` as rules compare it: no brackets, no dot of the root. */
export function bareHost(hostname: string): string {
  return hostname.replace(/^\[(.*)\]$/, '$1').replace(/\.+$/, '')
}

function rangeOf(text: string, bits: string): EgressRule | null {
  const address = canonicalHost(text)
  if (address === null || !isAddress(address) || !/^\d{1,3}$/.test(bits)) return null
  // `10` is 0.0.0.10 to a URL and 10.0.0.0 to many a reader.
  if (IPV4.test(address) && address !== text) return null
  const prefixBits = Number(bits)
  return prefixBits > maxBits(address) ? null : { kind: 'range', address, prefixBits }
}

function isAddress(host: string): boolean {
  return IPV4.test(host) || host.includes(':')
}

function maxBits(address: string): number {
  return address.includes(':') ? 128 : 32
}
