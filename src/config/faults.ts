/**
 * Errors of single checks as problems of the whole: a process that can't start says everything at once.
 * Rule: docs/behaviour/configuration.md, "Problems".
 */

import type { ConfigurationProblem, InvalidEncryptionKeys, InvalidProvider } from '../framework/errors.ts'
import { InvalidConfiguration, isIntegrationsError } from '../framework/errors.ts'

const KEY_RING =
  '"kid:base64[,kid:base64...]", 32 bytes each, the first one writes ' +
  `(a new one: node -e "console.log('k1:' + require('crypto').randomBytes(32).toString('base64'))")`

/** Runs a check that throws. Undefined when it found problems; an error that is none of the configuration is thrown on. */
export function attempt<T>(problems: ConfigurationProblem[], key: string, check: () => T): T | undefined {
  try {
    return check()
  } catch (error) {
    problems.push(...problemsOf(key, error))
    return undefined
  }
}

/** As {@link attempt}, of a check that is under way. */
export async function attemptLater<T>(
  problems: ConfigurationProblem[],
  key: string,
  check: Promise<T>,
): Promise<T | undefined> {
  try {
    return await check
  } catch (error) {
    problems.push(...problemsOf(key, error))
    return undefined
  }
}

/** @param key for errors that name none themselves */
function problemsOf(key: string, error: unknown): readonly ConfigurationProblem[] {
  // An error of this very package, told apart by its code: the fields are those of its class.
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

/** @throws InvalidConfiguration when there are any */
export function refuse(problems: readonly ConfigurationProblem[]): void {
  if (problems.length > 0) throw new InvalidConfiguration(problems)
}
