/**
 * Errors of single checks as problems of the whole: a process that can't start says everything at once.
 * Rule: docs/behaviour/configuration.md, "Problems".
 */

import type {
  ConfigurationProblem,
  InvalidConfiguration,
  InvalidEncryptionKeys,
  InvalidProvider,
} from '../framework/errors.ts'
import { isIntegrationsError } from '../framework/errors.ts'

const KEY_RING =
  '"kid:base64[,kid:base64...]", 32 bytes each, the first one writes ' +
  `(a new one: node -e "console.log('k1:' + require('crypto').randomBytes(32).toString('base64'))")`

/** Runs a check that throws. Undefined when it found problems; any other error is thrown on. */
export function attempt<T>(problems: ConfigurationProblem[], key: string, check: () => T): T | undefined {
  try {
    return check()
  } catch (error) {
    problems.push(...problemsOf(key, error))
    return undefined
  }
}

/**
 * @param key for errors that name none themselves
 * @throws an error that has nothing to do with the configuration
 */
export function problemsOf(key: string, error: unknown): readonly ConfigurationProblem[] {
  if (isIntegrationsError(error, 'invalid_configuration')) return (error as InvalidConfiguration).problems
  if (isIntegrationsError(error, 'invalid_encryption_keys')) {
    return [{ key, expected: KEY_RING, received: `none that can be used: ${(error as InvalidEncryptionKeys).reason}` }]
  }
  if (isIntegrationsError(error, 'invalid_provider') || isIntegrationsError(error, 'invalid_argument')) {
    const { reason } = error as InvalidProvider
    return [{ key, expected: 'a provider that can be registered', received: `one that can't be: ${reason}` }]
  }
  throw error
}
