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
