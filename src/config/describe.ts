/**
 * The configuration in force, key by key, as `integrations config` shows it.
 * Rule: docs/behaviour/configuration.md, "What is in force".
 */
import type { ConfigSource, LoadedConfig } from './load.ts'
import type { ConfigUnit } from './schema.ts'
import { CONFIG_KEYS, configValue, defaultHandlerTimeout } from './schema.ts'

export interface ConfigEntry {
  readonly key: string
  /** What is in force; a secret is masked. */
  readonly value: unknown
  readonly source: ConfigSource
  readonly default: unknown
  readonly unit: ConfigUnit | null
  readonly meaning: string
}

/** In the order of the reference table. */
export function describeConfig({ config, sources }: LoadedConfig): readonly ConfigEntry[] {
  return [...CONFIG_KEYS].map(([key, { default: declared, unit, meaning, secret }]) => ({
    key,
    value: secret ? maskedList(configValue(config, key)) : configValue(config, key),
    source: sources[key] ?? 'default',
    default: key === 'webhook.handler_timeout' ? defaultHandlerTimeout(config.webhook.processing_timeout) : declared,
    unit,
    meaning,
  }))
}

/** How many there are, and nothing of them; an empty list is shown as it is. Whatever is no list shows nothing at all. */
function maskedList(value: unknown): unknown {
  if (!Array.isArray(value)) return '(masked)'
  if (value.length === 0) return value
  return `${value.length} ${value.length === 1 ? 'entry' : 'entries'} (masked)`
}
