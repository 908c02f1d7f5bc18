/**
 * Temporal's client package, loaded when Temporal is first asked for anything. It takes a fifth of a second, which commands
 * that only read rows, and a host's tests, have no use for.
 */
import { createRequire } from 'node:module'

export type Sdk = typeof import('@temporalio/client')

let loaded: Sdk | undefined

/** Whoever imports the package by name gets the very same one, so `instanceof` holds. */
export function sdk(): Sdk {
  loaded ??= createRequire(import.meta.url)('@temporalio/client') as Sdk
  return loaded
}
