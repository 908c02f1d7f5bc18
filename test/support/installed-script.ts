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

/** The environment of a worker that runs from the sources, so that it makes no bundle; nothing where the project has not that setup. */
export function installedBundle(): { INTEGRATIONS_WORKFLOW_BUNDLE?: string } {
  const installed: string | undefined = inject('installed')
  if (installed === undefined) return {}
  return { INTEGRATIONS_WORKFLOW_BUNDLE: join(installed, 'node_modules/durable-integrations/dist/workflow-bundle.js') }
}
