/** What a policy says of a host and of an address. Rule: docs/behaviour/egress.md, "Rules". */

import { EgressRefused, InvalidArgumentException } from '../framework/errors.ts'
import type { EgressRule } from './address-rules.ts'
import { bareHost, EGRESS_RULE, parseEgressRule } from './address-rules.ts'
import { allows, holds, parseAddress, whyNotPublic } from './addresses.ts'

/** Whether a connection is encrypted: `http:` is not. */
export type Scheme = 'http:' | 'https:'

const REMEDY = 'To reach it on purpose: the option egress.allow; of a notification target, allow_private'
const PLAIN = `http: would send credentials in the clear. Use https. ${REMEDY}`

export class EgressRules {
  readonly #allow: readonly EgressRule[]
  readonly #deny: readonly EgressRule[]

  /** @throws InvalidArgumentException for an entry that is no rule */
  constructor({ allow = [], deny = [] }: { allow?: readonly string[]; deny?: readonly string[] }) {
    this.#allow = allow.map((text, index) => ruleOf(text, `egress.allow.${index}`))
    this.#deny = deny.map((text, index) => ruleOf(text, `egress.deny.${index}`))
  }

  /** Whether the name itself is allowed, so that its address does not matter. */
  isTrusted(hostname: string): boolean {
    return this.#allow.some((rule) => names(rule, bareHost(hostname)))
  }

  /** Checks all that needs no address of the host. @throws EgressRefused */
  checkHost(hostname: string, scheme: Scheme): void {
    const host = bareHost(hostname)
    if (this.#deny.some((rule) => names(rule, host))) throw new EgressRefused(host, 'the option egress.deny names it')
    if (parseAddress(host) !== null) this.checkAddresses(host, scheme, [host])
    else if (scheme === 'http:' && !this.isTrusted(host) && !this.#allow.some(({ kind }) => kind === 'range'))
      throw new EgressRefused(host, `it is asked for without TLS, and ${PLAIN}`)
  }

  /** One forbidden address refuses the host: any of them may be dialled. @throws EgressRefused */
  checkAddresses(hostname: string, scheme: Scheme, addresses: readonly string[]): void {
    const host = bareHost(hostname)
    const isTrusted = this.isTrusted(host)
    for (const text of addresses) {
      const reason = this.#reason(text, { isTrusted, scheme })
      if (reason !== null)
        throw new EgressRefused(host, text === host ? `it ${reason}` : `it resolves to ${text}, which ${reason}`)
    }
  }

  /** What is wrong with the address, as the end of a sentence. */
  #reason(text: string, { isTrusted, scheme }: { isTrusted: boolean; scheme: Scheme }): string | null {
    const address = parseAddress(text)
    if (address === null) return 'is no address'
    const isDenied = (rule: EgressRule) => rule.kind === 'range' && holds(rule, address)
    const isAllowed = (rule: EgressRule) => rule.kind === 'range' && allows(rule, address)
    if (this.#deny.some(isDenied)) return 'is in a range of the option egress.deny'
    if (isTrusted || this.#allow.some(isAllowed)) return null
    const kind = whyNotPublic(address)
    if (kind !== null) return `is ${kind}, not public. ${REMEDY}`
    return scheme === 'http:' ? `is public, and ${PLAIN}` : null
  }
}

function ruleOf(text: string, argument: string): EgressRule {
  const rule = parseEgressRule(text)
  if (rule === null) throw new InvalidArgumentException(argument, `must be ${EGRESS_RULE}, not "${text}"`)
  return rule
}

function names(rule: EgressRule, host: string): boolean {
  if (rule.kind === 'host') return rule.host === host
  return rule.kind === 'below' && host.endsWith(`.${rule.host}`)
}
