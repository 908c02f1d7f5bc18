/**
 * vitest globalSetup: installs this package once for the run. Test files put hosts of their own below that folder
 * (`inject('installed')`): they import the package by its name, and start its programs from node_modules.
 */
import { rm } from 'node:fs/promises'
import type { TestProject } from 'vitest/node'
import { installPackage } from './installed-package.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** Folder that has this package in its node_modules, compiled. Inside the clone, so that what the package needs is found. */
    installed: string
  }
}

/** Setup files are loaded once for each project, so a variable of this module would not be shared. */
const SHARED = Symbol.for('durable-integrations.test.installed')
type Shared = { users: number; readonly folder: string }
const registry = globalThis as { [SHARED]?: Shared }

export default function setup(project: TestProject): () => Promise<void> {
  registry[SHARED] ??= { users: 0, folder: installPackage() }
  const shared = registry[SHARED]
  shared.users++
  project.provide('installed', shared.folder)
  return async () => {
    if (--shared.users > 0) return
    delete registry[SHARED]
    await rm(shared.folder, { recursive: true, force: true })
  }
}
