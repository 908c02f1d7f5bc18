/**
 * Faults that no key has by itself: between two keys, and between a key and what is registered.
 * Rule: docs/behaviour/configuration.md, "Keys that depend on each other".
 */

import type { ConfigurationProblem } from '../framework/errors.ts'
import { shown } from './received.ts'
import type { Config } from './schema.ts'
import { configValue } from './schema.ts'

const BUILT_IN_MIDDLEWARE: readonly string[] = ['web', 'operator', 'signed', 'same-origin']

/** What is registered outside the configuration; undefined where it is not known yet, and then unchecked. */
export interface Registered {
  /** Those of the top-level option `providers`: none may stand in `config.providers` too. */
  readonly optionProviderKeys?: Iterable<string> | undefined
  /** The host's middleware; the built-in ones are known. */
  readonly middlewareNames?: Iterable<string> | undefined
}

const RELATIONS = {
  'at least': (value: number, bound: number) => value >= bound,
  'at most': (value: number, bound: number) => value <= bound,
  'less than': (value: number, bound: number) => value < bound,
}

const RELATED: readonly [key: string, relation: keyof typeof RELATIONS, other: string][] = [
  ['sync.lock_ttl', 'at least', 'sync.job_timeout'],
  ['health.degraded_after', 'at most', 'health.failing_after'],
  ['health.failing_after', 'at most', 'health.disabled_after'],
  ['webhook.handler_timeout', 'less than', 'webhook.processing_timeout'],
  // As the SDK has it: a poller takes a slot before it asks, and a workflow task a place among the cached workflows.
  ['worker.activity_pollers', 'at most', 'worker.activity_slots'],
  ['worker.workflow_task_pollers', 'at most', 'worker.workflow_task_slots'],
  ['worker.workflow_task_slots', 'at most', 'worker.cached_workflows'],
]

/** @param faulty keys that have a problem of their own: comparing them would only add noise */
export function crossProblems(config: Config, faulty: ReadonlySet<string>): ConfigurationProblem[] {
  const { webhook, oauth, operator } = config
  // Null is no bound.
  const boundOf = (key: string) => (configValue(config, key) as number | null) ?? Number.POSITIVE_INFINITY
  const problems: ConfigurationProblem[] = []
  for (const [key, relation, other] of RELATED) {
    if (faulty.has(key) || faulty.has(other) || RELATIONS[relation](boundOf(key), boundOf(other))) continue
    problems.push({ key, expected: `${relation} ${other} (${boundOf(other)})`, received: String(boundOf(key)) })
  }
  const shared = (
    [
      ['webhook.prefix', webhook.prefix],
      ['oauth.route_prefix', oauth.route_prefix],
    ] as const
  ).find(([key, prefix]) => prefix === operator.prefix && !faulty.has(key))
  if (shared !== undefined && !faulty.has('operator.prefix'))
    problems.push({
      key: 'operator.prefix',
      expected: `a prefix of its own, not that of ${shared[0]}`,
      received: shown(operator.prefix),
    })
  return [...problems, ...takenMetricsPath(config, faulty)]
}

/** The API mounts our other routes first: they would answer in place of the metrics, or ask for another kind of caller. */
function takenMetricsPath(
  { metrics: { path }, webhook, oauth, operator }: Config,
  faulty: ReadonlySet<string>,
): ConfigurationProblem[] {
  if (path === null || faulty.has('metrics.path')) return []
  const prefixes = {
    'webhook.prefix': `/${webhook.prefix}`,
    'oauth.route_prefix': `/${oauth.route_prefix}`,
    'operator.prefix': `/${operator.prefix}`,
  }
  const [taken] = Object.entries(prefixes).filter(
    ([key, prefix]) => !faulty.has(key) && (path === prefix || path.startsWith(`${prefix}/`)),
  )
  if (taken !== undefined) {
    const [key, prefix] = taken
    return [{ key: 'metrics.path', expected: `a path outside of ${key} (${prefix})`, received: shown(path) }]
  }
  if (path !== oauth.success_redirect || faulty.has('oauth.success_redirect')) return []
  return [{ key: 'metrics.path', expected: 'another path than oauth.success_redirect', received: shown(path) }]
}

/** A provider is named in one place. */
export function providerProblems(
  configProviders: readonly string[],
  { optionProviderKeys }: Registered,
): ConfigurationProblem[] {
  const optionProviders = new Set(optionProviderKeys)
  const expected = 'one registration, under the option providers or under config.providers'
  return configProviders
    .filter((name) => optionProviders.has(name))
    .map((provider) => ({ key: `providers.${provider}`, expected, received: 'both' }))
}

/**
 * Keys of `sync.queues` and `handledBy` are providers. Judged when API, workers or a command begin: some are registered after the
 * configuration is read.
 */
export function unknownProviders(
  { sync: { queues } }: Config,
  handledBy: object,
  providerKeys: readonly string[],
): ConfigurationProblem[] {
  const expected = `a registered provider (${providerKeys.join(', ') || 'there is none'})`
  return Object.entries({ 'sync.queues': queues, handledBy }).flatMap(([key, byProvider]) =>
    Object.keys(byProvider)
      .filter((name) => !providerKeys.includes(name))
      .map((provider) => ({ key: `${key}.${provider}`, expected, received: shown(provider) })),
  )
}

export function middlewareProblems(config: Config, { middlewareNames }: Registered): ConfigurationProblem[] {
  if (middlewareNames === undefined) return []
  const registered = new Set([...BUILT_IN_MIDDLEWARE, ...middlewareNames])
  const expected = `a registered middleware (${[...registered].join(', ')})`
  return middlewareLists(config).flatMap(([list, names]) =>
    names.flatMap((name, index) =>
      registered.has(name) ? [] : [{ key: `${list}.${index}`, expected, received: shown(name) }],
    ),
  )
}

/** An empty list is obeyed, and its routes ask no caller for a name. A warning says so where the default asks. */
export function emptyMiddlewareWarnings(config: Config): string[] {
  return middlewareLists(config)
    .filter(([list, names]) => list !== 'webhook.middleware' && names.length === 0)
    .map(([list]) => `${list} is empty: its routes are open to everyone.`)
}

function middlewareLists({ webhook, oauth }: Config): [name: string, list: readonly string[]][] {
  return [
    ['webhook.middleware', webhook.middleware],
    ['oauth.middleware', oauth.middleware],
    ['oauth.callback_middleware', oauth.callback_middleware],
  ]
}
