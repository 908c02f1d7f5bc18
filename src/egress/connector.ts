/**
 * The one place where a connection is opened: what is checked is what is dialled, so that a name that resolves anew to
 * another address (DNS rebinding) finds no gap between check and use.
 * Rule: docs/behaviour/egress.md, "When it is checked".
 */
import type { LookupAddress, LookupAllOptions, LookupOptions } from 'node:dns'
import type { LookupFunction } from 'node:net'
import type { buildConnector } from 'undici'
import type { EgressRules, Scheme } from './egress-policy.ts'

/** `dns.lookup` asked for all addresses. */
export type LookupAll = (
  hostname: string,
  options: LookupAllOptions,
  callback: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void

/** @param connectBy opens the connection, by way of {@link guardedLookup} of that scheme */
export function guardedConnector(
  rules: EgressRules,
  connectBy: Readonly<Record<Scheme, buildConnector.connector>>,
): buildConnector.connector {
  return (options, callback) => {
    const scheme = options.protocol === 'https:' ? 'https:' : 'http:'
    try {
      // Node asks no lookup about an address.
      rules.checkHost(options.hostname, scheme)
    } catch (refusal) {
      callback(refusal as Error, null)
      return
    }
    connectBy[scheme](options, callback)
  }
}

/** Gives the checked addresses and no others, as many as the socket asks for. */
export function guardedLookup(rules: EgressRules, scheme: Scheme, lookup: LookupAll): LookupFunction {
  return (hostname, options: LookupOptions, callback) => {
    resolve(rules, lookup, { hostname, scheme, options }).then(
      ([first, ...others]) => {
        if (options.all) callback(null, [first, ...others])
        else callback(null, first.address, first.family)
      },
      (error: NodeJS.ErrnoException) => callback(error, options.all ? [] : ''),
    )
  }
}

/** Every address of a host, all of them checked. @throws EgressRefused, or the resolver's error */
export async function resolve(
  rules: EgressRules,
  lookup: LookupAll,
  {
    hostname,
    scheme,
    options = {},
  }: { readonly hostname: string; readonly scheme: Scheme; readonly options?: LookupOptions },
): Promise<[LookupAddress, ...LookupAddress[]]> {
  const addresses = await new Promise<LookupAddress[]>((done, fail) => {
    lookup(hostname, { ...options, all: true }, (error, found) => (error === null ? done(found) : fail(error)))
  })
  const [first, ...others] = addresses
  if (first === undefined) {
    throw Object.assign(new Error(`no address was found for "${hostname}"`), { code: 'ENOTFOUND', hostname })
  }
  rules.checkAddresses(
    hostname,
    scheme,
    addresses.map(({ address }) => address),
  )
  return [first, ...others]
}
