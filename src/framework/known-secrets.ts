/**
 * What a handle of an integration has known and no row or log line may hold: its credentials, and those that it
 * had before a refresh or was given since. A handle itself gives out only the newest.
 * Rule: docs/behaviour/requests.md, "Redaction".
 */
import { secretsOf } from './redaction.ts'

interface HasCredentials {
  credentialsArray(): object
}

const SOURCES = new WeakMap<HasCredentials, () => object>()

/** @param source gives the same object while it knows the same */
export function registerSecrets(integration: HasCredentials, source: () => object): void {
  SOURCES.set(integration, source)
}

/** @throws CredentialsUnreadable */
export function secretsKnownTo(integration: HasCredentials): readonly string[] {
  return knownSecrets(SOURCES.get(integration)?.() ?? integration.credentialsArray())
}

const FOUND = new WeakMap<object, readonly string[]>()

/** Found once for an object of credentials, which never changes: a handle gives out copies. */
export function knownSecrets(credentials: object): readonly string[] {
  const known = FOUND.get(credentials) ?? secretsOf(credentials)
  FOUND.set(credentials, known)
  return known
}
