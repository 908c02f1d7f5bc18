/**
 * A process of a test's own, `*-process.ts`, as installed-package-setup.ts has compiled it: node starts it in half the time, without
 * a loader for TypeScript. For the projects that have that setup.
 */
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { inject } from 'vitest'

const PACKAGE = fileURLToPath(new URL('../../', import.meta.url))

/** @param source where the script lies in the clone */
export function installedScript(source: URL): string {
  const path = relative(PACKAGE, fileURLToPath(source)).replace(/\.ts$/, '.js')
  return join(inject('installed'), 'node_modules/durable-integrations', path)
}

/** What a host runs: the package's own program, started by node alone. */
export function installedProgram(kind: 'api' | 'worker'): string {
  return join(inject('installed'), `node_modules/durable-integrations/dist/bin/${kind}.js`)
}

/** The environment of a worker that runs from the sources, so that it makes no bundle, which costs some seconds of a core. */
export function installedBundle(): { INTEGRATIONS_WORKFLOW_BUNDLE: string } {
  const path = 'node_modules/durable-integrations/dist/workflow-bundle.js'
  return { INTEGRATIONS_WORKFLOW_BUNDLE: join(inject('installed'), path) }
}
