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
