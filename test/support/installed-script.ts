/**
 * A process of a test's own, `*-process.ts`, as installed-package.ts has compiled it: node starts it in half the time, without
 * a loader for TypeScript. For the projects that have that setup.
 */
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { inject } from 'vitest'

const PACKAGE = fileURLToPath(new URL('../../', import.meta.url))

/**
 * @param source where the script lies in the clone
 * @param installed the folder of `installPackage()`; default: that of the vitest run
 */
export function installedScript(source: URL, installed = inject('installed')): string {
  const path = relative(PACKAGE, fileURLToPath(source)).replace(/\.ts$/, '.js')
  return join(installed, 'node_modules/durable-integrations', path)
}

/** What a host runs: the package's own program, started by node alone. */
export function installedProgram(kind: 'api' | 'worker', installed = inject('installed')): string {
  return join(installed, `node_modules/durable-integrations/dist/bin/${kind}.js`)
}

/** What a stack runs in place of the sources. */
export function installedStack(installed = inject('installed')): Record<'api' | 'worker' | 'config', string> {
  const config = join(installed, 'host/integrations.config.js')
  return { api: installedProgram('api', installed), worker: installedProgram('worker', installed), config }
}

/** The environment of a worker that runs from the sources, so that it makes no bundle, which costs some seconds of a core. */
export function installedBundle(): { INTEGRATIONS_WORKFLOW_BUNDLE: string } {
  const path = 'node_modules/durable-integrations/dist/workflow-bundle.js'
  return { INTEGRATIONS_WORKFLOW_BUNDLE: join(inject('installed'), path) }
}
