/**
 * Temporal's package for activities, loaded when a worker first needs it: the testing kit runs the same activities without
 * Temporal, and a host's tests have no use for it.
 */
import { createRequire } from 'node:module'

type Sdk = typeof import('@temporalio/activity')

const require = createRequire(import.meta.url)

/** Whoever imports the package by name gets the very same one, so `instanceof` holds. */
export function sdk(): Sdk {
  return require('@temporalio/activity') as Sdk
}
