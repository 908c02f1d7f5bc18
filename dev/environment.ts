/** What API, worker and sandbox of `npm start` get of its environment: what they read, and what a process needs to run. */
import { OPTIONS, VARIABLES } from '../src/config/option-registry.ts'

const OURS: ReadonlySet<string> = new Set([
  ...Object.keys(VARIABLES),
  ...Object.values(OPTIONS).flatMap(({ variable }) => (variable === null ? [] : [variable])),
])
/** Configuration keys, and what the SDK of OpenTelemetry reads by itself. */
const OUR_PREFIXES = /^(INTEGRATIONS__|OTEL_)/
const OF_ANY_PROCESS = /^(PATH|HOME|USER|LOGNAME|TMPDIR|TZ|LANG|LC_\w+|NODE_\w+|SSL_CERT_(FILE|DIR))$/

/** The other variables, as a change of the environment: a caller that may start a workflow can have a worker read what it has. */
export function withheld(environment: NodeJS.ProcessEnv): Record<string, undefined> {
  const isNeeded = (name: string): boolean => OURS.has(name) || OUR_PREFIXES.test(name) || OF_ANY_PROCESS.test(name)
  return Object.fromEntries(Object.keys(environment).flatMap((name) => (isNeeded(name) ? [] : [[name, undefined]])))
}

/**
 * In place of what the shell says of another deployment of ours (production's key, a tutorial's tables). Empty: as if not set.
 *
 * @param startsTemporal false: Temporal is the user's own, and the shell says how to get in
 */
export function inPlaceOfTheShells(shell: NodeJS.ProcessEnv, startsTemporal: boolean): Record<string, string> {
  const { NODE_ENV, TEMPORAL_NAMESPACE, INTEGRATIONS__TABLE_PREFIX, INTEGRATIONS__CACHE_PREFIX } = shell
  // Only those that it has: to the `temporal` CLI an empty TEMPORAL_TLS_… still asks for TLS.
  const ofTemporal = [...OURS].filter((name) => name.startsWith('TEMPORAL_') && shell[name] !== undefined)
  return {
    // Our key is in a file; both is a fault.
    INTEGRATIONS_ENCRYPTION_KEYS: '',
    ...(startsTemporal ? Object.fromEntries(ofTemporal.map((name) => [name, ''])) : {}),
    TEMPORAL_NAMESPACE: (!startsTemporal && TEMPORAL_NAMESPACE) || 'default',
    // Named also where they are the usual ones: a command may run in a shell that has others.
    INTEGRATIONS__TABLE_PREFIX: INTEGRATIONS__TABLE_PREFIX ?? '',
    INTEGRATIONS__CACHE_PREFIX: INTEGRATIONS__CACHE_PREFIX ?? '',
    // INTEGRATIONS_DEV is refused in production.
    NODE_ENV: NODE_ENV && NODE_ENV !== 'production' ? NODE_ENV : 'development',
  }
}
