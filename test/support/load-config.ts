import type { LoadConfigOptions, LoadedConfig } from '../../src/config/load.ts'
import { collectConfig } from '../../src/config/load.ts'
import type { ConfigurationProblem } from '../../src/framework/errors.ts'
import { InvalidConfiguration } from '../../src/framework/errors.ts'

/** The configuration in force, without an object of `createIntegrations()`. @throws InvalidConfiguration with every fault */
export function loadConfig(options: LoadConfigOptions = {}): LoadedConfig {
  const problems: ConfigurationProblem[] = []
  const loaded = collectConfig(options, problems)
  if (problems.length > 0) throw new InvalidConfiguration(problems)
  return loaded
}
