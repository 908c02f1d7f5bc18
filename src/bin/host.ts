/** Loads the host's `integrations.config.ts`: the one module that API, worker and CLI share. */
import { statSync } from 'node:fs'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { createJiti } from 'jiti'
import type { Integrations } from '../create-integrations.ts'
import { InvalidConfiguration } from '../framework/errors.ts'
import { peerRange } from '../framework/package-version.ts'
import { shellWord } from '../framework/shell-word.ts'

const NAMES = ['integrations.config.ts', 'integrations.config.js', 'integrations.config.mjs']

export interface Host {
  readonly integrations: Integrations
  /** Path of a module with the host's workflows and ours: the config's export `workflowsPath`. */
  readonly workflowsPath?: string
  /** Makes the host's own tables; only `npm start` calls it. */
  readonly prepare?: () => Promise<void>
}

/**
 * @param path default: INTEGRATIONS_CONFIG, else `integrations.config.ts`, `.js` or `.mjs` in the working directory
 * @throws InvalidConfiguration when there is no such module, it exports no object of createIntegrations(), or it has registered no
 *   provider of a name that its configuration has
 */
export async function loadHost(path = process.env.INTEGRATIONS_CONFIG || undefined): Promise<Host> {
  const found = path === undefined ? NAMES.map((name) => resolve(name)).find(isFile) : resolve(path)
  if (found === undefined || !isFile(found))
    throw new InvalidConfiguration([
      {
        key: 'INTEGRATIONS_CONFIG',
        expected: `a module that exports createIntegrations(…) as default (without it: ${NAMES.join(', ')} here)`,
        received: found === undefined ? 'none of them' : `${found}, ${whyNoFile(found)}`,
      },
    ])
  const module = await importModule(found)
  // jiti answers for a default export that is not there with the module itself.
  const integrations = 'default' in module ? module.default : undefined
  // No more than its shape: the module may have loaded another copy of this package.
  if (
    typeof integrations !== 'object' ||
    integrations === null ||
    !('ready' in integrations && typeof integrations.ready === 'function')
  )
    throw new InvalidConfiguration([
      { key: found, expected: 'a default export made by createIntegrations()', received: typeof integrations },
    ])
    // Its register() calls are over. Another copy of this package may be an older one, without the check.
  ;(integrations as Partial<Integrations>).admin?.checkNames?.()
  return {
    integrations: integrations as Integrations,
    ...(typeof module.workflowsPath === 'string' ? { workflowsPath: module.workflowsPath } : {}),
    ...(typeof module.prepare === 'function' ? { prepare: module.prepare as () => Promise<void> } : {}),
  }
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() ?? false
}

function whyNoFile(path: string): string {
  return statSync(path, { throwIfNoEntry: false }) === undefined ? 'where there is no file' : 'which is no file'
}

/**
 * What Node says of a module that it does not read as it is: of TypeScript at all, of an import of `./acme.js` where `acme.ts` is
 * meant (as TypeScript has it), of a folder, of what it can't strip. It says so before anything has run.
 * https://nodejs.org/api/errors.html
 */
const UNREADABLE = [
  'ERR_UNKNOWN_FILE_EXTENSION',
  'ERR_MODULE_NOT_FOUND',
  'ERR_UNSUPPORTED_DIR_IMPORT',
  'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX',
]

/**
 * A type that is imported without the word `type`, and `import` in a package of `"type": "commonjs"`, are syntax errors without a
 * code to a Node that strips types. Of an error that the module itself has thrown, the first line of the stack names no file.
 * https://nodejs.org/api/typescript.html#importing-types-without-type-keyword
 */
function isUnreadable(error: unknown): boolean {
  if (UNREADABLE.includes((error as NodeJS.ErrnoException).code ?? '')) return true
  return error instanceof SyntaxError && /^(file:)?\/.*\.[cm]?ts:\d+$/.test(error.stack?.split('\n')[0] ?? '')
}

/** Natively where Node (or a loader such as tsx) reads the file; else by jiti, which reads TypeScript on any Node. */
export async function importModule(path: string): Promise<Record<string, unknown>> {
  try {
    return (await import(pathToFileURL(path).href)) as Record<string, unknown>
  } catch (error) {
    if (!isUnreadable(error)) throw error
  }
  try {
    // Its cache would be `/tmp/jiti`: another user of the machine could make it first, with code that we would run.
    return await createJiti(import.meta.url, { fsCache: false }).import<Record<string, unknown>>(path)
  } catch (error) {
    throw missingPackage(path, error) ?? error
  }
}

/** Such as `stripe`, which only hosts of its adapter install. Null when something else is wrong, or a file is missing. */
function missingPackage(path: string, error: unknown): InvalidConfiguration | null {
  const message = error instanceof Error ? error.message : ''
  const [, name] = /^Cannot find (?:package|module) '((?:@[\w.-]+\/)?[\w-][\w.-]*)['/]/.exec(message) ?? []
  if (name === undefined) return null
  const range = peerRange(name)
  const wanted = shellWord(range === null ? name : `${name}@${range}`)
  return new InvalidConfiguration([
    { key: path, expected: `the package ${name}: \`npm install ${wanted}\``, received: 'no such package' },
  ])
}
